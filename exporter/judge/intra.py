"""Judging what GPUs exchange: all of them together, one GPU, or one pair.

A way from one GPU to another is as fast as the slower of its two ends, so one fast way clears both. A GPU is to blame
where no way of it is fast while most other GPUs have fast ones. What all have in common is taken out first and is the
node's: who is left stands out from it. See ADR 35.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import median, median_high
from typing import NamedTuple

from exporter.judge.base import listed
from exporter.judge.trials import (
    IN_A_ROW,
    MIN_RATIO,
    Measured,
    Trial,
    device_of,
    finding,
    in_a_row,
    last_run,
    numbers,
    order,
    words,
)
from exporter.model import Evidence, Finding

MOST_PAIRS = 3
"""Pairs of which each is a finding; more have one cause, which is none of them."""
Way = tuple[str, str]


class Seen(NamedTuple):
    """What one way gave: the better ratio of the probes that are judged, and the last of them."""

    ratio: float
    flow: Measured


def judge_intra(trials: Sequence[Trial], oldest: float) -> Iterator[Finding]:
    """All GPUs, or those that are it; what was measured while a GPU had a finding says nothing if slow."""
    whole: list[tuple[Trial, Measured]] = []
    for trial in trials:
        flow = next((one for one in trial.flows if not one.source), None)
        explained = any(device_of(subject).startswith("gpu") for subject in trial.others)
        if trial.result == "ok" and flow is not None and not (flow.slow and explained):
            whole.append((trial, flow))
    run = last_run(whole, lambda one: one[1].slow)
    if len(run) < IN_A_ROW or run[-1][0].time < oldest:
        return
    last, flow = run[-1]
    ways = _ways([trial for trial, _ in run[-IN_A_ROW:]])
    gpus = {gpu for way in ways for gpu in way}
    common, slow = _slow_gpus(ways, gpus)
    rest = {way: seen for way, seen in ways.items() if not slow & set(way)}
    # of two GPUs there is one pair, and nothing to compare it with
    more = len({gpu for way in rest for gpu in way}) > 2
    usual = min(common, median(seen.ratio for seen in rest.values())) if more else common
    left = {way: seen for way, seen in rest.items() if seen.ratio < MIN_RATIO * usual}
    if star := _star(left, len(gpus)):
        slow = slow | {star}
        left = {way: seen for way, seen in left.items() if star not in way}
    beside: Evidence = {"intra_ratio": numbers(flow)["ratio"], "time": last.time}
    found = [_gpu(gpu, ways, len(gpus), beside) for gpu in sorted(slow, key=order)]
    many = len(_pairs(left)) > MOST_PAIRS
    if not many:
        found += [_pair(ends, flows, beside) for ends, flows in _pairs(left).items()]
    if many or not found or usual < MIN_RATIO:
        yield _node(run, ways, [one.subject for one in found])
    yield from found


def _ways(trials: Sequence[Trial]) -> dict[Way, Seen]:
    """The ways whose usual value was known each time."""
    known = [{(flow.source, flow.target): flow for flow in trial.flows if flow.source} for trial in trials]
    both = [way for way in known[-1] if all(way in one for one in known)]
    return {way: Seen(max(one[way].ratio for one in known), known[-1][way]) for way in both}


def _slow_gpus(ways: Mapping[Way, Seen], gpus: set[str]) -> tuple[float, set[str]]:
    """What the GPUs have in common, 1 where most give what is usual, and those that stand out from it.

    A GPU gives what its best way does, to others or from them, whichever is less.
    """
    ends: dict[tuple[str, int], list[float]] = defaultdict(list)
    for way, seen in ways.items():
        for place, gpu in enumerate(way):
            ends[gpu, place].append(seen.ratio)
    levels: dict[str, float] = {}
    for (gpu, _), ratios in ends.items():
        # one way alone may be slow by either end
        if len(ratios) > 1:
            levels[gpu] = min(levels.get(gpu, 1.0), max(ratios))
    common = min(1.0, median_high(levels.values())) if levels else 1.0
    return common, {gpu for gpu in gpus if levels.get(gpu, 1.0) < MIN_RATIO * common}


def _star(left: Mapping[Way, Seen], number: int) -> str:
    """A GPU that is slow with most others, though not with all, where this is most of what is slow; else ''."""
    pairs = _pairs(left)
    mine = {gpu: sum(gpu in ends for ends in pairs) for ends in pairs for gpu in ends}
    most = min(mine, key=lambda gpu: (-mine[gpu], order(gpu)), default="")
    if most and mine[most] >= MOST_PAIRS and mine[most] * 2 > max(number - 1, len(pairs)):
        return most
    return ""


def _pairs(left: Mapping[Way, Seen]) -> dict[Way, list[Measured]]:
    """Both ways together."""
    both: dict[Way, list[Measured]] = defaultdict(list)
    for way, seen in sorted(left.items()):
        one, other = sorted(way, key=order)
        both[one, other].append(seen.flow)
    return both


def _node(run: Sequence[tuple[Trial, Measured]], ways: Mapping[Way, Seen], beside: Sequence[str]) -> Finding:
    last, flow = run[-1]
    evidence: Evidence = {**numbers(flow), "engine": last.engine, "time": last.time, "in_a_row": len(run)}
    slow = sum(seen.ratio < MIN_RATIO for seen in ways.values())
    if not ways:
        why = "what is usual of its pairs is not known"
    elif not slow:
        why = "no one pair is it"
    else:
        middle = median(seen.ratio for seen in ways.values())
        why = f"{slow} of the {len(ways)} ways between two GPUs are slow, half of all below {middle:.0%} of the usual"
        why += f": beside {listed(beside)}, no one GPU or pair is it" if beside else ": no one GPU or pair is it"
        evidence = {**evidence, "ways": len(ways), "slow_ways": slow, "ways_ratio": round(middle, 4)}
    said = f"its GPUs exchange {words(flow)}, {in_a_row(len(run))}; {why}"
    return finding("probe_intra_slow", "node", said, evidence)


def _gpu(gpu: str, ways: Mapping[Way, Seen], number: int, beside: Evidence) -> Finding:
    mine = {way: seen.flow for way, seen in ways.items() if gpu in way and seen.ratio < MIN_RATIO}
    others = sorted({one for way in mine for one in way if one != gpu}, key=order)
    worst = min(mine.values(), key=lambda flow: flow.ratio)
    return finding(
        "probe_pair_slow",
        gpu,
        f"exchanges data slowly with {len(others)} of {number - 1} GPUs, at worst {words(worst)}",
        {**numbers(worst), "partners": tuple(others), **beside},
    )


def _pair(ends: Way, flows: Sequence[Measured], beside: Evidence) -> Finding:
    worst = min(flows, key=lambda flow: flow.ratio)
    back = " and back" if len(flows) > 1 else ""
    return finding(
        "probe_pair_slow",
        "/".join(ends),
        f"{worst.source} to {worst.target}{back} exchange {words(worst)}, {in_a_row(IN_A_ROW)}",
        {**numbers(worst), "direction": tuple(sorted(f"{flow.source}>{flow.target}" for flow in flows)), **beside},
    )
