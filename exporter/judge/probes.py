"""Judging what probes gave: each link against its own past. Pure; times are Unix seconds, rates bytes/s.

A slow result counts where what is usual is known and no finding was open that explains it. Two in a row make a
finding, one that is good ends it. See exporter/reasons/probes.py, docs/probes.md and ADR 35.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from exporter.judge.base import duration
from exporter.judge.loopback import judge_loopback
from exporter.judge.trials import (
    BAD,
    FAILURES,
    IN_A_ROW,
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

UNVERIFIED = 7 * 86_400.0
"""Seconds after a probe was due: from then on nothing is known of the links, and no older result speaks for them."""


@dataclass(frozen=True, slots=True)
class ProbeScene:
    """What there is to judge, at `now`: trials, oldest first, `min_gap`, and when a probe was due (None: never).

    `against` is what held the last one off.
    """

    now: float
    trials: Sequence[Trial]
    min_gap: float
    due: float | None = None
    against: str = ""


def judge_probes(scene: ProbeScene) -> Iterator[Finding]:
    """Every finding about what probes gave."""
    oldest = scene.now - scene.min_gap - UNVERIFIED
    yield from _intra([trial for trial in scene.trials if trial.scope == "intra"], oldest)
    yield from judge_loopback([trial for trial in scene.trials if trial.scope == "loopback"], oldest)
    yield from _failing(scene.trials, oldest)
    if scene.due is not None and scene.now - scene.due >= UNVERIFIED:
        late = scene.now - scene.due
        yield finding(
            "probe_unverified",
            "node",
            f"has not been measured though a probe is due since {duration(late)}"
            + (f" ({scene.against})" if scene.against else ""),
            {"due_seconds": round(late), "against": scene.against},
        )


def _intra(trials: Sequence[Trial], oldest: float) -> Iterator[Finding]:
    """All GPUs, or the pairs that are it; what was measured while a GPU had a finding says nothing if slow."""
    whole: list[tuple[Trial, Measured]] = []
    for trial in trials:
        flow = next((one for one in trial.flows if not one.source), None)
        explained = any(device_of(subject).startswith("gpu") for subject in trial.others)
        if trial.result == "ok" and flow is not None and not (flow.slow and explained):
            whole.append((trial, flow))
    run = last_run(whole, lambda one: one[1].slow)
    if len(run) < IN_A_ROW or run[-1][0].time < oldest:
        return
    pairs = [_slow_pairs(trial) for trial, _ in run[-IN_A_ROW:]]
    lasting = {ways: flow for ways, flow in pairs[-1].items() if all(ways in earlier for earlier in pairs)}
    last, flow = run[-1]
    evidence: Evidence = {**numbers(flow), "engine": last.engine, "time": last.time, "in_a_row": len(run)}
    if lasting:
        yield from _pairs(lasting, last, evidence)
        return
    yield finding(
        "probe_intra_slow",
        "node",
        f"its GPUs exchange {words(flow)}, {in_a_row(len(run))}; no one pair is it",
        evidence,
    )


def _slow_pairs(trial: Trial) -> dict[tuple[str, str], Measured]:
    return {(flow.source, flow.target): flow for flow in trial.flows if flow.source and flow.slow}


def _pairs(slow: Mapping[tuple[str, str], Measured], last: Trial, evidence: Evidence) -> Iterator[Finding]:
    """A GPU that is slow with most others is one finding; the pairs that are left are one each."""
    partners: dict[str, set[str]] = defaultdict(set)
    for source, target in slow:
        partners[source].add(target)
        partners[target].add(source)
    number = len({flow.source for flow in last.flows if flow.source})
    left = set(slow)
    # the GPU with most slow pairs first: its partners are slow with it alone
    for gpu in sorted(partners, key=lambda one: (-len(partners[one]), order(one))):
        mine = {ways for ways in left if gpu in ways}
        others = sorted({one for ways in mine for one in ways if one != gpu}, key=order)
        if len(others) > 1 and len(others) * 2 > number - 1:
            left -= mine
            worst = min((slow[ways] for ways in mine), key=lambda flow: flow.rate / flow.expected)
            yield finding(
                "probe_pair_slow",
                gpu,
                f"exchanges data slowly with {len(others)} of {number - 1} GPUs, at worst {words(worst)}",
                {**numbers(worst), "partners": tuple(others), "intra_ratio": evidence["ratio"], "time": last.time},
            )
    both: dict[tuple[str, ...], list[Measured]] = defaultdict(list)
    for source, target in left:
        both[tuple(sorted((source, target), key=order))].append(slow[source, target])
    for ends, flows in sorted(both.items()):
        worst = min(flows, key=lambda flow: flow.rate / flow.expected)
        ways = " and back" if len(flows) > 1 else ""
        yield finding(
            "probe_pair_slow",
            "/".join(ends),
            f"{worst.source} to {worst.target}{ways} exchange {words(worst)}, {in_a_row(IN_A_ROW)}",
            {
                **numbers(worst),
                "direction": tuple(sorted(f"{flow.source}>{flow.target}" for flow in flows)),
                "intra_ratio": evidence["ratio"],
                "time": last.time,
            },
        )


def _failing(trials: Sequence[Trial], oldest: float) -> Iterator[Finding]:
    """Of a NIC where only its probes fail; where all of a scope's do, or the GPUs', of the node: one finding."""
    by: dict[str, list[Trial]] = defaultdict(list)
    for trial in trials:
        for subject in trial.nics or ("",):
            by[subject].append(trial)
    failing = {
        subject: run
        for subject, mine in by.items()
        if (run := last_run(mine, lambda one: one.result in BAD))
        and (len(run) >= FAILURES or run[-1].left)
        and run[-1].time >= oldest
    }
    nics = [subject for subject in failing if subject]
    whole = [failing.pop("")] if "" in failing else []
    if len(nics) > 1 and len(nics) * 2 > sum(bool(subject) for subject in by):
        whole += [max((failing.pop(nic) for nic in nics), key=lambda run: run[-1].time)]
    if whole:
        yield _fails("node", whole)
    for subject, run in failing.items():
        yield _fails(subject, [run])


def _fails(subject: str, runs: Sequence[Sequence[Trial]]) -> Finding:
    last = max((run[-1] for run in runs), key=lambda trial: trial.time)
    scopes = sorted({run[-1].scope for run in runs})
    number = max(len(run) for run in runs)
    stuck = f"; process group {last.left} does not end" if last.left else ""
    return finding(
        "probe_failing",
        subject,
        f"the last {number} probes ({', '.join(scopes)}) failed, the last by {last.engine} in {last.phase}: "
        f"{last.reason or last.result}{stuck}",
        {"scopes": tuple(scopes), "engine": last.engine, "failure": last.reason, "phase": last.phase, "number": number},
    )
