"""Which slow NICs are beyond chance: slow against two cleared partners or more, by more than noise and congestion do.

A NIC with eight probes or more is weighed by all of its newest, one with fewer by those with cleared partners.
"""

import math
from dataclasses import dataclass

import numpy as np

from exporter.fleet import likelihood
from exporter.fleet.baseline import segment_pick
from exporter.fleet.levels import FAST, WINDOWS, Ends, Levels, Noise, agreement
from exporter.fleet.probes import Bools, Floats, Ints

CANDIDATE_Z = -3.0
"""Levels nearer to normal than this are not weighed against chance: they could not pass."""
CHANCE = 0.01
"""Where little is known, a blame must be less likely than this to happen anywhere in the fleet by congestion."""
LITTLE = 64
"""Ends of healthy probes below which nothing is known of congestion: half a dozen measurements by hand."""
USUAL = 0.02
"""Share of slow probes that is never surprising, in the best of fleets."""
FAR = math.log(0.85)
"""Then only a loss far beyond noise is believed."""


@dataclass(frozen=True, slots=True)
class Scale:
    """What a blame is weighed on: noise, the values of healthy probes and their density, how far off (log, by probe)
    normal may be, and the evidence that is enough in a fleet of this size.
    """

    noise: Noise
    healthy: Floats
    density: likelihood.Density
    doubt: Floats
    enough: float


def scale(ends: Ends, clear: Bools, noise: Noise, doubt: Floats) -> Scale:
    """The scale of a fleet in which the NICs where `clear` are cleared; `doubt` is by probe."""
    chosen = clear[ends.nic] & clear[ends.partner]
    if np.diff(ends.start).max(initial=0) > WINDOWS[0]:  # one that was slow has a past
        chosen &= np.arange(ends.nic.size) >= ends.start[ends.nic + 1] - WINDOWS[0]
    healthy = ends.value[chosen]
    density = likelihood.density(healthy, noise.probe)
    return Scale(noise, healthy, density, doubt, likelihood.needed(clear.size))


def certificate(noise: Noise, count: Ints) -> Floats:
    """How slow (log) the best of `count` probes must be to be called slow: 7 %, or what noise can't do."""
    return -np.maximum(-FAST, 3 * noise.probe / np.sqrt(np.maximum(count, 1)))


def beyond_chance(level: Levels, ends: Ends, explained: Bools, clear: Bools, on: Scale) -> Bools:
    """NICs (of all) with a level that noise and congestion can't make of a healthy one."""
    at = np.flatnonzero((level.level <= FAST) & (level.z <= CANDIDATE_Z))
    at = at[_partners(level.at(at), ends, clear) >= 2]  # one partner is no witness
    entry = level.entry[at]
    doubt = on.doubt[ends.probe[entry]].mean(axis=1)
    weight = likelihood.evidence(on.density, ends.value[entry], ~explained[entry], doubt)
    found = np.zeros(clear.size, bool)
    found[level.nic[at[weight > on.enough]]] = True
    return found


def few_beyond_chance(ends: Ends, candidates: Bools, clear: Bools, on: Scale) -> Bools:
    """Those of the candidates, with fewer than eight probes each, that are beyond chance too."""
    size = candidates.size
    found = np.zeros(size, bool)
    if not candidates.any():
        return found
    mine = np.flatnonzero(candidates[ends.nic] & clear[ends.partner])
    nic, value = ends.nic[mine], ends.value[mine]
    partners = np.bincount(np.unique((nic << 32) | ends.partner[mine]) >> 32, minlength=size)
    fit = candidates & (partners >= 2)
    if on.healthy.size < LITTLE:
        return fit & _far_and_alike(nic, value, on, size)
    count = np.bincount(nic, minlength=size)
    column = np.arange(nic.size) - (np.cumsum(count) - count)[nic]
    values, counts, doubt = np.zeros((size, WINDOWS[0])), np.zeros((size, WINDOWS[0]), bool), np.zeros(size)
    values[nic, column], counts[nic, column] = value, True
    np.maximum.at(doubt, nic, on.doubt[ends.probe[mine]])
    at = np.flatnonzero(fit)
    enough = on.enough + np.where(count[at] <= likelihood.FEW_PROBES, likelihood.FEW, 0.0)
    found[at] = likelihood.evidence(on.density, values[at], counts[at], doubt[at]) > enough
    return found


def _far_and_alike(nic: Ints, value: Floats, on: Scale, size: int) -> Bools:
    """NICs far from normal in every probe, and not by the few slow probes that there are among the healthy ones."""
    count, best = np.bincount(nic, minlength=size), np.full(size, -np.inf)
    np.maximum.at(best, nic, value)
    middle = segment_pick(value, nic, np.maximum(count - 1, 0) // 2)
    # Half of them may be slower still, by congestion; the other half must agree with the best.
    alike = (count > 0) & (best <= FAR) & (best - middle <= agreement(on.noise))
    return alike & (chance_of(on.healthy, best) ** count * size < CHANCE)


def chance_of(healthy: Floats, level: Floats) -> Floats:
    """How often a probe between cleared ends is as slow as `level`; never taken below USUAL."""
    slower = np.searchsorted(np.sort(healthy), level, side="right")
    return np.maximum((slower + 1) / (healthy.size + 1 / USUAL), USUAL)


def _partners(level: Levels, ends: Ends, clear: Bools) -> Ints:
    """How many different cleared partners the level of each NIC rests on."""
    partner = np.sort(np.where(level.used & clear[ends.partner[level.entry]], ends.partner[level.entry], -1), axis=1)
    different: Ints = (partner[:, :1] >= 0).sum(axis=1) + ((np.diff(partner, axis=1) > 0) & (partner[:, 1:] >= 0)).sum(
        axis=1
    )
    return different
