"""What a leaf switch's uplinks take from every probe that leaves it, so that no NIC is blamed for it."""

import math
from dataclasses import dataclass

import numpy as np

from exporter.fleet.baseline import pick, segment_median, segment_order
from exporter.fleet.probes import Bools, Floats, Ints, compact

MIN_CROSS, MIN_INTRA = 24, 8
"""Probes that make a median: without those inside the leaf, its NICs can't be told from its uplinks."""
KEEP = math.log(0.96)
"""A cross-leaf median above this is noise: nothing is subtracted."""
ALARM = math.log(0.93)
PERIODS = 4
"""A burst of congestion fills some rounds, a bad uplink all of them: the probes of each quarter must be slow."""


@dataclass(frozen=True, slots=True)
class LeafTerms:
    """Of each (leaf, rail) numbered by `group`: medians of its probes as log(rate / normal), NaN where too
    few.

    `term` is what its uplinks take (0 or less); `slow` says that this is more than 7 %, all the time; `brief` that
    it is, but that its NICs have fewer probes across leaves than tell a fault from a burst.
    """

    leaf: Ints
    rail: Ints
    intra: Floats
    cross: Floats
    term: Floats
    slow: Bools
    brief: Bools


def leaf_terms(leaf: Ints, rail: Ints, src: Ints, dst: Ints, value: Floats) -> tuple[LeafTerms, Floats]:
    """The terms of all leaf-rails, and what the slower of its two leaves takes from each probe (0 inside a leaf).

    `leaf` and `rail` are those of each NIC (leaf -1: unknown); `src`, `dst` number the NICs of each probe.
    """
    rails = int(rail.max(initial=0)) + 1
    known = leaf >= 0
    offset = int(not known.all())  # where there are NICs of no known leaf, group 0 holds them
    keys = np.where(known, leaf * rails + rail + offset, 0)
    unique, group = compact(keys, int(keys.max(initial=0)) + 1)
    size = unique.size
    a, b = group[src], group[dst]
    placed = (a >= offset) & (b >= offset)
    both = placed & (leaf[src] != leaf[dst])
    mine, other = np.concatenate([a[both], b[both]]), np.concatenate([b[both], a[both]])
    double = np.concatenate([value[both], value[both]])
    order = segment_order(double, mine)
    raw = pick(double[order], counts := np.bincount(mine, minlength=size), counts // 2)
    # A probe says something of this leaf's uplinks only where the other leaf is not the slower one.
    fair = raw[other] >= raw[mine]
    counts = np.bincount(mine[fair], minlength=size)
    cross = np.where(counts >= MIN_CROSS, pick(double[order[fair[order]]], counts, counts // 2), np.nan)
    inside = placed & ~both
    intra = _enough(segment_median(value[inside], a[inside], size), a[inside], MIN_INTRA)
    excess = cross - np.minimum(intra, 0.0)
    term = np.where(np.isfinite(excess) & (excess < KEEP), excess, 0.0)
    through = np.where(both, np.minimum(term[a], term[b]), 0.0)
    slow, brief = np.zeros(size, bool), np.zeros(size, bool)
    ends = np.concatenate([src[both], dst[both]])
    for at in np.flatnonzero(term < ALARM).tolist():
        rows = np.flatnonzero(mine == at)
        rows = rows[np.argsort(rows % (mine.size // 2), kind="stable")]  # oldest first, as the probes are
        long = rows.size >= (PERIODS - 0.5) * np.unique(ends[rows]).size
        quarters = np.array_split(rows[fair[rows]], PERIODS)
        steady = all(float(np.median(double[quarter])) < ALARM for quarter in quarters)
        slow[at], brief[at] = steady and long, steady and not long
    chosen = slice(offset, None)
    terms = LeafTerms(
        (unique[chosen] - offset) // rails,
        (unique[chosen] - offset) % rails,
        intra[chosen],
        cross[chosen],
        term[chosen],
        slow[chosen],
        brief[chosen],
    )
    return terms, through


def _enough(median: Floats, segment: Ints, least: int) -> Floats:
    return np.where(np.bincount(segment, minlength=median.size) >= least, median, np.nan)
