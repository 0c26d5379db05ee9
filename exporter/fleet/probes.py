"""Pair measurements as columns, and the NICs they touch. Pure arrays; nothing is read here."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

RECENT = 64
"""How many probes of a NIC count, the newest ones: what the intermittent test needs."""

UNKNOWN, INTRA, CROSS = 0, 1, 2
"""Whether the two ends share a leaf switch."""


@dataclass(frozen=True, slots=True)
class Probes:
    """One element a probe: `src` and `dst` index `nodes`, `rail` indexes `rails`.

    `time` is in seconds, any epoch; `rate` in bytes/s, or in the file's own unit where `unit` is empty.
    `engine` numbers the tools whose rates can't be compared; `scope` is UNKNOWN, INTRA or CROSS; `both` is
    true where the rate says nothing of a direction. `utilization` (ratio), `errors` and `marks` (events
    during the probe: error counters; ECN, CNP and pause counters) are NaN where they did not come.
    """

    nodes: tuple[str, ...]
    rails: tuple[str, ...]
    unit: str
    time: Floats
    src: Ints
    dst: Ints
    rail: Ints
    rate: Floats
    engine: Ints
    scope: Ints
    both: Bools
    utilization: Floats
    errors: Floats
    marks: Floats

    def take(self, which: Ints | Bools) -> "Probes":
        """The chosen probes, in that order."""
        return self._columns(lambda column: column[which])

    def _columns(self, change: Callable[[NDArray[np.generic]], NDArray[np.generic]]) -> "Probes":
        changed = {f.name: change(getattr(self, f.name)) for f in fields(self) if f.name not in NAMES}
        return replace(self, **changed)  # type: ignore[arg-type]  # a mapping of columns by name


NAMES = frozenset({"nodes", "rails", "unit"})
"""The fields of Probes that are not columns."""


@dataclass(frozen=True, slots=True)
class Nics:
    """The (node, rail) pairs seen, numbered; `src` and `dst` number the NICs of each probe."""

    node: Ints
    rail: Ints
    src: Ints
    dst: Ints


def index(probes: Probes) -> Nics:
    """Number the NICs that the probes touch."""
    rails = max(len(probes.rails), 1)
    keys = np.concatenate([probes.src * rails + probes.rail, probes.dst * rails + probes.rail])
    unique, ends = compact(keys, len(probes.nodes) * rails)
    size = probes.src.size
    return Nics(unique // rails, unique % rails, ends[:size], ends[size:])


def compact(keys: Ints, limit: int) -> tuple[Ints, Ints]:
    """What np.unique(keys, return_inverse=True) gives, for keys from 0 to `limit` - 1."""
    if limit > 4 * keys.size + 1024:
        return np.unique(keys, return_inverse=True)
    seen = np.zeros(limit, bool)  # dense keys: a table is several times faster than a sort
    seen[keys] = True
    return np.flatnonzero(seen), (np.cumsum(seen) - 1)[keys]


def stable_order(keys: Ints) -> Ints:
    """What np.argsort(keys, kind="stable") gives, several times faster: keys are numbers below 2**31.

    Every key is unique with its position in the low half, so that the plain (vectorised) sort is stable.
    """
    packed = (keys << 32) | np.arange(keys.size, dtype=np.int64)
    packed.sort()
    return packed & 0xFFFFFFFF


def recent(probes: Probes, limit: int = RECENT) -> Probes:
    """The probes among the newest `limit` of either end, oldest first.

    Done on a part of a file and again on the whole, the result is the same: a long file needs little memory.
    """
    order = np.argsort(probes.time, kind="stable")
    probes = probes if np.array_equal(order, np.arange(order.size)) else probes.take(order)
    nics = index(probes)
    counts = np.bincount(nics.src, minlength=nics.node.size) + np.bincount(nics.dst, minlength=nics.node.size)
    if not counts.size or counts.max() <= limit:
        return probes
    ends = interleave(nics.src, nics.dst)
    by_nic = stable_order(ends)
    left = np.repeat(np.cumsum(counts), counts) - np.arange(by_nic.size)  # 1 is the newest probe of its NIC
    keep = np.zeros(probes.src.size, bool)
    keep[by_nic[left <= limit] // 2] = True
    return probes.take(keep)


def interleave(first: Ints, second: Ints) -> Ints:
    """`first[0], second[0], first[1], ...`: both ends of every probe, in the order of time."""
    return np.stack([first, second], axis=1).ravel()
