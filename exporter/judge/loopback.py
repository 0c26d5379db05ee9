"""Judging loopbacks: which NIC is slow with whomever it is paired."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from exporter.judge.base import listed
from exporter.judge.trials import IN_A_ROW, Measured, Trial, device_of, finding, in_a_row, last_run, numbers, words
from exporter.model import Finding


class End(NamedTuple):
    """One end of a loopback, in one direction."""

    nic: str
    direction: str


class Seen(NamedTuple):
    """What one end gave, and with whom."""

    time: float
    partner: End
    flow: Measured


def judge_loopback(trials: Sequence[Trial], oldest: float) -> Iterator[Finding]:
    """The NICs that are slow with whomever they are paired; a slow result counts against one of its ends only."""
    seen: dict[End, list[Seen]] = defaultdict(list)
    for trial in trials:
        devices = {device_of(subject) for subject in trial.others}
        for flow in trial.flows if trial.result == "ok" else ():
            if flow.slow and devices & {device_of(flow.source), device_of(flow.target)}:
                continue
            sender, receiver = End(flow.source, "transmit"), End(flow.target, "receive")
            seen[sender].append(Seen(trial.time, receiver, flow))
            seen[receiver].append(Seen(trial.time, sender, flow))
    blamed: dict[End, list[Seen]] = {}
    # whoever was slow with most partners, then most often, is looked at first
    for end in sorted(seen, key=lambda one: _weight(seen[one]), reverse=True):
        run = _run([one for one in seen[end] if one.partner not in blamed])
        if len(run) >= IN_A_ROW and run[-1].time >= oldest:
            blamed[end] = run
    for nic in sorted({end.nic for end in blamed}):
        yield _loopback_slow(nic, {end.direction: run for end, run in blamed.items() if end.nic == nic})


def _weight(seen: Sequence[Seen]) -> tuple[int, int, float]:
    run = _run(seen)
    return len({one.partner.nic for one in run}), len(run), -median([one.flow.rate / one.flow.expected for one in seen])


def _loopback_slow(nic: str, runs: Mapping[str, Sequence[Seen]]) -> Finding:
    partners = sorted({one.partner.nic for run in runs.values() for one in run})
    worst = min((run[-1].flow for run in runs.values()), key=lambda flow: flow.rate / flow.expected)
    does = " and ".join({"transmit": "sends", "receive": "receives"}[direction] for direction in sorted(runs)[::-1])
    row = in_a_row(max(len(run) for run in runs.values()))
    if len(partners) > 1:
        who = f"with {listed(partners)}"
    else:
        who = f"with {partners[0]}, which alone it was measured with: it may be that one"
    return finding(
        "probe_loopback_slow",
        nic,
        f"{does} {words(worst)}, {row}, {who}",
        {
            **numbers(worst),
            "direction": "+".join(sorted(runs)),
            "partners": tuple(partners),
            "time": max(run[-1].time for run in runs.values()),
        },
    )


def _run(seen: Sequence[Seen]) -> list[Seen]:
    return last_run(seen, lambda one: one.flow.slow)
