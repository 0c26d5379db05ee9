"""Where rows of all formats come together: names become numbers, lines that can't be read are counted and
named.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from exporter.fleet.baseline import segment_median
from exporter.fleet.probes import NAMES, Bools, Floats, Ints, Probes, recent
from exporter.fleet.units import printable
from exporter.model import UserError

UNITS = {"gbit_per_second": 1e9 / 8, "gbyte_per_second": 1e9, "bytes_per_second": 1.0}
"""Bytes/s of one unit, by the name of the column."""
HIGHEST = 1e13
"""Bytes/s: no link of this decade carries 80 Tbit/s, so a higher figure is a mistake of unit."""
TIMES_MEDIAN = 10.0
"""A rate ten times its rail's median is a mistake too: it would pass for a certificate."""
HELD = 2_000_000
NAMED = 20


@dataclass(slots=True)
class Skipped:
    """Rows left out: how many, the first few by name, and how many of them only repeat another.

    With `strict` the first one that can't be read ends the run.
    """

    strict: bool = False
    count: int = 0
    named: list[str] = field(default_factory=list)
    repeats: int = 0

    def add(self, where: str, why: str) -> None:
        """Count one. Raises UserError where strict."""
        if self.strict:
            raise UserError(f"{where}: {why}")
        self.count += 1
        if len(self.named) < NAMED:
            self.named.append(f"{where}: {why}")

    def lines(self) -> Iterator[str]:
        """What to tell the operator."""
        for line in self.named:
            yield f"{printable(line)} (skipped)"
        if self.count > len(self.named) + self.repeats:
            yield f"{self.count - self.repeats:,} skipped in all"
        if self.repeats:
            yield f"{self.repeats:,} repeat another row (same ends, rail, time and rate): counted once"


