"""Judging what probes gave: each link against its own past. Pure; times are Unix seconds, rates bytes/s.

A slow result counts where what is usual is known and no finding was open that explains it. Two in a row make a
finding, one that is good ends it. See exporter/reasons/probes.py, docs/probes.md and ADR 35.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from exporter.judge.base import duration
from exporter.judge.intra import judge_intra
from exporter.judge.loopback import judge_loopback
from exporter.judge.trials import BAD, FAILURES, Trial, finding, last_run
from exporter.model import Finding

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
    yield from judge_intra([trial for trial in scene.trials if trial.scope == "intra"], oldest)
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
