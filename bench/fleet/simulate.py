"""A fleet with faults we know: pair probes of it, and the truth to judge a verdict by.

Model: a probe between i and j on a rail sees `nominal x min(nic_i, nic_j, path) x noise x congestion`. One
session probes all rails of two nodes; rounds alternate inside a leaf and across leaves. It is ours and
synthetic: real probes have warm-up, NUMA and job interference that it does not.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

NOMINAL = 48.75e9  # bytes/s: what a 400 Gbit/s port carries of payload
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Faults:
    """How much of the fleet is bad: fractions of NICs, nodes, leaf-rails or pairs; losses are uniform in a
    range.
    """

    nic: float = 0.0
    cage: float = 0.0
    node: float = 0.0
    uplink: float = 0.0
    pair: float = 0.0
    intermittent: float = 0.0
    directional: float = 0.0
    loss: tuple[float, float] = (0.10, 0.50)
    duty: float = 0.5


@dataclass(frozen=True, slots=True)
class Fleet:
    """What is simulated. `probes` counts those of one NIC; `free` is the share of nodes a round may probe."""

    nodes: int
    rails: int = 8
    leaf: int = 32
    probes: int = 8
    noise: float = 0.05
    spread: float = 0.01
    congestion: float = 0.03
    burst: float = 0.01
    missing: float = 0.0
    free: float = 1.0
    faults: Faults = field(default_factory=Faults)


@dataclass(frozen=True, slots=True)
class Truth:
    """Slow NICs by kind, (node, rail) booleans; leaf-rails with a bad uplink; pair paths as (node, node,
    rail).
    """

    slow: NDArray[np.bool_]
    node: NDArray[np.bool_]
    intermittent: NDArray[np.bool_]
    directional: NDArray[np.bool_]
    uplink: NDArray[np.bool_]
    pairs: frozenset[tuple[int, int, int]]

    @property
    def bad(self) -> NDArray[np.bool_]:
        """Every NIC that a perfect judge names."""
        return self.slow | self.intermittent | self.directional


@dataclass(frozen=True, slots=True)
class State:
    """The fleet's hidden rates, as ratios of nominal: (node, rail), (leaf, rail)."""

    transmit: Floats
    receive: Floats
    duty: Floats
    flicker: Floats
    uplink: Floats
    pairs: dict[tuple[int, int, int], float]
    leaf_of: Ints
    truth: Truth


