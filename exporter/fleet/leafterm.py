"""What a leaf switch's uplinks take from every probe that leaves it, so that no NIC is blamed for it."""

import math
from dataclasses import dataclass

import numpy as np

from exporter.fleet.baseline import segment_median, segment_quantile
from exporter.fleet.probes import Bools, Floats, Ints, compact

MIN_CROSS, MIN_INTRA = 24, 8
"""Probes that make a median: without those inside the leaf, its NICs can't be told from its uplinks."""
KEEP = math.log(0.96)
"""A cross-leaf median above this is noise: nothing is subtracted."""
ALARM = math.log(0.93)
BEST = 0.85


@dataclass(frozen=True, slots=True)
class LeafTerms:
    """Of each (leaf, rail) numbered by `group`: medians of its probes as log(rate / normal), NaN where too
    few.

    `term` is what its uplinks take (0 or less); `slow` says that this is more than 7 %.
    """

    leaf: Ints
    rail: Ints
    intra: Floats
    cross: Floats
    term: Floats
    slow: Bools


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
    raw = segment_median(np.concatenate([value[both], value[both]]), np.concatenate([a[both], b[both]]), size)
    # A probe says something of this leaf's uplinks only where the other leaf is not the slower one.
    mine = np.concatenate([a[both], b[both]])
    other = np.concatenate([b[both], a[both]])
    fair = raw[other] >= raw[mine]
    double = np.concatenate([value[both], value[both]])
    cross = _enough(segment_median(double[fair], mine[fair], size), mine[fair], MIN_CROSS)
    inside = placed & ~both
    intra = _enough(segment_median(value[inside], a[inside], size), a[inside], MIN_INTRA)
    excess = cross - np.minimum(intra, 0.0)
    term = np.where(np.isfinite(excess) & (excess < KEEP), excess, 0.0)
    through = np.where(both, np.minimum(term[a], term[b]), 0.0)
    # A burst of congestion fills some rounds, a bad uplink all of them: the best of them must be slow too.
    upper = _enough(segment_quantile(double[fair], mine[fair], size, BEST), mine[fair], MIN_CROSS)
    usual = np.nanmedian(upper) if np.isfinite(upper).any() else 0.0
    slow = (term < ALARM) & (upper - usual < ALARM)
    chosen = slice(offset, None)
    terms = LeafTerms(
        (unique[chosen] - offset) // rails,
        (unique[chosen] - offset) % rails,
        intra[chosen],
        cross[chosen],
        term[chosen],
        slow[chosen],
    )
    return terms, through


def _enough(median: Floats, segment: Ints, least: int) -> Floats:
    return np.where(np.bincount(segment, minlength=median.size) >= least, median, np.nan)
