"""The metrics of the probes: results as they were, and what they cost."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from exporter.metrics import NoLabels, Sample, counter, gauge
from exporter.probes.journal import Record
from exporter.probes.totals import Tally


class LinkLabels(NamedTuple):
    """What was measured, `intra` (all GPUs), `loopback` (a NIC) or `latency` (either), and by which engine."""

    scope: str
    engine: str
    rail: str


class BestLabels(NamedTuple):
    """A rail ('' for all GPUs)."""

    rail: str
    scope: str


class RunLabels(NamedTuple):
    """How probes ended: ok, error, timeout, refused (the engine can't run here)."""

    scope: str
    engine: str
    result: str


class ReasonLabels(NamedTuple):
    """What was against a probe that was due."""

    reason: str


TRANSMIT = gauge(
    "probe_transmit_bandwidth_bytes_per_second",
    "Median of the last probe, as sender; for all GPUs nccl-tests' bus bandwidth. From NCCL or perftest, kept 24 h.",
    LinkLabels,
)
RECEIVE = gauge(
    "probe_receive_bandwidth_bytes_per_second",
    "Median of the last probe, as receiver; for all GPUs as transmit. From NCCL or perftest, kept 24 h.",
    LinkLabels,
)
LATENCY = gauge(
    "probe_latency_seconds", "Time of a small operation, one way, in the last probe. From NCCL or perftest.", LinkLabels
)
TIMESTAMP = gauge(
    "probe_timestamp_seconds",
    "When the last probe with a result ended, in Unix time. By this host's clock.",
    LinkLabels,
)
EXPECTED = gauge(
    "probe_expected_bandwidth_bytes_per_second",
    "What this link usually gives: the median of its own earlier probes of the same size, from the fourth on.",
    LinkLabels,
)
BEST = gauge(
    "rail_best_recent_bandwidth_bytes_per_second", "The best of the probes of the last 24 h, either way.", BestLabels
)
INIT = gauge(
    "probe_init_seconds", "How long the engine took to set up in the last probe; no sign of a slow link.", LinkLabels
)
RUNS = counter(
    "probe_runs_total",
    "Probes of the daemon, of hooks and by hand, by how they ended; those that gave way to work not included.",
    RunLabels,
)
SKIPPED = counter(
    "probe_skipped_total",
    "Times a probe was due, or asked for by a hook or by hand, and something was against it.",
    ReasonLabels,
)
PREEMPTED = counter("probe_preempted_total", "Probes stopped, or their results dropped, since work appeared.", NoLabels)
SECONDS = counter("probe_seconds_total", "Time in which probes ran: the daemon's, hooks' and by hand.", NoLabels)
BYTES = counter("probe_bytes_total", "Bytes that probes sent over links, dropped results included.", NoLabels)


def costs(tally: Tally) -> Iterator[Sample]:
    """What all probes of this node have cost; begins anew only where probes-totals.json was removed."""
    yield PREEMPTED(NoLabels(), tally.preempted)
    yield SECONDS(NoLabels(), tally.seconds)
    yield BYTES(NoLabels(), tally.bytes)
    for labels, count in sorted(tally.runs.items()):
        yield RUNS(RunLabels(*labels), count)
    for reason, count in sorted(tally.skipped.items()):
        yield SKIPPED(ReasonLabels(reason), count)


def samples(records: Sequence[Record]) -> Iterator[Sample]:
    """The last result of each link; `records` are oldest first."""
    latest: dict[tuple[Any, tuple[str, ...]], Sample] = {}
    best: dict[BestLabels, float] = {}
    for record in records:
        if record["result"] != "ok" or record["preempted"]:
            continue
        for flow in record["flows"]:
            for sample in _of(record, flow):
                latest[sample.metric, sample.labels] = sample
                if sample.metric in (TRANSMIT, RECEIVE) and not isinstance(sample.value, tuple):
                    labels = BestLabels(sample.labels[2], sample.labels[0])
                    best[labels] = max(best.get(labels, 0.0), float(sample.value))  # type: ignore[arg-type]  # no histogram
    yield from latest.values()
    for of, value in sorted(best.items()):
        yield BEST(of, value)


def _of(record: Record, flow: Mapping[str, Any]) -> Iterator[Sample]:
    """The samples of one flow; pairs of GPUs have none: 56 series of a node that a finding names one of."""
    scope, engine = record["scope"], record["engine"]
    ends = [(TRANSMIT, flow["source_rail"]), (RECEIVE, flow["target_rail"])]
    if flow["kind"] == "latency":
        yield LATENCY(LinkLabels(scope, engine, flow["source_rail"]), flow["latency"])
        return
    if flow["source"].startswith("gpu"):
        return
    for metric, rail in ends:
        labels = LinkLabels(scope, engine, rail)
        yield metric(labels, flow["bytes_per_second"])
        yield TIMESTAMP(labels, record["time"])
        if (init := record["phases"].get("init")) is not None:
            yield INIT(labels, init)
    if flow["expected"] is not None:
        yield EXPECTED(LinkLabels(scope, engine, flow["source_rail"]), flow["expected"])
