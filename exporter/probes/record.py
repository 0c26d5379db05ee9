"""A probe's result as it is kept, served and shown: plain JSON. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from exporter.judge.trials import BAD, Measured, Trial
from exporter.probes.gate import Refusal
from exporter.probes.journal import Record
from exporter.probes.kept import is_record
from exporter.probes.protocol import Flow, Outcome
from exporter.probes.totals import Tally

NONSENSE = "the worker said numbers that can't be"


def make_record(  # noqa: PLR0913 - a result has so many sides
    outcome: Outcome,
    beside: Mapping[str, Any],
    flows: Sequence[Mapping[str, Any]],
    found: Refusal | None,
    now: float,
    others: Sequence[str] = (),
    sent: int | None = None,
) -> Record:
    """One result; `beside` is the evidence, `found` the work that appeared meanwhile, `now` Unix time of its end.

    `others` are the subjects of the findings of weight that were open. `sent` is the bytes that went over links where
    the flows no longer tell: a result that is dropped has cost as much.
    """
    record = {
        **_ending(outcome),
        "time": now,
        "preempted": found is not None,
        "open_findings": list(others),
        "bytes": outcome.bytes if sent is None else sent,
        "flows": list(flows),
        "evidence": dict(beside),
    }
    if is_record(record):
        return record
    # numbers of a worker that can't be counted with: an error of the probe, not of whoever reads them later
    nonsense = replace(outcome, result="error", reason="bad_worker", message=NONSENSE, facts={}, phases={})
    return {**record, **_ending(nonsense), "bytes": 0, "flows": [], "evidence": {}}


def _ending(outcome: Outcome) -> dict[str, Any]:
    spec = outcome.spec
    return {
        "scope": spec.scope,
        "engine": spec.engine,
        "result": outcome.result,
        "reason": outcome.reason,
        "message": outcome.message,
        "phase": outcome.phase,
        "phases": {name: round(seconds, 3) for name, seconds in outcome.phases.items()},
        "seconds": round(outcome.seconds, 3),
        "size": spec.size,
        "gpus": list(spec.gpus),
        "nics": [nic.subject for nic in spec.nics],
        "left": outcome.left,
        "facts": dict(outcome.facts),
    }


def spent(record: Record) -> Tally:
    """What a probe has cost."""
    runs: Counter[tuple[str, str, str]] = Counter()
    if not record["preempted"] and record["result"] != "aborted":
        runs[record["scope"], record["engine"], record["result"]] = 1
    return Tally(runs, preempted=int(record["preempted"]), seconds=record["seconds"], bytes=record["bytes"])


def make_trial(record: Record) -> Trial | None:
    """What of a result is judged; None where it says nothing: work came first, or the engine can't run here.

    A small operation alone says nothing of a link's bandwidth, and does not count as having measured it.
    """
    if record["preempted"] or record["scope"] == "latency" or record["result"] not in ("ok", *BAD):
        return None
    flows = [
        Measured(flow["source"], flow["target"], flow["bytes_per_second"], flow["expected"])
        for flow in record["flows"]
        if flow["expected"] is not None
    ]
    return Trial(
        record["time"],
        record["scope"],
        record["engine"],
        record["result"],
        record["reason"],
        record["phase"],
        tuple(record["nics"]),
        tuple(record["open_findings"]),
        record["left"],
        tuple(flows),
    )


def shown_flow(flow: Flow, rails: Mapping[str, str], expected: float | None, recent: Sequence[float]) -> dict[str, Any]:
    """One flow, in bytes/s or seconds; `expected` and `ratio` are None where nothing is known yet.

    `recent` are the last runs before this one as they were.
    """
    shown: dict[str, Any] = {
        "kind": flow.kind,
        "source": flow.source,
        "target": flow.target,
        "source_rail": rails.get(flow.source, ""),
        "target_rail": rails.get(flow.target, ""),
        "transport": flow.transport,
        "expected": expected,
    }
    if flow.kind == "latency":
        return {**shown, "latency": flow.latency}
    slowest, fastest = flow.bandwidth_range
    ratio = None if expected is None else flow.bandwidth / expected
    return {
        **shown,
        "bytes_per_second": flow.bandwidth,
        "slowest": slowest,
        "fastest": fastest,
        "ratio": ratio,
        "recent": list(recent),
    }
