"""A probe's result as it is kept, served and shown: plain JSON. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from exporter.judge.trials import BAD, Measured, Trial
from exporter.probes.gate import Refusal
from exporter.probes.journal import Record
from exporter.probes.protocol import Flow, Outcome


def make_record(  # noqa: PLR0913 - a result has so many sides
    outcome: Outcome,
    beside: Mapping[str, Any],
    flows: Sequence[Mapping[str, Any]],
    found: Refusal | None,
    now: float,
    others: Sequence[str] = (),
) -> Record:
    """One result; `beside` is the evidence, `found` the work that appeared meanwhile, `now` Unix time of its end.

    `others` are the subjects of the findings of weight that were open.
    """
    spec = outcome.spec
    return {
        "time": now,
        "scope": spec.scope,
        "engine": spec.engine,
        "result": outcome.result,
        "reason": outcome.reason,
        "message": outcome.message,
        "preempted": found is not None,
        "phase": outcome.phase,
        "phases": {name: round(seconds, 3) for name, seconds in outcome.phases.items()},
        "seconds": round(outcome.seconds, 3),
        "bytes": outcome.bytes,
        "size": spec.size,
        "gpus": list(spec.gpus),
        "nics": [nic.subject for nic in spec.nics],
        "open_findings": list(others),
        "left": outcome.left,
        "flows": list(flows),
        "facts": dict(outcome.facts),
        "evidence": dict(beside),
    }


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
    """One flow, in bytes/s or seconds; `expected` and `ratio` are None where nothing is known yet."""
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
