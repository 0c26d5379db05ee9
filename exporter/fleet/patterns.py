"""A fault that no steady level shows: a NIC slow now and then."""

import math

import numpy as np

from exporter.fleet.baseline import segment_median
from exporter.fleet.levels import Ends
from exporter.fleet.probes import Bools, Floats, Ints

FLICKER = math.log(0.85)
FLICKER_PROBES = 24
FLICKER_SHARE = 0.15
FLICKER_CHANCE = 1e-7
USUAL = 0.02
"""Share of slow probes that is never surprising, in the best of fleets."""


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
