"""The answer of `locate` for people: ranked, each row a sentence of evidence and the probe that would refute
it.
"""

import textwrap
from collections.abc import Iterator, Sequence

from exporter.fleet.cost import Job, cost
from exporter.fleet.probes import Probes
from exporter.fleet.units import percent, printable, rail_name, show_seconds
from exporter.fleet.verdicts import Findings, Link, Undetermined

SHOWN = 40
GBYTE = 1e9
MARGIN = "     "


def lines(found: Findings, probes: Probes, normal: float, width: int | None, picture: Sequence[str]) -> Iterator[str]:
    """The report, line by line; wrapped to `width` where there is one. `normal` is a rail's rate in bytes/s
    or NaN.
    """
    yield summary(found, probes)
    rows = [*_rows(found)]
    if rows:
        yield ""
        yield "rank   loss  evidence"
    for rank, (loss, sentence, more) in enumerate(rows[:SHOWN], 1):
        yield from _wrapped(f"{rank:>4}  {percent(loss):>5}  ", sentence, width)
        for line in (*more, _price(loss, probes, normal)):
            yield from _wrapped(" " * 13, line, width)
    yield from _left_out(len(rows), "slow")
    if found.undetermined:
        yield ""
        yield f"undetermined ({len(found.undetermined)}): not slow, not healthy; these probes can't tell"
        for one in found.undetermined[:SHOWN]:
            yield from _wrapped(MARGIN, _doubt(one), width)
        yield from _left_out(len(found.undetermined), "undetermined")
    if picture:
        yield ""
        yield from picture
    yield ""
    yield conclusion(found)


def summary(found: Findings, probes: Probes) -> str:
    """What was brought, and what it can show."""
    rates = "; ".join(f"{printable(rail_name(rail))} {rate}" for rail, rate in sorted(found.normal.items())[:SHOWN])
    normal = f"Normal: {rates}. " if rates else ""
    shows = f"A probe's noise is {percent(found.noise)}; losses under {percent(found.resolution)} may not show."
    return (
        f"{_counted(len(probes.nodes), 'node')}, {_counted(len(probes.rails), 'rail')},"
        f" {_counted(probes.src.size, 'recent probe')}. {normal}"
        f"{shows if normal else 'What is normal is not known.'}"
    )


def conclusion(found: Findings) -> str:
    """The last line: counts, and whether anything is slow."""
    groups = (
        (found.links, "link"),
        (found.nodes, "node"),
        (found.leaves, "leaf-rail"),
        (found.pairs, "path"),
    )
    parts = [_counted(len(group), name) for group, name in groups if group]
    slow = f"slow: {', '.join(parts)}" if parts else "nothing found slow"
    return f"{slow}; {len(found.undetermined)} undetermined; {found.healthy} cleared (node, rail)"


def _counted(count: int, name: str) -> str:
    return f"{count:,} {name}{'' if count == 1 else 's'}"


def _rows(found: Findings) -> Iterator[tuple[float, str, tuple[str, ...]]]:
    """The wider a cause, the higher it stands; then by loss."""
    yield from ((leaf.loss, leaf.evidence, ()) for leaf in found.leaves)
    yield from ((node.loss, node.evidence, ()) for node in found.nodes)
    yield from (_link(link) for link in found.links)
    yield from ((pair.loss, pair.evidence, ()) for pair in found.pairs)


def _link(link: Link) -> tuple[float, str, tuple[str, ...]]:
    spread = (
        f"{link.slow_probes} of {link.probes} probes slow; loss {percent(link.loss_low)} to {percent(link.loss_high)}"
    )
    return link.loss, f"{link.evidence}; {spread}.", (f"Next: {link.next}.",)


def _price(loss: float, probes: Probes, normal: float) -> str:
    """What a loss costs a job on the whole fleet, one GPU for each NIC, for each GB of gradients."""
    gpus = len(probes.nodes) * len(probes.rails)
    if not normal > 0 or gpus < 2 or not 0 < loss < 1:  # one GPU has no ring
        return ""
    bandwidth = normal * len(probes.rails)
    lost = cost(Job(gpus, GBYTE), "ring", bandwidth, bandwidth * (1 - loss))
    return (
        f"Costs a job on all {gpus:,} GPUs {show_seconds(lost.extra_seconds)} and {lost.gpu_seconds:,.3g} GPU-seconds"
        f" for each GB all-reduced (ring: {show_seconds(lost.seconds)} become {show_seconds(lost.slow_seconds)})."
    )


def _doubt(one: Undetermined) -> str:
    who = f"{one.node} {rail_name(one.rail)}" if one.node != "*" else rail_name(one.rail)
    return f"{who}: {one.why}. Next: {one.next}."


def _left_out(count: int, what: str) -> Iterator[str]:
    if count > SHOWN:
        yield f"{MARGIN}and {count - SHOWN:,} more {what}: --format json has them all"


def _wrapped(head: str, text: str, width: int | None) -> Iterator[str]:
    text = printable(text)
    if not text:
        return
    if width is None:
        yield head + text
        return
    yield from textwrap.wrap(text, max(width, 40), initial_indent=head, subsequent_indent=" " * len(head))
