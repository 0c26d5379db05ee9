"""What is normal: for each rail, scope and tool, from the best probe of each NIC."""

from dataclasses import dataclass

import numpy as np

from exporter.fleet.levels import AGREE_FLOOR, FAST, WINDOWS, upper_sigma
from exporter.fleet.probes import Floats, Ints, Nics, Probes, compact, stable_order

MIN_NODES = 3
"""Two nodes have one probe in common: neither says what is normal for the other."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """`normal` is the typical healthy rate of each class, in the unit of Probes.rate; NaN where nothing says
    it. `support` is how many probes it rests on.

    `group` numbers the class of each probe; `rail`, `scope` and `engine` say what class it is.
    """

    group: Ints
    rail: Ints
    scope: Ints
    engine: Ints
    normal: Floats
    support: Ints


def baseline(probes: Probes, nics: Nics, scope: Ints) -> Baseline:
    """The normal rate of every (rail, scope, tool).

    It is the upper median over NICs of each NIC's best probe, so that many slow probes can't drag it; then
    moved to the median of the probes that this clears at both ends, since a best probe is better than
    typical.
    """
    engines = int(probes.engine.max(initial=0)) + 1
    key = (probes.rail * 3 + scope) * engines + probes.engine
    unique, group = compact(key, len(probes.rails) * 3 * engines)
    value = np.log(probes.rate)
    both = np.concatenate([nics.src * unique.size + group, nics.dst * unique.size + group])
    keys, end = compact(both, nics.node.size * unique.size)
    group_of = keys % max(unique.size, 1)
    best = _upper(np.concatenate([value, value]), end, keys.size)
    base = segment_median(best, group_of, unique.size)
    order = segment_order(value, group)
    counts = np.bincount(group, minlength=unique.size)
    spread = upper_sigma(value - pick(value[order], counts, counts // 2)[group])
    near = min(FAST, max(-3 * spread, -AGREE_FLOOR))  # noisy probes: the lucky few must not say alone what is normal
    for _ in range(2):  # the second round sees who is healthy from a better centre
        healthy = best - base[group_of] >= near
        clear = healthy[end[: value.size]] & healthy[end[value.size :]]
        chosen, counts = order[clear[order]], np.bincount(group[clear], minlength=unique.size)
        centre = pick(value[chosen], counts, counts // 2)
        base = np.where(np.isfinite(centre), centre, base)
    base[np.bincount(group_of, minlength=unique.size) < MIN_NODES] = np.nan
    return Baseline(group, unique // engines // 3, unique // engines % 3, unique % engines, np.exp(base), counts)


def _upper(value: Floats, segment: Ints, segments: int) -> Floats:
    """The best of each segment; of eight or more the second: a probe that two ends share must not set the pace."""
    if not segments:
        return np.zeros(0)
    counts = np.bincount(segment, minlength=segments)  # none is empty
    ordered, start = value[stable_order(segment)], np.cumsum(counts) - counts
    best = np.maximum.reduceat(ordered, start)
    is_best = ordered == np.repeat(best, counts)
    second = np.maximum.reduceat(np.where(is_best, -np.inf, ordered), start)
    alone = np.add.reduceat(is_best, start, dtype=np.int64) == 1
    return np.where((counts >= WINDOWS[0]) & alone, second, best)


def segment_median(values: Floats, segment: Ints, segments: int) -> Floats:
    """The upper median of each segment's values; NaN for an empty one."""
    return segment_pick(values, segment, np.bincount(segment, minlength=segments) // 2)


def segment_pick(values: Floats, segment: Ints, rank: Ints) -> Floats:
    """The value of each segment with `rank` smaller ones (by segment); NaN for an empty segment."""
    return pick(values[segment_order(values, segment)], np.bincount(segment, minlength=rank.size), rank)


def segment_order(values: Floats, segment: Ints) -> Ints:
    """Positions by segment, and by value inside one."""
    order = np.argsort(values)
    return order[stable_order(segment[order])]


def pick(ordered: Floats, counts: Ints, rank: Ints) -> Floats:
    """As segment_pick, of values that are in order; `counts` is the size of each segment."""
    result = np.full(rank.size, np.nan)
    some = counts > 0
    result[some] = ordered[(np.cumsum(counts) - counts + rank)[some]]
    return result
