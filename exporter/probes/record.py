"""A probe's result as it is kept, served and shown: plain JSON. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from exporter.probes.gate import Refusal
from exporter.probes.journal import Record
from exporter.probes.protocol import Flow, Outcome


def make_record(
    outcome: Outcome,
    beside: Mapping[str, Any],
    flows: Sequence[Mapping[str, Any]],
    found: Refusal | None,
    now: float,
) -> Record:
    """One result; `beside` is the evidence, `found` the work that appeared meanwhile, `now` Unix time of its end."""
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
        "flows": list(flows),
        "facts": dict(outcome.facts),
        "evidence": dict(beside),
    }


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
