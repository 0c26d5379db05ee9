"""What counters did between two readings, and over windows of time. Times are monotonic seconds."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

KEPT = 3600.0
"""Seconds of the longest window."""
KEPT_SHORT = 900.0
"""Seconds kept of a counter that always moves (bytes, packets, waits)."""
STEP = 30.0
"""Seconds between kept points: a window may begin so much earlier than it was asked for."""


@dataclass(frozen=True, slots=True)
class Delta:
    """How far a counter moved; `amount` is None where that can't be known.

    `kind`: `value` (it grew or stood still), `wrap` (it passed the end of its register and went on), `reset`
    (it started anew, so what happened in between is unknown), `absent` (one of the two readings lacks it).
    """

    kind: Literal["value", "wrap", "reset", "absent"]
    amount: int | None


class Moved(NamedTuple):
    """How far a counter moved, and in how many seconds: at least those asked for where so much is known."""

    amount: float
    seconds: float

    @property
    def per_second(self) -> float:
        """The rate; 0 where no time passed."""
        return self.amount / self.seconds if self.seconds > 0 else 0.0


def delta(before: int | None, after: int | None, modulus: int | None = None) -> Delta:
    """The movement from `before` to `after` of a counter that wraps at `modulus` (None: it does not wrap).

    A fall is taken for a wrap only where the counter wraps at all and moved less than half of its range by that
    reading; any other fall is a reset.
    """
    if before is None or after is None:
        return Delta("absent", None)
    if after >= before:
        return Delta("value", after - before)
    if modulus and before < modulus and (moved := after + modulus - before) < modulus // 2:
        return Delta("wrap", moved)
    return Delta("reset", None)


@dataclass(slots=True)
class _Track:
    """One counter: its last raw value, how far it moved in all, and that at some moments, oldest first.

    Between two moments it may have moved at any time; after the last one it stood still.
    """

    last: float | None = None
    total: float = 0
    times: list[float] = field(default_factory=list)
    totals: list[float] = field(default_factory=list)

    def note(self, now: float, before: float, value: float, modulus: int | None, kept: float) -> None:
        """A value that differs from the last, or the first one; `before` is when the subject was read before."""
        times, totals = self.times, self.totals
        if self.last is not None:
            self.total += value - self.last if value > self.last else _moved_down(self.last, value, modulus)
        self.last = value
        if times and before > times[-1]:
            times.append(before)
            totals.append(totals[-1])
        if len(times) > 1 and now - times[-2] < STEP:
            times[-1], totals[-1] = now, self.total
        else:
            times.append(now)
            totals.append(self.total)
        if len(times) > 2 and times[1] <= now - kept:
            drop = bisect_right(times, now - kept) - 1
            del times[:drop], totals[:drop]

    def at(self, moment: float, until: float) -> tuple[float, float]:
        """The last point at or before `moment`, else the first: its time and total. It stood until `until`."""
        index = max(0, bisect_right(self.times, moment) - 1)
        if index == len(self.times) - 1:
            return max(self.times[index], min(moment, until)), self.totals[index]
        return self.times[index], self.totals[index]


@dataclass(slots=True)
class _Subject:
    """The counters of a subject, its last reading, when that was, and which moved in what is kept (None: not known)."""

    tracks: dict[str, _Track] = field(default_factory=dict)
    values: Mapping[str, float] | None = None
    until: float = float("-inf")
    moving: list[str] | None = None


def _moved_down(before: float, after: float, modulus: int | None) -> float:
    """How far a counter moved whose value fell: past its end, or unknown and so not at all."""
    return delta(int(before), int(after), modulus).amount or 0


class History:
    """The movement of counters by subject, over the last hour. Values may be sums of seconds as well as counts.

    `short` names the counters of which less is kept.
    """

    def __init__(self, short: Iterable[str] = ()) -> None:
        self._short = frozenset(short)
        self._subjects: dict[str, _Subject] = {}

    def note(self, now: float, subject: str, values: Mapping[str, float], moduli: Mapping[str, int]) -> None:
        """Take in a reading. A counter that is not in it stays as it was.

        Most readings of most counters say what the last one said: those cost a comparison.
        """
        known = self._subjects.get(subject)
        if known is None:
            known = self._subjects[subject] = _Subject()
        before, known.until = known.until, now
        if known.values == values:
            return
        known.values = values
        for name, value in values.items():
            track = known.tracks.get(name)
            if track is None:
                track = known.tracks[name] = _Track()
            elif track.last == value:
                continue
            known.moving = None
            track.note(now, before, value, moduli.get(name), KEPT_SHORT if name in self._short else KEPT)

    def moving(self, subject: str) -> list[str]:
        """The counters of a subject that moved at all in what is kept."""
        known = self._subjects.get(subject)
        if known is None:
            return []
        if known.moving is None:
            known.moving = [name for name, track in known.tracks.items() if track.totals[0] != track.total]
        return known.moving

    def moved(self, now: float, subject: str, name: str, window: float) -> Moved | None:
        """How far a counter moved in the last `window` seconds; None before its second reading."""
        return self.between(subject, name, now - window, now)

    def between(self, subject: str, name: str, begin: float, end: float) -> Moved | None:
        """How far a counter moved from `begin` to `end`; None where no two readings say."""
        known = self._subjects.get(subject)
        track = None if known is None else known.tracks.get(name)
        if known is None or track is None or not track.times:
            return None
        (since, before), (until, after) = track.at(begin, known.until), track.at(end, known.until)
        return Moved(after - before, until - since) if until > since else None

    def steady(self, now: float, subject: str, name: str, part: float, parts: int) -> Moved | None:
        """How far a counter moved in the last `parts` times `part` seconds; None unless it moved in each of them."""
        begin = now - part * parts
        if not self.covers(subject, name, begin + STEP):
            return None
        for index in range(parts):
            moved = self.between(subject, name, begin + part * index, begin + part * (index + 1))
            if moved is None or moved.amount <= 0:
                return None
        return self.between(subject, name, begin, now)

    def covers(self, subject: str, name: str, since: float) -> bool:
        """Whether a counter has been read from `since` on."""
        track = self._track(subject, name)
        return track is not None and bool(track.times) and track.times[0] <= since

    def knows(self, subject: str, name: str) -> bool:
        """Whether a counter was ever read."""
        return self._track(subject, name) is not None

    def last(self, subject: str, name: str) -> float | None:
        """The last raw value."""
        track = self._track(subject, name)
        return None if track is None else track.last

    def keep_only(self, subjects: Iterable[str]) -> None:
        """Forget everything else."""
        kept = set(subjects)
        if not self._subjects.keys() <= kept:
            self._subjects = {subject: known for subject, known in self._subjects.items() if subject in kept}

    def _track(self, subject: str, name: str) -> _Track | None:
        known = self._subjects.get(subject)
        return None if known is None else known.tracks.get(name)

    def __len__(self) -> int:
        return len(self._subjects)

    def dump(self, to_wall: float) -> dict[str, Any]:
        """All of it, fit for JSON, times in Unix seconds (`to_wall` + monotonic)."""
        return {
            subject: {
                "until": round(known.until + to_wall, 1),
                "counters": {
                    name: [
                        track.last,
                        [[round(at + to_wall, 1), total] for at, total in zip(track.times, track.totals, strict=True)],
                    ]
                    for name, track in known.tracks.items()
                },
            }
            for subject, known in self._subjects.items()
        }

    def load(self, content: Mapping[str, Any], now: float, to_wall: float, same_boot: bool) -> None:
        """Take up what an earlier process dumped; after a reboot counters begin anew. Raises ValueError and kin."""
        self._subjects = dict(_subjects(content, now, to_wall, same_boot))


def _subjects(
    content: Mapping[str, Any], now: float, to_wall: float, same_boot: bool
) -> Iterator[tuple[str, _Subject]]:
    for subject, entry in content.items():
        found = {}
        for name, (last, points) in entry["counters"].items():
            ordered = sorted((min(float(at) - to_wall, now), float(total)) for at, total in points)
            if not ordered:
                continue
            raw = None if last is None or not same_boot else float(last)
            found[str(name)] = _Track(raw, ordered[-1][1], [at for at, _ in ordered], [total for _, total in ordered])
        until = min(now, float(entry["until"]) - to_wall)
        yield str(subject), _Subject(found, None, until)
