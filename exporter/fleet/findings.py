"""From the estimate to verdicts: one for each cause, the children of a named node or leaf not repeated."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from exporter.fleet.baseline import segment_median
from exporter.fleet.cause import cause
from exporter.fleet.evidence import Witness, interval
from exporter.fleet.leafterm import PERIODS
from exporter.fleet.levels import SLOW_RATIO
from exporter.fleet.locate import BOTH, CLEAR, INTERMITTENT, SLOW, TRANSMIT, UNDETERMINED, Estimate, estimate
from exporter.fleet.patterns import FLICKER
from exporter.fleet.probes import Bools, Nics, Probes, index
from exporter.fleet.topology import Topology
from exporter.fleet.units import percent, rail_name, show_rate
from exporter.fleet.verdicts import Findings, Leaf, Link, Node, Pair, Undetermined

NODE_SHARE = 0.75
NODE_RAILS = 3
LEAF_SHARE = 0.5
LEAF_NICS = 3


@dataclass(frozen=True, slots=True)
class Answer:
    """Verdicts, and what they were made of; `normal` is the median rail's rate in the unit of Probes.rate, or
    NaN.
    """

    findings: Findings
    nics: Nics
    estimate: Estimate
    normal: float


def findings(probes: Probes, topology: Topology) -> Answer:
    """Locate, and put it in words. Probes are in the order of time."""
    nics = index(probes)
    leaf, leaf_names = topology.place(probes, nics)
    result = estimate(probes, nics, leaf)
    witness = Witness(probes, nics, leaf, result)
    by_leaf, leaves = _leaves(witness, leaf_names)
    by_node, nodes = _nodes(witness, by_leaf)
    covered = by_leaf | by_node
    blamed = np.flatnonzero((result.status >= SLOW) & ~covered).tolist()
    links = sorted((_link(witness, nic, topology) for nic in blamed), key=lambda link: -link.loss)
    doubts = [
        *_doubts(witness, covered),
        *_rail_doubts(witness),
        *_leaf_doubts(witness, leaf_names),
        *_unmeasured(probes, nics, topology),
    ]
    found = Findings(
        links=tuple(links),
        nodes=tuple(nodes),
        leaves=tuple(leaves),
        pairs=tuple(_pairs(witness)),
        undetermined=tuple(doubts),
        healthy=int((result.status == CLEAR).sum()),
        resolution=result.resolution,
        noise=result.noise.probe,
        normal=witness.normals(),
    )
    normal = result.base.normal[np.isfinite(result.base.normal)]
    return Answer(found, nics, result, float(np.median(normal)) if normal.size else math.nan)


def _link(witness: Witness, nic: int, topology: Topology) -> Link:
    result, probes = witness.result, witness.probes
    seen = witness.seen(nic)
    intermittent = result.status[nic] == INTERMITTENT
    judged = seen.value[seen.value < FLICKER] if intermittent else seen.value
    loss, low, high = interval(judged)
    why = cause(
        seen.value,
        result.noise.probe,
        probes.utilization[seen.probe],
        probes.errors[seen.probe],
        probes.marks[seen.probe],
    )
    evidence = f"{witness.accusation(nic, seen, loss)}{_cage(witness, nic, topology)}; {why.cause}: {why.why}"
    node, rail = witness.name(nic)
    way = int(result.direction[nic])
    return Link(
        node=node,
        rail=rail,
        verdict="intermittent" if intermittent else "slow",
        loss=loss,
        loss_low=low,
        loss_high=high,
        probes=int(seen.value.size),
        slow_probes=int(seen.slow.sum()),
        direction="both" if way == BOTH else "transmit" if way == TRANSMIT else "receive",
        cause=why.cause.value,
        evidence=evidence,
        next=witness.next_probe(nic, seen.partner.tolist()),
    )


def _cage(witness: Witness, nic: int, topology: Topology) -> str:
    """Another slow rail in the same transceiver cage, if there is one: then it is one cause."""
    node, rail = witness.name(nic)
    cage = topology.cage.get((node, rail))
    if cage is None:
        return ""
    mates = np.flatnonzero((witness.nics.node == witness.nics.node[nic]) & (witness.result.status >= SLOW)).tolist()
    others = [witness.name(mate)[1] for mate in mates if mate != nic and topology.cage.get(witness.name(mate)) == cage]
    return (
        f"; {rail_name(', '.join(others))} in the same cage {cage} is slow too: one transceiver or cable"
        if others
        else ""
    )


def _nodes(witness: Witness, covered: Bools) -> tuple[Bools, list[Node]]:
    """Nodes most of whose rails are slow, and which NICs that covers."""
    result, nics = witness.result, witness.nics
    size = len(witness.probes.nodes)
    slow = (result.status == SLOW) & ~covered
    bad, all_rails = (
        np.bincount(nics.node[slow], minlength=size),
        np.bincount(nics.node[~covered], minlength=size),
    )
    whole = (bad >= NODE_RAILS) & (bad >= NODE_SHARE * all_rails)
    found = []
    for node in np.flatnonzero(whole).tolist():
        rails = np.flatnonzero(slow & (nics.node == node)).tolist()
        losses = [interval(witness.seen(nic).value)[0] for nic in rails]
        name = witness.probes.nodes[node]
        what = (
            f"{name} lost {percent(min(losses))} to {percent(max(losses))} on {len(rails)} of {all_rails[node]} rails"
        )
        evidence = (
            f"{what}, against partners fast with others: the host's side, not so many cables (PCIe, firmware, power)"
        )
        found.append(Node(name, "slow", float(np.median(losses)), evidence))
    return whole[nics.node], sorted(found, key=lambda node: -node.loss)


def _leaves(witness: Witness, names: tuple[str, ...]) -> tuple[Bools, list[Leaf]]:
    """Leaf-rails whose uplinks are slow, or most of whose NICs are; and the NICs that this covers."""
    result, nics, probes = witness.result, witness.nics, witness.probes
    found, covered = [], np.zeros(result.status.size, bool)
    terms = result.leaves
    for at in np.flatnonzero(terms.slow).tolist():
        leaf, rail, loss = names[terms.leaf[at]], probes.rails[terms.rail[at]], 1 - math.exp(float(terms.term[at]))
        what = f"leaf {leaf} {rail_name(rail)} lost {percent(loss)} in most probes across leaves and not inside"
        evidence = f"{what}: its uplinks, or congestion above them; switch counters decide, no NIC is blamed"
        found.append(Leaf(leaf, rail, "slow", round(loss, 4), evidence))
    known = witness.leaf >= 0
    rails = max(len(probes.rails), 1)
    key = witness.leaf * rails + nics.rail
    slow = known & (result.status == SLOW)
    groups, bad = np.unique(key[slow], return_counts=True)
    for group, count in zip(groups.tolist(), bad.tolist(), strict=True):
        members = known & (key == group)
        if count < LEAF_NICS or count <= LEAF_SHARE * members.sum():
            continue
        covered |= members
        losses = [interval(witness.seen(nic).value)[0] for nic in np.flatnonzero(members & slow).tolist()]
        leaf, rail = names[group // rails], probes.rails[group % rails]
        what = f"leaf {leaf} {rail_name(rail)}: {count} of {int(members.sum())} NICs on it are slow"
        evidence = f"{what}: the switch, not its NICs"
        found.append(Leaf(leaf, rail, "slow", float(np.median(losses)), evidence))
    return covered, found


def _pairs(witness: Witness) -> Iterator[Pair]:
    pairs = witness.result.pairs
    for first, second, level, count in zip(
        pairs.first.tolist(), pairs.second.tolist(), pairs.level.tolist(), pairs.probes.tolist(), strict=True
    ):
        (src, rail), (dst, _) = witness.name(first), witness.name(second)
        loss = round(1 - math.exp(level), 4)
        what = f"{src} and {dst} {rail_name(rail)} lost {percent(loss)} with each other in {count} of {count} probes"
        yield Pair(src, dst, rail, "slow", loss, f"{what}, both fast elsewhere: the path between them")


def _doubts(witness: Witness, covered: Bools) -> Iterator[Undetermined]:
    for nic in np.flatnonzero((witness.result.status == UNDETERMINED) & ~covered).tolist():
        yield Undetermined(*witness.name(nic), *witness.doubt(nic))


def _rail_doubts(witness: Witness) -> Iterator[Undetermined]:
    """Rails whose normal is far below the others': peers of one rail can't see that all of them are slow."""
    base, probes = witness.result.base, witness.probes
    known = np.isfinite(base.normal)
    kind = base.scope * (int(base.engine.max(initial=0)) + 1) + base.engine
    usual = segment_median(base.normal[known], kind[known], int(kind.max(initial=0)) + 1)
    for at in np.flatnonzero(known & (base.normal < SLOW_RATIO * np.nan_to_num(usual)[kind])).tolist():
        mine, others = (show_rate(float(rate), probes.unit) for rate in (base.normal[at], usual[kind[at]]))
        rail = probes.rails[base.rail[at]]
        why = (
            f"all of {rail_name(rail)} is at {mine} where the median rail is at {others}: slow as a whole, or built so"
        )
        yield Undetermined("*", rail, why, f"compare {rail_name(rail)}'s negotiated rate with the other rails'")


def _leaf_doubts(witness: Witness, names: tuple[str, ...]) -> Iterator[Undetermined]:
    """Leaf-rails slow across leaves in every probe of too few."""
    terms, rails = witness.result.leaves, witness.probes.rails
    for at in np.flatnonzero(terms.brief).tolist():
        leaf, rail = names[terms.leaf[at]], rails[terms.rail[at]]
        loss = percent(1 - math.exp(float(terms.term[at])))
        what = f"leaf {leaf} {rail_name(rail)} lost {loss} across leaves"
        why = f"{what}, in fewer than {PERIODS} probes a NIC: a burst, or its uplinks"
        yield Undetermined("*", rail, why, f"probe {leaf} across leaves at {PERIODS} different times")


def _unmeasured(probes: Probes, nics: Nics, topology: Topology) -> Iterator[Undetermined]:
    for node, rail in topology.unmeasured(probes, nics):
        why = "in the topology, and no probe of it was given"
        yield Undetermined(node, rail, why, f"probe {node} against {probes.nodes[0]}")
