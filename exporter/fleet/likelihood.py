"""Is a NIC slow, or was it unlucky? How much likelier its probes are, were it a healthy one made slower.

Healthy probes of the same fleet say how often noise and congestion give each rate. A fault shifts them all by
one amount; congestion moves some, each by its own. The ratio of both likelihoods weighs the two at once: a
fleet with much congestion needs more evidence for a blame than a quiet one, by itself.
"""

import math
from dataclasses import dataclass

import numpy as np

from exporter.fleet.levels import FAST
from exporter.fleet.probes import Bools, Floats, Ints

LEAST = 13.0
"""No blame on less than this log ratio. Of 385,000 healthy NICs, in 38 fleets, chance made none pass 9.8."""
ABOVE_SIZE = 2.6
"""Nor, beyond 32,768 NICs, on less than log(NICs) and this: the more there are, the unluckier the unluckiest."""
FEW_NICS = 64.0
"""Few NICs say poorly how healthy ones look: this, over their number, is added."""
LOWEST, HIGHEST = -3.0, 1.0
"""Range (log of rate / normal) that is told apart; what lies beyond counts as its end."""
DEEPEST = -1.8
BINS_PER_NOISE = 6
CONGESTION = 0.02
"""Share of probes that congestion may have slowed to anything, though none of the fleet's healthy ones were."""
CONGESTED = -2.0
TAIL, TAIL_WIDTH = 3.0, 0.1
"""Probes more noises than this below normal were congested; the kernel (log) that they are smoothed with."""
STRIDE = 2
"""Bins between two shifts that are tried."""
AT_ONCE = 1 << 18
"""Elements of one step: little memory, however many NICs are slow."""
ODD = 1e-3
"""Density of a rate that nothing explains."""


@dataclass(frozen=True, slots=True)
class Density:
    """`log` of the density of healthy probes at `LOWEST + (i + 1/2) * step`."""

    log: Floats
    step: float


def density(healthy: Floats, sigma: float) -> Density:
    """Of log(rate / normal) of probes between cleared ends, `sigma` being their noise: a smoothed histogram.

    The kernel is Silverman's (1.06 sigma n^-1/5): few probes say little of the shape. It is wide in the congested tail,
    where gaps between probes mean nothing.
    """
    step = max(sigma / BINS_PER_NOISE, 0.002)
    size = math.ceil((HIGHEST - LOWEST) / step)
    at = LOWEST + (np.arange(size) + 0.5) * step
    counts = np.bincount(_bins(healthy, step, size), minlength=size)
    tail = at < -TAIL * sigma
    width = max(1.06 * sigma * max(healthy.size, 1) ** -0.2, step / 2)
    smooth = _smooth(np.where(tail, 0, counts), width / step) + _smooth(np.where(tail, counts, 0), TAIL_WIDTH / step)
    smooth /= max(healthy.size, 1) * step
    broad = np.where((at > CONGESTED) & (at < 0), -1 / CONGESTED, 0.0) + ODD
    return Density(np.log((1 - CONGESTION) * smooth + CONGESTION * broad), step)


def evidence(table: Density, value: Floats, counts: Bools, doubt: Floats) -> Floats:
    """Log ratio of likelihoods, by row: slower by one amount (7 % or more), against healthy.

    `value` (NIC, probe) is log(rate / normal), `counts` says which of them count; `doubt` is by how much (log, one
    standard deviation) the normal rate of each row may be wrong, for which healthy is forgiven.
    """
    size = table.log.size
    shift = np.arange(0, int(-DEEPEST / table.step), STRIDE)
    slower = shift * table.step
    beyond = np.full(int(shift[-1]), table.log[-1])
    log = np.concatenate([table.log, beyond, [0.0]])  # 0: what does not count
    at = _bins(value, table.step, size)
    weight = np.zeros(value.shape[0])
    rows = max(AT_ONCE // (shift.size * max(value.shape[1], 1)), 1)
    for first in range(0, weight.size, rows):
        part = slice(first, first + rows)
        where = np.where(counts[part, None, :], at[part, None, :] + shift[:, None], log.size - 1)
        likelihood = log[where].sum(axis=2)
        forgiven = 2 * np.maximum(doubt[part, None], 1e-9) ** 2
        healthy = (likelihood - slower**2 / forgiven).max(axis=1)
        weight[part] = likelihood[:, slower >= -FAST].max(axis=1) - healthy
    return weight


ONE_WAY = 2.5
"""A NIC slow in one direction alone is a strange thing to believe, and looked for twice: asked besides, too."""
FEW, FEW_PROBES = 1.0, 5
"""So many probes or fewer are alike by chance more easily than eight: what is asked of them besides."""


def needed(nics: int) -> float:
    """The evidence that a blame in a fleet of this many NICs needs."""
    return max(LEAST, math.log(max(nics, 1)) + ABOVE_SIZE) + FEW_NICS / max(nics, 1)


def _smooth(counts: Floats, width: float) -> Floats:
    """Convolve with a normal kernel of this width (in bins)."""
    reach = min(math.ceil(4 * width), (counts.size - 1) // 2)
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / width) ** 2)
    return np.convolve(counts, kernel / kernel.sum(), "same")


def _bins(value: Floats, step: float, size: int) -> Ints:
    return np.clip((value - LOWEST) / step, 0, size - 1).astype(np.int64)