def build(fleet: Fleet, rng: np.random.Generator) -> State:
    """Draw the faults."""
    shape = (fleet.nodes, fleet.rails)
    faults = fleet.faults

    def some(fraction: float, shape: tuple[int, ...]) -> NDArray[np.bool_]:
        return rng.random(shape) < fraction

    nic, cage = some(faults.nic, shape), np.zeros(shape, bool)
    if faults.cage:
        first = some(faults.cage, (fleet.nodes, max(fleet.rails // 2, 1)))
        cage = np.repeat(first, 2, axis=1)[:, : fleet.rails]
    node = some(faults.node, (fleet.nodes,))
    level = 1 - rng.uniform(*faults.loss, shape)
    pair_level = np.repeat(1 - rng.uniform(*faults.loss, (fleet.nodes, (fleet.rails + 1) // 2)), 2, axis=1)
    node_level = 1 - rng.uniform(*faults.loss, (fleet.nodes, 1))
    rate = np.exp(rng.normal(0, fleet.spread, shape))
    rate *= np.where(nic, level, 1) * np.where(cage & ~nic, pair_level[:, : fleet.rails], 1)
    rate *= np.where(node[:, None], node_level, 1)
    slow = nic | cage | node[:, None]
    flicker, direction = some(faults.intermittent, shape) & ~slow, some(faults.directional, shape) & ~slow
    direction &= ~flicker
    sending = some(0.5, shape)
    leaf_of = np.arange(fleet.nodes) // fleet.leaf
    leaves = int(leaf_of[-1]) + 1
    uplink_bad = some(faults.uplink, (leaves, fleet.rails)) if leaves > 1 else np.zeros((1, fleet.rails), bool)
    uplink = np.where(uplink_bad, 1 - rng.uniform(0.3, 0.6, uplink_bad.shape), 1.0)
    paths: dict[tuple[int, int, int], float] = {}
    for _ in range(int(rng.binomial(fleet.nodes * fleet.rails, faults.pair)) if faults.pair else 0):
        a, b = sorted(int(x) for x in rng.choice(fleet.nodes, 2, replace=False))
        paths[a, b, int(rng.integers(fleet.rails))] = 1 - float(rng.uniform(*faults.loss))
    return State(
        transmit=rate * np.where(direction & sending, level, 1),
        receive=rate * np.where(direction & ~sending, level, 1),
        duty=np.where(flicker, faults.duty, 0.0),
        flicker=np.where(flicker, np.minimum(level, 0.8), 1.0),
        uplink=uplink,
        pairs=paths,
        leaf_of=leaf_of,
        truth=Truth(slow, node, flicker, direction, uplink_bad, frozenset(paths)),
    )


@dataclass(frozen=True, slots=True)
class Pairs:
    """Probes as columns, one element a probe; rate in bytes/s, time in seconds, nodes and rails as numbers."""

    time: Floats
    src: Ints
    dst: Ints
    rail: Ints
    rate: Floats

    def of(self, keep: NDArray[np.bool_]) -> "Pairs":
        """The probes where `keep` is true."""
        return Pairs(self.time[keep], self.src[keep], self.dst[keep], self.rail[keep], self.rate[keep])


def measure(
    state: State, fleet: Fleet, asked: Pairs, rng: np.random.Generator, bursts: NDArray[np.bool_] | None = None
) -> Pairs:
    """Probe the pairs of `asked` once each; its rates are not looked at."""
    src, dst, rail = asked.src, asked.dst, asked.rail
    n = src.size
    ratio = np.minimum(state.transmit[src, rail], state.receive[dst, rail])
    for end in (src, dst):
        ratio = np.where(rng.random(n) < state.duty[end, rail], np.minimum(ratio, state.flicker[end, rail]), ratio)
    leaf_s, leaf_d = state.leaf_of[src], state.leaf_of[dst]
    cross = leaf_s != leaf_d
    ratio = np.where(
        cross, np.minimum(ratio, np.minimum(state.uplink[leaf_s, rail], state.uplink[leaf_d, rail])), ratio
    )
    if state.pairs:
        low, high = np.minimum(src, dst), np.maximum(src, dst)
        code = (low * fleet.nodes + high) * fleet.rails + rail
        for (a, b, r), level in state.pairs.items():
            ratio[code == (a * fleet.nodes + b) * fleet.rails + r] *= level
    busy = rng.random(n) < fleet.congestion
    if bursts is not None:
        busy |= cross & (bursts[leaf_s, rail] | bursts[leaf_d, rail])
    ratio = ratio * np.where(busy, rng.uniform(0.3, 0.9, n), 1) * np.exp(rng.normal(0, fleet.noise, n))
    return Pairs(asked.time, src, dst, rail, ratio * NOMINAL)


def matching(free: Ints, leaf_of: Ints, inside: bool, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """One partner for each free node: inside its leaf where possible, or anywhere else."""
    order = rng.permutation(free)
    half = order.size // 2
    if inside:
        order = order[np.argsort(leaf_of[order], kind="stable")]
        return order[0 : 2 * half : 2], order[1 : 2 * half : 2]
    first, second = order[:half], order[half : 2 * half].copy()
    for _ in range(8):  # partners of the same leaf change places with some of the others
        same = np.flatnonzero(leaf_of[first] == leaf_of[second])
        mix = np.unique(np.concatenate([same, rng.integers(0, max(half, 1), same.size)]))
        second[mix] = second[rng.permutation(mix)]
    return first, second


def probe_rounds(state: State, fleet: Fleet, rng: np.random.Generator) -> Pairs:
    """Enough rounds that every free NIC has about `fleet.probes` probes; all rails of a session share the
    partner.
    """
    rounds: list[Pairs] = []
    free = rng.random(fleet.nodes) < fleet.free
    for number in range(round(fleet.probes / fleet.free)):
        if number:  # jobs end and start: some nodes change sides between two rounds
            change = rng.random(fleet.nodes) < 0.1
            free = np.where(change, rng.random(fleet.nodes) < fleet.free, free)
        src, dst = matching(np.flatnonzero(free), state.leaf_of, number % 2 == 0, rng)
        swap = rng.random(src.size) < 0.5
        src, dst = np.where(swap, dst, src), np.where(swap, src, dst)
        rails = np.tile(np.arange(fleet.rails), src.size)
        src, dst = np.repeat(src, fleet.rails), np.repeat(dst, fleet.rails)
        bursts = rng.random(state.uplink.shape) < fleet.burst
        asked = Pairs(np.full(src.size, number * 60.0), src, dst, rails, np.zeros(src.size))
        seen = measure(state, fleet, asked, rng, bursts)
        rounds.append(seen.of(rng.random(src.size) >= fleet.missing))
    columns = [
        np.concatenate([getattr(one, name) for one in rounds]) for name in ("time", "src", "dst", "rail", "rate")
    ]
    return Pairs(*columns)
