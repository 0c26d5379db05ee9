"""Judging loopbacks: which NIC is slow with whomever it is paired, or whether all are.

NICs that were ever paired are a group, which is a leaf where leaves are known. A NIC is to blame where the rest of its
group is fast; a group most of whose NICs are slow is the node's, and who is slower still stands out.
See ADR 35.
"""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median_high

from exporter.judge.base import listed
from exporter.judge.suspects import Book, Seen, Verdict, groups, judge_group, nics_of, read_book
from exporter.judge.trials import IN_A_ROW, Trial, finding, in_a_row, numbers, words
from exporter.model import Finding


def judge_loopback(trials: Sequence[Trial], oldest: float) -> Iterator[Finding]:
    """The NICs that are slow with whomever they are paired; the node where most of a group are."""
    verdicts = [judge_group(book, 1.0) for book in groups(read_book(trials, oldest))]
    number = sum(len(verdict.nics) for verdict in verdicts)
    together = [verdict for verdict in verdicts if verdict.common or verdict.unsure]
    # several groups, of each of which any NIC may be it, are one trouble where they are most of the node
    if len(together) == 1 or sum(len(verdict.nics) for verdict in together) * 2 <= number:
        together = [verdict for verdict in together if verdict.common]
    alone = [verdict for verdict in verdicts if verdict not in together]
    if together:
        levels = {nic: level for verdict in together for nic, level in _levels(verdict.book).items()}
        usual = min(1.0, median_high(levels.values()))
        yield _all_slow(together, alone, usual)
        alone += [judge_group(verdict.book, usual) for verdict in together]
    for verdict in alone:
        for nic in sorted(nics_of(verdict.blamed)):
            runs = {end.direction: run for end, run in verdict.blamed.items() if end.nic == nic}
            yield _loopback_slow(nic, runs, verdict.unsure)


def _levels(book: Book) -> dict[str, float]:
    """What each NIC gave at best of its last two, in its worse direction."""
    levels: dict[str, float] = {}
    for end, seen in book.items():
        best = max(one.flow.ratio for one in seen[-IN_A_ROW:])
        levels[end.nic] = min(levels.get(end.nic, best), best)
    return levels


def _all_slow(together: Sequence[Verdict], alone: Sequence[Verdict], usual: float) -> Finding:
    """One finding for the NICs that are slow together; `usual` is what they have in common."""
    slow = sorted({nic for verdict in together for nic in (verdict.nics if verdict.unsure else verdict.slow_nics)})
    fast = sorted({nic for verdict in alone for nic in verdict.nics - verdict.slow_nics})
    last = [seen[-1] for verdict in together for seen in verdict.book.values()]
    middle = min(last, key=lambda one: abs(one.flow.ratio - usual)).flow
    but = f"while {listed(fast)} {'are' if len(fast) > 1 else 'is'} not" if fast else "no one of them is it"
    return finding(
        "probe_loopback_slow",
        "node",
        f"{listed(slow)} are slow together, {words(middle)}, {in_a_row(IN_A_ROW)}, {but}: their leaf, its MTU, "
        "the PCIe paths and the host are not told apart",
        {
            **numbers(middle),
            "nics": tuple(slow),
            "fast_nics": tuple(fast),
            "time": max(one.time for one in last),
        },
    )


def _loopback_slow(nic: str, runs: Mapping[str, Sequence[Seen]], unsure: bool) -> Finding:
    partners = sorted({one.partner.nic for run in runs.values() for one in run})
    worst = min((run[-1].flow for run in runs.values()), key=lambda flow: flow.ratio)
    does = " and ".join({"transmit": "sends", "receive": "receives"}[direction] for direction in sorted(runs)[::-1])
    row = in_a_row(max(len(run) for run in runs.values()))
    if len(partners) == 1:
        who = f"with {partners[0]}, which alone it was measured with: it may be that one"
    elif unsure:
        who = f"with {listed(partners)}, which were not measured without it: it may be what they share"
    else:
        who = f"with {listed(partners)}"
    return finding(
        "probe_loopback_slow",
        nic,
        f"{does} {words(worst)}, {row}, {who}",
        {
            **numbers(worst),
            "direction": "+".join(sorted(runs)),
            "partners": tuple(partners),
            "time": max(run[-1].time for run in runs.values()),
        },
    )
