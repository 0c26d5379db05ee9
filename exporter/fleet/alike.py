"""Slow probes that are alike: a fault repeats its rate, congestion does not.

For each NIC the log ratio of two predictions of its next probe: by the level its slow probes had so far, and by noise
and congestion. If the second one holds, such a sum passes h from 0 once in e^h probes at most (it is the logarithm of a
martingale), whatever the level is.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from exporter.fleet.probes import Bools, Floats, Ints

SURE = 19.0
"""Reached by chance once in a hundred million probes, or never."""
STRAY = 0.2
"""Share of a slow NIC's probes that may be anywhere: congestion comes on top of its fault."""
DEEPEST = 1.2
"""Congestion leaves at least exp(-DEEPEST), 30 %, of a rate; evenly between that and all."""
ODD = 1e-3
FASTEST, ACROSS = 6.0, 4.0
"""The most that one probe changes; towards slow, one that crossed leaves."""
LEAST_CONGESTED, MOST_CONGESTED = 0.02, 0.3
FAR = math.log(0.85)
"""A level nearer to normal than this is left to the sum of drifts."""
NEAR = 3.0
"""Within so many noises a probe belongs to the level."""


@dataclass(frozen=True, slots=True)
class Alike:
    """By NIC: `weight` the log ratio so far, `level` (log) of its slow probes and how many make it; for all, the share
    of probes that are `congested`, from how many `rounds`.
    """

    weight: Floats
    level: Floats
    count: Ints
    congested: float
    rounds: int


def start(size: int) -> Alike:
    """Nothing seen of this many NICs."""
    return Alike(np.zeros(size), np.zeros(size), np.zeros(size, np.int64), MOST_CONGESTED, 0)


def learn(state: Alike, value: Floats, sigma: float) -> Alike:
    """Move the share of congested probes a little towards this round's."""
    share = float((value < -NEAR * sigma).mean()) if value.size else state.congested
    rounds = state.rounds + 1
    moved = state.congested + max(0.02, 1 / rounds) * (share - state.congested)
    return replace(state, congested=min(max(moved, LEAST_CONGESTED), MOST_CONGESTED), rounds=rounds)


@dataclass(frozen=True, slots=True)
class Seen:
    """A probe of each of these NICs: log(rate / normal), whether it crossed leaves, whether a worse partner explains
    it.
    """

    nic: Ints
    value: Floats
    cross: Bools
    explained: Bools


def weigh(state: Alike, seen: Seen, sigma: float) -> Alike:
    """Take one probe of each NIC; explained ones change nothing, those across leaves little: uplinks repeat too."""
    nic, value = seen.nic, seen.value
    weight, level, count = state.weight[nic], state.level[nic], state.count[nic]
    broad = np.where((value < 0) & (value > -DEEPEST), 1 / DEEPEST, ODD)
    usual = (1 - state.congested) * _normal(value, sigma) + state.congested * broad
    wide = sigma * np.sqrt(1 + 1 / np.maximum(count, 1))
    known = (1 - STRAY) * _normal(value - level, wide) + STRAY * broad
    slower = (1 - state.congested) * np.where(count > 0, known, broad) + state.congested * broad
    change = np.clip(np.log(slower / usual), -FASTEST, np.where(seen.cross, ACROSS, FASTEST))
    near = np.abs(value - level) <= NEAR * wide
    faster = (value > level) & ~near & (value < FAR)  # congestion on top only slows: the faster one is the level
    anew = (count == 0) | faster
    moved = np.where(
        anew, np.minimum(value, FAR), np.where(near, np.minimum(level + (value - level) / (count + 1), FAR), level)
    )
    total = np.maximum(weight + change, 0.0)
    counted = np.where(total > 0, np.where(anew, 1, count + near), 0)
    result = replace(state, weight=state.weight.copy(), level=state.level.copy(), count=state.count.copy())
    result.weight[nic] = np.where(seen.explained, weight, total)
    result.level[nic] = np.where(seen.explained, level, moved)
    result.count[nic] = np.where(seen.explained, count, counted)
    return result


def _normal(value: Floats, sigma: float | Floats) -> Floats:
    density: Floats = np.exp(-0.5 * (value / sigma) ** 2) / (sigma * np.sqrt(2 * np.pi))
    return density
