"""The path between two good NICs: slow with each other every time, and each fast with everyone else."""

import math
from dataclasses import dataclass

import numpy as np

from exporter.fleet import likelihood
from exporter.fleet.baseline import segment_median
from exporter.fleet.blame import LITTLE, Scale, certificate, chance_of
from exporter.fleet.levels import FAST, agreement
from exporter.fleet.probes import Bools, Floats, Ints, Nics

LEAST, ABOVE_PAIRS = 11.0, 4.0
"""The evidence for a pair: at least this, and log(pairs) and that."""
NEWEST = 8
"""Probes of a pair that count."""
CHANCE = 0.002
"""Where little is known: how likely congestion may make one such pair in the whole fleet."""


@dataclass(frozen=True, slots=True)
class PairPaths:
    """Pairs of cleared NICs that are slow with each other every time: NICs, level (log), number of probes."""

    first: Ints
    second: Ints
    level: Floats
    probes: Ints


def pair_paths(nics: Nics, value: Floats, said: Bools, clear: Bools, on: Scale) -> PairPaths:
    """Pairs probed twice or more, slow every time and alike, both ends cleared, and not by chance.

    `value` is log(rate / normal) by probe, where `said`; probes are in the order of time.
    """
    fair = said & clear[nics.src] & clear[nics.dst]
    low, high = np.minimum(nics.src, nics.dst), np.maximum(nics.src, nics.dst)
    key = low * clear.size + high
    slow = np.flatnonzero(fair & (value < FAST))
    unique, repeats = np.unique(key[slow], return_counts=True)
    unique = unique[repeats >= 2]  # once is congestion
    if not unique.size:
        none = np.zeros(0, np.int64)
        return PairPaths(none, none, np.zeros(0), none)
    ordered = np.sort(key[fair])  # several times faster than np.unique
    pairs = 1 + int((ordered[1:] != ordered[:-1]).sum())
    rows = np.flatnonzero(fair)
    rows = rows[np.isin(key[rows], unique)]
    group = np.searchsorted(unique, key[rows])
    count = np.bincount(group, minlength=unique.size)
    best = np.full(unique.size, -np.inf)
    np.maximum.at(best, group, value[rows])
    found = best < certificate(on.noise, count)
    if on.healthy.size < LITTLE:
        worst = np.full(unique.size, np.inf)
        np.minimum.at(worst, group, value[rows])
        found &= chance_of(value[fair], best) ** count * fair.sum() < CHANCE
        found &= best - worst <= 2 * agreement(on.noise)
    else:
        found &= _evidence(rows, group, value, count, on) > max(LEAST, math.log(pairs) + ABOVE_PAIRS)
    level = segment_median(value[rows], group, unique.size)
    return PairPaths(unique[found] // clear.size, unique[found] % clear.size, level[found], count[found])


def _evidence(rows: Ints, group: Ints, value: Floats, count: Ints, on: Scale) -> Floats:
    """By pair, from the newest probes of each; less what few of them are alike by chance."""
    order = np.argsort(group, kind="stable")
    left = np.repeat(np.cumsum(count), count) - np.arange(order.size) - 1  # 0 is the newest
    order, left = order[left < NEWEST], left[left < NEWEST]
    values, counts, doubt = np.zeros((count.size, NEWEST)), np.zeros((count.size, NEWEST), bool), np.zeros(count.size)
    values[group[order], left], counts[group[order], left] = value[rows[order]], True
    np.maximum.at(doubt, group, on.doubt[rows])
    few = np.where(count <= likelihood.FEW_PROBES, likelihood.FEW, 0.0)
    return likelihood.evidence(on.density, values, counts, doubt) - few
