"""The batch estimator: probes in, one status a NIC out. Pure arrays; names and sentences are made elsewhere.

A fast probe is a certificate: it clears both ends and the path. A NIC with eight probes is judged by its
level (see levels), one with fewer by the certificate rule alone. Neither is blamed on the word of one
partner, nor of partners that were not fast with someone else.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from exporter.fleet import likelihood
from exporter.fleet.baseline import Baseline, baseline
from exporter.fleet.blame import Scale, beyond_chance, certificate, few_beyond_chance, scale
from exporter.fleet.leafterm import LeafTerms, leaf_terms
from exporter.fleet.levels import (
    FAST,
    WINDOWS,
    Ends,
    Levels,
    Noise,
    levels,
    upper_sigma,
)
from exporter.fleet.pair_paths import PairPaths, pair_paths
from exporter.fleet.patterns import flickering
from exporter.fleet.probes import CROSS, INTRA, Bools, Floats, Ints, Nics, Probes, interleave, stable_order

UNDETERMINED, CLEAR, SLOW, INTERMITTENT = 0, 1, 2, 3
"""Status of a NIC. Nothing known is UNDETERMINED, never CLEAR."""
BOTH, TRANSMIT, RECEIVE = 0, 1, 2
"""In which direction a NIC is slow."""
KIN, KIN_Z = 3, -2.5
"""Where this many rails of a node are slow, another rail of it needs less of a z to be believed."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What the probes say. Arrays are by NIC unless said otherwise; values are log(rate / normal).

    `value` (by probe) is NaN where nothing says what is normal; `ends` has those that tell of a NIC; `resolution` is
    the smallest loss (ratio) that eight probes can show in this noise.
    """

    status: Ints
    direction: Ints
    best: Floats
    ends: Ends
    value: Floats
    scope: Ints
    base: Baseline
    leaves: LeafTerms
    pairs: PairPaths
    noise: Noise
    resolution: float


def estimate(probes: Probes, nics: Nics, leaf: Ints) -> Estimate:
    """Judge every NIC of `nics`, `leaf` being its leaf switch (-1: not known). Probes are in the order of time."""
    size = nics.node.size
    a, b = leaf[nics.src], leaf[nics.dst]
    known = (a >= 0) & (b >= 0)
    scope = np.where(known, np.where(a == b, INTRA, CROSS), probes.scope)
    base = baseline(probes, nics, scope)
    value = np.log(probes.rate) - np.log(base.normal)[base.group]
    said = np.isfinite(value)
    terms, through = leaf_terms(leaf, nics.rail, nics.src[said], nics.dst[said], value[said])
    sigma = upper_sigma(value[said])
    noise = Noise(sigma, 1.25 * sigma / math.sqrt(max(value[said].size / max(base.normal.size, 1), 1)))
    said[said] = tells_of_ends(value[said], through, noise)
    ends = ends_of(nics, value, said, size)
    best = _best(ends)
    doubt = 1.25 * sigma / np.sqrt(np.maximum(base.support, 1))[base.group]
    status, healthy_spread, on = _judge(ends, noise, best, nics.node, doubt)
    direction = np.zeros(size, np.int64)
    directed = ~probes.both[ends.probe]
    best_sent, best_received = _best(ends, directed & ends.sends), _best(ends, directed & ~ends.sends)
    for way, which, bests in (
        (TRANSMIT, directed & ends.sends, (best_sent, best_received)),
        (RECEIVE, directed & ~ends.sends, (best_received, best_sent)),
    ):
        one_way = _one_way(ends, which, bests, status, on)
        status[one_way], direction[one_way] = SLOW, way
    flicker = (status == CLEAR) & flickering(ends, status == SLOW, leaf)
    status[flicker] = INTERMITTENT
    pairs = pair_paths(nics, value, said, status == CLEAR, on)
    # Of normal noise, evidence is half of the square of how many spreads a level is off.
    spread = max(sigma / math.sqrt(WINDOWS[0] - 1), healthy_spread)
    resolution = 1 - math.exp(min(FAST, -math.sqrt(2 * on.enough) * spread))
    return Estimate(status, direction, best, ends, value, scope, base, terms, pairs, noise, resolution)


def tells_of_ends(value: Floats, through: Floats, noise: Noise) -> Bools:
    """Whether a probe says something of its ends: not where a slow uplink (`through`, log) is all that it shows."""
    return (through >= 0) | (value - through < -max(-FAST, 3 * noise.probe))


def ends_of(nics: Nics, value: Floats, said: Bools, size: int) -> Ends:
    """Both ends of the probes where `said`, by NIC, oldest first."""
    rows = np.flatnonzero(said)
    nic = interleave(nics.src[rows], nics.dst[rows])
    order = stable_order(nic)
    start = np.concatenate([[0], np.cumsum(np.bincount(nic, minlength=size))])
    probe = rows[order // 2]
    partner = interleave(nics.dst[rows], nics.src[rows])[order]
    return Ends(start, nic[order], partner, probe, order % 2 == 0, value[probe])


def _best(ends: Ends, which: Bools | None = None) -> Floats:
    """The best value of each NIC, of the chosen entries."""
    best = np.full(ends.start.size - 1, -np.inf)
    some = np.flatnonzero(np.diff(ends.start))
    if some.size:
        value = ends.value if which is None else np.where(which, ends.value, -np.inf)
        best[some] = np.maximum.reduceat(value, ends.start[some])
    return best


def _judge(ends: Ends, noise: Noise, best: Floats, node: Ints, doubt: Floats) -> tuple[Ints, float, Scale]:
    """Status of each NIC from probes of either direction, the spread of healthy levels, and the scale used.

    `doubt`, by probe, is how far off (log) its normal may be.
    """
    size, count = node.size, np.diff(ends.start)
    none = np.zeros(ends.value.size, bool)
    first = levels(ends, noise, WINDOWS[0], none)
    level = np.where(count < WINDOWS[0], best, 0.0)
    level[first.nic] = first.level
    slow = np.zeros(size, bool)
    slow[first.nic] = first.slow
    # Explain away: what a slower partner did is not this NIC's doing.
    explained = slow[ends.partner] & (level[ends.partner] < level[ends.nic])
    short = levels(ends, noise, WINDOWS[0], explained)
    long = levels(ends, noise, WINDOWS[1], explained)
    few_low = (
        (count < WINDOWS[0])
        & (np.bincount(ends.nic, ends.value, size) <= FAST * count)
        & (count > likelihood.FEW_PROBES)
    )
    few_slow = (count > 0) & (count < WINDOWS[0]) & (best < certificate(noise, count))
    suspect = few_slow.copy()
    suspect[short.nic] |= short.slow
    steady = np.zeros(size, bool)
    recent = np.zeros(size)
    recent[short.nic] = short.level
    suspect[long.nic] |= long.slow & (recent[long.nic] <= FAST / 2)
    suspect &= ~_fast_elsewhere(ends, short, suspect)
    clear = (count > 0) & ~suspect
    on = scale(ends, clear, noise, doubt)
    for one in (short, long):
        steady |= beyond_chance(one, ends, explained, clear, on) & (recent <= FAST / 2)
    steady |= few_beyond_chance(ends, few_slow | few_low, clear, on)
    # Rails that share a slow host are witnesses of each other.
    kin = np.bincount(node[steady], minlength=int(node.max(initial=0)) + 1)[node[short.nic]] >= KIN
    steady[short.nic] |= kin & (short.level <= FAST) & (short.z <= KIN_Z) & short.agree
    status = np.where(steady, SLOW, np.where(clear, CLEAR, UNDETERMINED))
    return status, upper_sigma(short.level), on


def _fast_elsewhere(ends: Ends, level: Levels, suspect: Bools) -> Bools:
    """Suspects that met one partner only of late, and were fast with another before."""
    size = suspect.size
    partner = ends.partner[level.entry]
    lone = suspect[level.nic] & (partner == partner[:, :1]).all(axis=1)
    if not lone.any():
        return np.zeros(size, bool)
    only = np.full(size, -1)
    only[level.nic[lone]] = partner[lone, 0]
    other = (only[ends.nic] >= 0) & (ends.partner != only[ends.nic])
    best = np.full(size, -np.inf)
    np.maximum.at(best, ends.nic[other], ends.value[other])
    return best >= FAST


def _one_way(ends: Ends, which: Bools, bests: tuple[Floats, Floats], status: Ints, on: Scale) -> Bools:
    """NICs not blamed so far that are slow in one direction (the entries `which`), and fast in the other.

    `bests` are the best values of each NIC, in this direction and in the other.
    """
    best, best_back = bests
    size, clear, free = status.size, status == CLEAR, status != SLOW
    count = np.bincount(ends.nic, which, size).astype(np.int64)
    back = free & (best_back >= FAST + on.noise.probe)
    few: Bools = back & (count >= 3) & (count < WINDOWS[0]) & (best < certificate(on.noise, count))
    many = free & (count >= WINDOWS[0])
    if not few.any() and not (many & back).any():
        return few
    chosen = _subset(ends, which & (few | many)[ends.nic], size)
    explained = status[chosen.partner] == SLOW
    on = replace(on, enough=on.enough + likelihood.ONE_WAY)
    blamed = beyond_chance(levels(chosen, on.noise, WINDOWS[0], explained), chosen, explained, clear, on)
    blamed |= few_beyond_chance(chosen, few, clear, on)
    found: Bools = blamed & back
    return found


def _subset(ends: Ends, keep: Bools, size: int) -> Ends:
    start = np.concatenate([[0], np.cumsum(np.bincount(ends.nic[keep], minlength=size))])
    return Ends(start, ends.nic[keep], ends.partner[keep], ends.probe[keep], ends.sends[keep], ends.value[keep])
