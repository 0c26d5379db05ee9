"""Faults that no steady level shows: a NIC slow now and then, and a pair slow between two good ends."""

import math
from dataclasses import dataclass

import numpy as np

from exporter.fleet.baseline import segment_median
from exporter.fleet.levels import FAST, Ends, Noise, agreement
from exporter.fleet.probes import Bools, Floats, Ints, Nics

FLICKER = math.log(0.85)
FLICKER_PROBES = 24
FLICKER_SHARE = 0.15
FLICKER_CHANCE = 1e-7
USUAL = 0.02
"""Share of slow probes that is never surprising, in the best of fleets."""
PAIR_CHANCE = 0.002


@dataclass(frozen=True, slots=True)
class PairPaths:
    """Pairs of cleared NICs that are slow with each other every time: NICs, level (log), number of probes."""

    first: Ints
    second: Ints
    level: Floats
    probes: Ints


def chance_of(healthy: Floats, level: Floats) -> Floats:
    """How often a probe between cleared ends is as slow as `level`; never taken below USUAL."""
    slower = np.searchsorted(np.sort(healthy), level, side="right")
    return np.maximum((slower + 1) / (healthy.size + 1 / USUAL), USUAL)


def flickering(ends: Ends, blamed: Bools, leaf: Ints) -> Bools:
    """NICs slow in far more of their probes than their fleet and leaf are; an upper order statistic can't see
    them.
    """
    size = blamed.size
    if not size or np.diff(ends.start).max() < FLICKER_PROBES:
        return np.zeros(size, bool)
    slow = ends.value < FLICKER
    share = _share(ends, slow, np.ones(slow.size, bool), size)
    probed = np.diff(ends.start) > 0
    # What is usual, before anything is explained away: of a slow probe one end is left with it, and it is the other
    # end that would look unusually clean.
    usual = np.full(size, max(float(np.median(share[probed])) if probed.any() else 0.0, USUAL))
    of_leaf = segment_median(share, leaf + 1, int(leaf.max(initial=-1)) + 2)
    # A probe slow with a blamed partner, or with one that is slow more often, is the partner's.
    mine = ~(blamed[ends.partner] | (slow & (share[ends.partner] > share[ends.nic])))
    count = np.bincount(ends.nic[mine], minlength=size)
    share = _share(ends, slow, mine, size)
    usual = np.where(leaf >= 0, np.maximum(usual, of_leaf[leaf + 1]), usual)
    with np.errstate(divide="ignore", invalid="ignore"):
        distance = share * np.log(share / usual) + np.where(
            share < 1, (1 - share) * np.log((1 - share) / (1 - usual)), 0.0
        )
    # Chernoff: the chance of such a share is at most exp(-count x distance).
    rare = count * distance > -math.log(FLICKER_CHANCE)
    # A repaired NIC was slow for a while, an intermittent one is slow now and then.
    turns = np.bincount(ends.nic[mine][1:], np.diff(slow[mine]) & (np.diff(ends.nic[mine]) == 0), minlength=size)
    found: Bools = (count >= FLICKER_PROBES) & (share >= FLICKER_SHARE) & (share > usual) & rare
    found &= turns >= share * (1 - share) * (count - 1)
    return found


def _share(ends: Ends, slow: Bools, keep: Bools, size: int) -> Floats:
    total = np.bincount(ends.nic[keep], minlength=size)
    return np.bincount(ends.nic[keep & slow], minlength=size) / np.maximum(total, 1)


def pair_paths(nics: Nics, value: Floats, said: Bools, clear: Bools, noise: Noise) -> PairPaths:
    """Pairs probed twice or more, slow every time and alike, both ends cleared, and not by chance."""
    fair = said & clear[nics.src] & clear[nics.dst]
    rows_fair = int(fair.sum())  # at least as many as there are pairs
    low, high = np.minimum(nics.src, nics.dst), np.maximum(nics.src, nics.dst)
    key = low * clear.size + high
    slow = np.flatnonzero(fair & (value < FAST))
    unique, repeats = np.unique(key[slow], return_counts=True)
    unique = unique[repeats >= 2]  # once is congestion
    if not unique.size:
        none = np.zeros(0, np.int64)
        return PairPaths(none, none, np.zeros(0), none)
    rows = np.flatnonzero(fair)
    rows = rows[np.isin(key[rows], unique)]
    group = np.searchsorted(unique, key[rows])
    count = np.bincount(group, minlength=unique.size)
    best, worst = np.full(unique.size, -np.inf), np.full(unique.size, np.inf)
    np.maximum.at(best, group, value[rows])
    np.minimum.at(worst, group, value[rows])
    chance = chance_of(value[fair], best) ** count * rows_fair
    found = (best < np.minimum(FAST, -3 * noise.probe / np.sqrt(np.maximum(count, 1)))) & (chance < PAIR_CHANCE)
    found &= best - worst <= 2 * agreement(noise)
    level = segment_median(value[rows], group, unique.size)
    return PairPaths(unique[found] // clear.size, unique[found] % clear.size, level[found], count[found])
