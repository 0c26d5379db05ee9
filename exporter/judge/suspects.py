"""Which end of a loopback is to blame, of a group of NICs that are paired with each other.

A result is as good as the worse of its two ends, so a fast one clears both for its time, and a slow one counts against
one of them only. An end is to blame where the rest of its group was fast at the same time. See ADR 35.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median, median_high
from typing import NamedTuple

from exporter.judge.trials import IN_A_ROW, MIN_RATIO, Measured, Trial, device_of, last_run


class End(NamedTuple):
    """One end of a loopback, in one direction."""

    nic: str
    direction: str


class Seen(NamedTuple):
    """What one end gave, with whom, and in which round: in one no NIC is measured twice."""

    turn: int
    time: float
    partner: End
    flow: Measured


Book = Mapping[End, Sequence[Seen]]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Of one group: the ends that are to blame, the NICs that are slow for no such reason.

    `unsure`: one NIC is to blame, and nothing else of its group was measured that would tell it from its partners.
    """

    book: Book
    blamed: Book
    slow: frozenset[str]
    unsure: bool

    @property
    def nics(self) -> frozenset[str]:
        """All of the group."""
        return frozenset(end.nic for end in self.book)

    @property
    def slow_nics(self) -> frozenset[str]:
        """All that are slow, for whatever reason."""
        return self.slow | nics_of(self.blamed)

    @property
    def common(self) -> bool:
        """Whether most are slow, so that none of them is it."""
        return len(self.slow_nics) * 2 > len(self.nics)


def read_book(trials: Sequence[Trial], oldest: float) -> Book:
    """What each end gave, oldest first; slow results that a finding on either NIC explains say nothing."""
    book: dict[End, list[Seen]] = defaultdict(list)
    turn, met = 0, set[str]()
    for trial in trials:
        if met & set(trial.nics):
            turn, met = turn + 1, set()
        met |= set(trial.nics)
        devices = {device_of(subject) for subject in trial.others}
        for flow in trial.flows if trial.result == "ok" else ():
            if flow.slow and devices & {device_of(flow.source), device_of(flow.target)}:
                continue
            sender, receiver = End(flow.source, "transmit"), End(flow.target, "receive")
            book[sender].append(Seen(turn, trial.time, receiver, flow))
            book[receiver].append(Seen(turn, trial.time, sender, flow))
    return {end: seen for end, seen in book.items() if seen[-1].time >= oldest}


def groups(book: Book) -> Iterator[Book]:
    """What was measured with each other, directly or by way of others."""
    groups: list[set[str]] = []
    for end, seen in book.items():
        mine = {end.nic, *(one.partner.nic for one in seen)}
        touched = [group for group in groups if group & mine]
        groups = [group for group in groups if not group & mine] + [mine.union(*touched)]
    for group in groups:
        yield {end: seen for end, seen in book.items() if end.nic in group}


def judge_group(book: Book, usual: float) -> Verdict:
    """One group, `usual` being what its NICs have in common: 1 where nothing is."""
    rest = _without(book, _explain(book, usual))
    # near the threshold noise decides who is slow: who is to blame stands out from what the rest gives
    common = (
        min(usual, median_high(max(one.flow.ratio for one in seen[-IN_A_ROW:]) for seen in rest)) if rest else usual
    )
    blamed, unsure = _blamed(book, common)
    slow_nics = {end.nic for end in book if end not in blamed and len(last_slow(book[end], usual, blamed)) >= IN_A_ROW}
    return Verdict(book, blamed, frozenset(slow_nics), unsure)


def _blamed(book: Book, usual: float) -> tuple[Book, bool]:
    """The ends that explain what is slow and beside which the rest was fast; whether there was no such rest."""
    taken = _explain(book, usual)
    rest = _without(book, taken)
    blamed, unsure = {}, False
    for end, run in taken.items():
        # beside it, not later: others that have recovered since say nothing of one that was not measured again
        beside = [during[-1] for seen in rest if (during := _during(seen, run))]
        alone = not beside and len(nics_of(taken)) == 1
        if alone:
            beside = [seen[-1] for seen in rest]
        if sum(_slow(one, usual) for one in beside) * 2 < len(beside) or (alone and not rest):
            blamed[end] = run
            unsure = unsure or alone
    return blamed, unsure


def _explain(book: Book, usual: float) -> dict[End, list[Seen]]:
    """The fewest ends that would explain what is slow, each slow twice in a row beside what others explain."""
    taken: dict[End, list[Seen]] = {}
    weights = {end: _weight(book, end, usual) for end in book}
    # by name where nothing else decides: of two NICs the same one in both directions
    for end in sorted(book, key=lambda one: (weights[one], one), reverse=True):
        if len(run := last_slow(book[end], usual, taken)) >= IN_A_ROW and _clean(book, end, run, usual):
            taken[end] = run
    return taken


def _weight(book: Book, end: End, usual: float) -> tuple[int, int, int, float]:
    """Partners that are not slow elsewhere, partners, how often, how slow."""
    run = last_slow(book[end], usual)
    clean, partners = _clean(book, end, run, usual), {one.partner.nic for one in run}
    return clean, len(partners), len(run), -median([one.flow.ratio for one in book[end]])


def _clean(book: Book, end: End, run: Sequence[Seen], usual: float) -> int:
    """With how many partners it was slow that were fast with another meanwhile, or measured with no other.

    One that was slow with all others too does not speak against this end: it may be the slow one.
    """
    number = 0
    for partner in {one.partner for one in run}:
        others = [one for one in _during(book.get(partner, ()), run) if one.partner != end]
        number += not others or not all(_slow(one, usual) for one in others)
    return number


def _without(book: Book, taken: Collection[End]) -> list[list[Seen]]:
    """What the other ends gave, that none of `taken` has part in."""
    rest = [[one for one in seen if one.partner not in taken] for end, seen in book.items() if end not in taken]
    return [seen for seen in rest if seen]


def _during(seen: Sequence[Seen], run: Sequence[Seen]) -> list[Seen]:
    return [one for one in seen if run[0].turn <= one.turn <= run[-1].turn] if run else []


def last_slow(seen: Sequence[Seen], usual: float, taken: Collection[End] = ()) -> list[Seen]:
    """The slow results at the end, those with `taken` left out."""
    return last_run([one for one in seen if one.partner not in taken], lambda one: _slow(one, usual))


def _slow(one: Seen, usual: float) -> bool:
    return one.flow.ratio < MIN_RATIO * usual


def nics_of(ends: Collection[End]) -> frozenset[str]:
    """Whose they are."""
    return frozenset(end.nic for end in ends)
