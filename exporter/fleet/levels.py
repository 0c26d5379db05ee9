"""How fast a NIC is, from the upper part of its recent probes; and the two gates that call it slow.

Congestion and bad partners only ever slow a probe, so the second best of eight says more of a NIC than their
mean or median. Around that order statistic the probes that agree with it are averaged, which halves its
noise.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from exporter.fleet.probes import Bools, Floats, Ints

SLOW_RATIO = 0.93
"""The certificate and the loss gate: a probe at 93 % of normal clears, a NIC above it is no one's concern."""
FAST = math.log(SLOW_RATIO)
WINDOWS = (8, 32)
"""Newest probes judged at once: eight find a fault soon, 32 find a small one."""
FLOOR = 0.01
"""No spread is taken to be below 1 %: tight clusters of peers make everything an outlier."""
AGREE = 3.0
"""Probes within three noises of the order statistic, or 12 %, belong to the same level."""
AGREE_FLOOR = 0.12
FASTEST = 0.5
"""A probe this many noises above normal clears on its own, whatever the others say."""
AGREEING = 0.6
"""Below this share of probes on one level there is no level: congestion scatters, a fault does not."""
MIN_USABLE = 4
"""Fewer probes than this, after those that a bad partner explains, are no level."""
FALSE_BLAMES = 0.02
"""False blames expected in one run over a whole fleet, from noise; sets the z gate, 4 at least."""


@dataclass(frozen=True, slots=True)
class Noise:
    """Spread (log) of one healthy probe, and how far off normal itself may be."""

    probe: float
    normal: float


@dataclass(frozen=True, slots=True)
class Ends:
    """Both ends of every probe, sorted by NIC and then time: `start[nic]:start[nic + 1]` are those of one
    NIC.

    `value` is log(rate / normal); `partner` the other NIC; `probe` the row; `sends` whether this end was the
    source.
    """

    start: Ints
    nic: Ints
    partner: Ints
    probe: Ints
    sends: Bools
    value: Floats


@dataclass(frozen=True, slots=True)
class Levels:
    """Of the NICs numbered `nic`: their level (log, 0 is normal), its robust z, and what it rests on."""

    nic: Ints
    level: Floats
    z: Floats
    slow: Bools
    agree: Bools
    usable: Ints
    used: Bools
    entry: Ints
    """(NIC, window): positions in Ends, oldest first; `used` marks those that make the level."""

    def at(self, which: Ints) -> "Levels":
        """Of the chosen rows alone."""
        return Levels(*(getattr(self, name)[which] for name in Levels.__slots__))


def upper_sigma(values: Floats, centre: float = 0.0) -> float:
    """Noise from the upper half alone, where nothing contaminates; at least FLOOR, and more where few say it."""
    above = values[values > centre] - centre  # where they are few, the centre itself is one of them
    if not above.size:
        return FLOOR
    return max(float(np.median(above)) / 0.6745 * (1 + 1 / math.sqrt(above.size)), FLOOR)


def levels(ends: Ends, noise: Noise, window: int, ignore: Bools) -> Levels:
    """The levels of all NICs with at least `window` probes, from the newest `window`.

    `ignore` marks entries that a slower partner explains.
    """
    counts = np.diff(ends.start)
    nic = np.flatnonzero(counts >= window)
    entry = (ends.start[nic + 1][:, None] - window) + np.arange(window)
    value = np.where(ignore[entry], -np.inf, ends.value[entry])
    usable = (~ignore[entry]).sum(axis=1)
    ranked = np.sort(value, axis=1)
    reference = np.take_along_axis(ranked, window - 1 - order_statistic(usable)[:, None], axis=1)
    width = agreement(noise)
    used = (value >= reference - width) & np.isfinite(value)
    kept = used.sum(axis=1)
    capped = np.where(used, np.minimum(value, reference + width), 0.0)
    level = np.where(kept > 0, capped.sum(axis=1) / np.maximum(kept, 1), np.nan)
    known = np.isfinite(level)
    # A typical probe is at 0, a healthy level a little above: a lower median is of a few NICs, most of them bad.
    middle = max(float(np.median(level[known])), 0.0) if known.any() else 0.0
    # Few peers say little of their own spread: the noise of one probe bounds it from below.
    spread = np.maximum(upper_sigma(level[known], middle), noise.probe / np.sqrt(np.maximum(kept, 1)))
    spread = np.hypot(spread, noise.normal)
    level = level - middle
    z = np.where(known, level / spread, 0.0)
    slow = known & (level <= FAST) & (z <= -z_gate(nic.size)) & (ranked[:, -1] < FASTEST * noise.probe)
    agree = (kept >= AGREEING * usable) & (usable >= MIN_USABLE)
    return Levels(nic, level, z, slow, agree, usable, used, entry)


def agreement(noise: Noise) -> float:
    """How far apart (log) two probes of one level may be."""
    return max(AGREE * noise.probe, AGREE_FLOOR)


def order_statistic(usable: Ints) -> Ints:
    """Rank, from the best, of about the 85th percentile: the second of 8, the fifth of 32, the best of fewer."""
    return np.where(usable > 4, np.maximum(1, usable * 15 // 100), 0)


def z_gate(nics: int) -> float:
    """How far below its peers a NIC must be, so that noise alone blames FALSE_BLAMES NICs of this many."""
    return max(4.0, -NormalDist().inv_cdf(FALSE_BLAMES / max(nics, 1)))
