"""Judging what probes gave: each link against its own past. Pure; times are Unix seconds, rates bytes/s.

A slow result counts where what is usual is known and no finding was open that explains it. Two in a row make a
finding, one that is good ends it. See exporter/reasons/probes.py, docs/probes.md and ADR 35.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple, TypeVar

from exporter.judge.base import duration, gbit, listed
from exporter.model import Evidence, Finding
from exporter.reasons import REASONS

MIN_RATIO = 0.9
"""Share of the usual value below which a result is slow: it is shown, and not learnt from."""
IN_A_ROW = 2
FAILURES = 3
UNVERIFIED = 7 * 86_400.0
"""Seconds after a probe was due: from then on nothing is known of the links, and no older result speaks for them."""
BAD = ("error", "timeout")
Of = TypeVar("Of")


@dataclass(frozen=True, slots=True)
class Measured:
    """One flow whose usual value was known; for all GPUs at once source and target are empty."""

    source: str
    target: str
    rate: float
    expected: float

    @property
    def slow(self) -> bool:
        """Whether it is."""
        return self.rate < MIN_RATIO * self.expected


@dataclass(frozen=True, slots=True)
class Trial:
    """One probe that ended by itself: `result` is ok, error or timeout, `reason` and `phase` of the latter two.

    `nics` are the ports that took part, `others` the subjects of the findings of weight that were open, `left` a
    process group that does not end, else 0.
    """

    time: float
    scope: str
    engine: str
    result: str
    reason: str = ""
    phase: str = ""
    nics: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    left: int = 0
    flows: tuple[Measured, ...] = ()


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


class End(NamedTuple):
    """One end of a loopback, in one direction."""

    nic: str
    direction: str


class Seen(NamedTuple):
    """What one end gave, and with whom."""

    time: float
    partner: End
    flow: Measured


def read_trial(raw: Mapping[str, Any]) -> Trial:
    """A trial from JSON. Raises ValueError, TypeError, KeyError."""
    flows = tuple(
        Measured(str(flow["source"]), str(flow["target"]), float(flow["rate"]), float(flow["expected"]))
        for flow in raw["flows"]
    )
    names = {name: tuple(str(one) for one in raw[name]) for name in ("nics", "others")}
    words = {name: str(raw[name]) for name in ("scope", "engine", "result", "reason", "phase")}
    return Trial(time=float(raw["time"]), left=int(raw["left"]), flows=flows, **names, **words)  # type: ignore[arg-type]  # by name


def judge_probes(scene: ProbeScene) -> Iterator[Finding]:
    """Every finding about what probes gave."""
    oldest = scene.now - scene.min_gap - UNVERIFIED
    yield from _intra([trial for trial in scene.trials if trial.scope == "intra"], oldest)
    yield from _loopback([trial for trial in scene.trials if trial.scope == "loopback"], oldest)
    yield from _failing(scene.trials, oldest)
    if scene.due is not None and scene.now - scene.due >= UNVERIFIED:
        late = scene.now - scene.due
        yield _found(
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
        explained = any(_device(subject).startswith("gpu") for subject in trial.others)
        if trial.result == "ok" and flow is not None and not (flow.slow and explained):
            whole.append((trial, flow))
    run = _last_run(whole, lambda one: one[1].slow)
    if len(run) < IN_A_ROW or run[-1][0].time < oldest:
        return
    pairs = [_slow_pairs(trial) for trial, _ in run[-IN_A_ROW:]]
    lasting = {ways: flow for ways, flow in pairs[-1].items() if all(ways in earlier for earlier in pairs)}
    last, flow = run[-1]
    evidence: Evidence = {**_numbers(flow), "engine": last.engine, "time": last.time, "in_a_row": len(run)}
    if lasting:
        yield from _pairs(lasting, last, evidence)
        return
    yield _found(
        "probe_intra_slow", "node", f"its GPUs exchange {_words(flow)}, {_row(len(run))}; no one pair is it", evidence
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
    for gpu in sorted(partners, key=lambda one: (-len(partners[one]), _order(one))):
        mine = {ways for ways in left if gpu in ways}
        others = sorted({one for ways in mine for one in ways if one != gpu}, key=_order)
        if len(others) > 1 and len(others) * 2 > number - 1:
            left -= mine
            worst = min((slow[ways] for ways in mine), key=lambda flow: flow.rate / flow.expected)
            yield _found(
                "probe_pair_slow",
                gpu,
                f"exchanges data slowly with {len(others)} of {number - 1} GPUs, at worst {_words(worst)}",
                {**_numbers(worst), "partners": tuple(others), "intra_ratio": evidence["ratio"], "time": last.time},
            )
    both: dict[tuple[str, ...], list[Measured]] = defaultdict(list)
    for source, target in left:
        both[tuple(sorted((source, target), key=_order))].append(slow[source, target])
    for ends, flows in sorted(both.items()):
        worst = min(flows, key=lambda flow: flow.rate / flow.expected)
        ways = " and back" if len(flows) > 1 else ""
        yield _found(
            "probe_pair_slow",
            "/".join(ends),
            f"{worst.source} to {worst.target}{ways} exchange {_words(worst)}, {_row(IN_A_ROW)}",
            {
                **_numbers(worst),
                "direction": tuple(sorted(f"{flow.source}>{flow.target}" for flow in flows)),
                "intra_ratio": evidence["ratio"],
                "time": last.time,
            },
        )


def _loopback(trials: Sequence[Trial], oldest: float) -> Iterator[Finding]:
    """The NICs that are slow with whomever they are paired; a slow result counts against one of its ends only."""
    seen: dict[End, list[Seen]] = defaultdict(list)
    for trial in trials:
        devices = {_device(subject) for subject in trial.others}
        for flow in trial.flows if trial.result == "ok" else ():
            if flow.slow and devices & {_device(flow.source), _device(flow.target)}:
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
    row = _row(max(len(run) for run in runs.values()))
    if len(partners) > 1:
        who = f"with {listed(partners)}"
    else:
        who = f"with {partners[0]}, which alone it was measured with: it may be that one"
    return _found(
        "probe_loopback_slow",
        nic,
        f"{does} {_words(worst)}, {row}, {who}",
        {
            **_numbers(worst),
            "direction": "+".join(sorted(runs)),
            "partners": tuple(partners),
            "time": max(run[-1].time for run in runs.values()),
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
        if (run := _last_run(mine, lambda one: one.result in BAD))
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
    return _found(
        "probe_failing",
        subject,
        f"the last {number} probes ({', '.join(scopes)}) failed, the last by {last.engine} in {last.phase}: "
        f"{last.reason or last.result}{stuck}",
        {"scopes": tuple(scopes), "engine": last.engine, "failure": last.reason, "phase": last.phase, "number": number},
    )


def _run(seen: Sequence[Seen]) -> list[Seen]:
    return _last_run(seen, lambda one: one.flow.slow)


def _last_run(of: Sequence[Of], bad: Callable[[Of], bool]) -> list[Of]:
    """The bad ones at the end, oldest first."""
    start = len(of)
    while start and bad(of[start - 1]):
        start -= 1
    return list(of[start:])


def _found(reason: str, subject: str, message: str, evidence: Evidence) -> Finding:
    return Finding("probes", subject, REASONS[reason].severity, reason, message, evidence)


def _numbers(flow: Measured) -> dict[str, float]:
    return {"rate": round(flow.rate), "expected": round(flow.expected), "ratio": round(flow.rate / flow.expected, 4)}


def _words(flow: Measured) -> str:
    return f"{gbit(flow.rate)}, {flow.rate / flow.expected:.0%} of the usual {gbit(flow.expected)}"


def _row(number: int) -> str:
    return f"in {number} probes in a row"


def _device(subject: str) -> str:
    return subject.partition("/")[0]


def _order(name: str) -> tuple[int, str]:
    """gpu2 before gpu10."""
    return len(name), name


def kept(trials: Iterable[Trial]) -> tuple[Trial, ...]:
    """The last few of each scope and pair, good and failed apart, in order: all that is needed to judge.

    In the order in which they came: a clock that was set back does not make the newest an old one.
    """
    all_of_them = list(trials)
    by: dict[tuple[str, frozenset[str], bool], list[int]] = defaultdict(list)
    for place, trial in enumerate(all_of_them):
        by[trial.scope, frozenset(trial.nics), trial.result == "ok"].append(place)
    return tuple(all_of_them[place] for place in sorted(one for mine in by.values() for one in mine[-FAILURES:]))