class Names:
    """Strings numbered in the order of their first appearance; white space around a name is not part of it."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self.names: dict[str, int] = {}

    def codes(self, texts: Sequence[str]) -> Ints:
        """The number of each text; the empty name has one too."""
        for text in dict.fromkeys(texts):
            if text not in self._codes:
                self._codes[text] = self.names.setdefault(text.strip(), len(self.names))
        return np.fromiter(map(self._codes.__getitem__, texts), np.int64, len(texts))


@dataclass(frozen=True, slots=True)
class Rows:
    """Some probes as read, one element each; rates in bytes/s (or in the file's unit, where it names none)."""

    time: Floats
    src: Sequence[str]
    dst: Sequence[str]
    rail: Sequence[str]
    rate: Floats
    engine: Sequence[str]
    scope: Ints
    both: Bools
    utilization: Floats
    errors: Floats
    marks: Floats


class Intake:
    """Takes rows, gives Probes. Holds no more than the newest probes of each NIC, however long the files are."""

    def __init__(self, skipped: Skipped) -> None:
        self.skipped = skipped
        self.rows = 0
        self.unit: str | None = None
        self._nodes, self._rails, self._engines = Names(), Names(), Names()
        self._parts: list[Probes] = []
        self._held = 0

    def use_unit(self, unit: str, where: str) -> None:
        """Say what unit the coming rates were written in, "" where nobody knows. Raises UserError on a
        mixture.
        """
        if self.unit is None or self.unit == unit:
            self.unit = unit
        elif "" in (self.unit, unit):
            raise UserError(f"{where}: one file names its unit and another does not: they can't be compared")

    def take(self, rows: Rows, where: Sequence[object], prefix: str) -> None:
        """Add rows; `where` says what line each stands on, `prefix` in what file."""
        src, dst, rail = (
            self._nodes.codes(rows.src),
            self._nodes.codes(rows.dst),
            self._rails.codes(rows.rail),
        )
        problems = self._problems(rows.rate, rows.time, src, dst, rail)
        bad = np.zeros(src.size, bool)
        for which, why in problems:
            for at in np.flatnonzero(which & ~bad):
                self.skipped.add(f"{prefix} line {where[int(at)]}", why.format(rows.rate[at]))
            bad |= which
        self.rows += src.size
        part = Probes(
            (), (), "", rows.time, src, dst, rail, rows.rate, self._engines.codes(rows.engine), rows.scope, rows.both,
            rows.utilization, rows.errors, rows.marks,
        )  # fmt: skip
        self._parts.append(part.take(~bad) if bad.any() else part)
        self._held += self._parts[-1].src.size
        if self._held > HELD:
            self._parts = [recent(self._without_repeats(self._joined()))]
            self._held = self._parts[0].src.size

    def unreadable(self, where: str, why: str) -> None:
        """Count a row that gave no numbers at all."""
        self.rows += 1
        self.skipped.add(where, why)

    def _problems(self, rate: Floats, time: Floats, src: Ints, dst: Ints, rail: Ints) -> Iterable[tuple[Bools, str]]:
        yield ~np.isfinite(rate), "the rate is {}"
        yield rate <= 0, "the rate is {:g}: nothing was measured"
        if self.unit:
            yield (rate > HIGHEST) | (rate < 1), "the rate is absurd: {:.3g} bytes/s"
        yield ~np.isfinite(time), "the time is not a number of seconds"
        no_name = self._nodes.names.get("", -1)
        yield (src == no_name) | (dst == no_name), "a node has no name"
        yield rail == self._rails.names.get("", -1), "the rail has no name"
        yield src == dst, "src and dst are the same node"

    def _joined(self) -> Probes:
        names = (tuple(self._nodes.names), tuple(self._rails.names), self.unit or "")
        if not self._held:
            first = f"; the first: {self.skipped.named[0]}" if self.skipped.named else ""
            raise UserError(f"no measurement could be read{first}")
        if len(self._parts) == 1:
            return replace(self._parts[0], nodes=names[0], rails=names[1], unit=names[2])
        columns = [
            np.concatenate([getattr(part, name) for part in self._parts])
            for name in Probes.__slots__
            if name not in NAMES
        ]
        return Probes(*names, *columns)

    def probes(self) -> Probes:
        """All that was taken, oldest first; repeated rows once. Raises UserError where nothing is left."""
        return recent(self._without_outliers(self._without_repeats(self._joined())))

    def _without_outliers(self, probes: Probes) -> Probes:
        group = probes.rail * max(len(self._engines.names), 1) + probes.engine
        unique, group = np.unique(group, return_inverse=True)
        absurd = probes.rate > TIMES_MEDIAN * segment_median(probes.rate, group, unique.size)[group]
        for at in np.flatnonzero(absurd)[:NAMED].tolist():
            src, dst = probes.nodes[probes.src[at]], probes.nodes[probes.dst[at]]
            why = f"the rate is more than {TIMES_MEDIAN:g} times the median of rail {probes.rails[probes.rail[at]]}"
            self.skipped.add(f"{src} to {dst}", why)
        self.skipped.count += max(int(absurd.sum()) - NAMED, 0)
        return probes.take(~absurd) if absurd.any() else probes

    def _without_repeats(self, probes: Probes) -> Probes:
        """One of each: the same ends, rail, time and rate are one measurement that was written down twice."""
        low, high = np.minimum(probes.src, probes.dst), np.maximum(probes.src, probes.dst)
        ends = (low * len(probes.nodes) + high) * len(probes.rails) + probes.rail
        key = _mix(ends.view(np.uint64)) ^ _mix(probes.time.view(np.uint64) + np.uint64(1))
        key = _mix(key ^ probes.rate.view(np.uint64))
        order = np.argsort(key, kind="stable")
        same = np.zeros(key.size, bool)
        same[order[1:]] = key[order[1:]] == key[order[:-1]]
        if not same.any():
            return probes
        self.skipped.count += int(same.sum())
        self.skipped.repeats += int(same.sum())
        reverse = np.zeros(key.size, bool)  # written from both ends: it says nothing of a direction
        reverse[order[:-1]] = same[order[1:]] & (probes.src[order[1:]] != probes.src[order[:-1]])
        return replace(probes, both=probes.both | reverse).take(~same)


def _mix(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scatter 64-bit keys (the finaliser of splitmix64)."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))
