"""The board, as Prometheus reads it: text format 0.0.4 and OpenMetrics 1.0. Touches no hardware.

A writer of our own, since prometheus_client builds every label string anew at every scrape: here each series'
`name{labels} ` is kept. Tests hold the output to prometheus_client's parsers.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from prometheus_client import ProcessCollector
from prometheus_client.registry import CollectorRegistry
from prometheus_client.utils import floatToGoString

from exporter import __version__
from exporter.board import Snapshot
from exporter.health import STATUSES
from exporter.metrics import Distribution, Kind, Metric, NoLabels, Sample, counter, gauge, info

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
CACHE_SLACK = 1000


class VersionLabels(NamedTuple):
    """This program."""

    version: str


class NodeLabels(NamedTuple):
    """This node, by its configured or host name."""

    node: str
    rack: str


class CheckLabels(NamedTuple):
    """One check."""

    check: str


class ErrorLabels(NamedTuple):
    """What could not be read, and the errno or kind of nonsense."""

    source: str
    reason: str


class StatusLabels(NamedTuple):
    """A verdict: ok, degraded, critical or unknown."""

    status: str


class FindingLabels(NamedTuple):
    """A finding: the check that found it, on what, how bad, and its reason."""

    check: str
    subject: str
    severity: str
    reason: str


BUILD_INFO = info("build_info", "This program; the value is 1. From the package.", VersionLabels)
NODE_INFO = info("node_info", "This node; the value is 1. From node.name and node.labels.rack.", NodeLabels)
RELOAD = gauge(
    "config_last_reload_successful",
    "1 if the configuration was read well the last time; after a bad one the old is kept.",
    NoLabels,
)
SUCCESS = gauge("check_success", "1 if the check's last run ended well and none is past its deadline.", CheckLabels)
DURATION = gauge("check_duration_seconds", "How long the check's last run took.", CheckLabels)
LAST_RUN = gauge("check_last_run_timestamp_seconds", "When the check's last run ended, in Unix time.", CheckLabels)
OVERRUNS = counter("check_overruns_total", "Runs left out because the one before had not ended.", CheckLabels)
SOURCE_ERRORS = counter(
    "source_errors_total", "Things that should have answered and did not, by what they said.", ErrorLabels
)


HEALTH = gauge(
    "node_health",
    "1 for the verdict of this node, 0 for the others: the worst severity among the findings; info never counts.",
    StatusLabels,
)
FINDING = gauge(
    "finding",
    "1 for each finding that stands; see docs/findings.md for the reasons. What an operator has acknowledged is info.",
    FindingLabels,
)


class Exposition:
    """Renders snapshots; keeps the label text of the series it has seen.

    `node` and `rack` name this node. `process` adds the process_* figures of this process, from
    prometheus_client's collector.
    """

    def __init__(self, node: str, rack: str, process: bool) -> None:
        self._fixed = (BUILD_INFO(VersionLabels(__version__), 1), NODE_INFO(NodeLabels(node, rack), 1))
        self._process = ProcessCollector(registry=CollectorRegistry()) if process else None
        self._heads: dict[tuple[Metric[Any], tuple[str, ...]], str] = {}

    def render(self, snapshot: Snapshot, openmetrics: bool = False) -> bytes:
        """The whole of /metrics."""
        samples = [*self._fixed, *_own(snapshot)]
        for report in snapshot.reports():
            samples += report.samples
        families = self._families(samples)
        parts = [
            _head(metric.name, metric.kind, metric.help, openmetrics) + "".join(lines.values())
            for metric, lines in sorted(families.items(), key=lambda family: family[0].name)
        ]
        parts += self._process_text(openmetrics)
        if openmetrics:
            parts.append("# EOF\n")
        return "".join(parts).encode()

    def _families(self, samples: Iterable[Sample]) -> dict[Metric[Any], dict[str, str]]:
        """Lines by family and series: a series that is given twice appears once, and the text stays valid."""
        heads = self._heads
        families: dict[Metric[Any], dict[str, str]] = {}
        count = 0
        for metric, labels, value in samples:
            count += 1
            head = heads.get((metric, labels))
            if head is None:
                head = heads[metric, labels] = _series(metric.name, metric.label_names, labels)
            lines = families.get(metric)
            if lines is None:
                lines = families[metric] = {}
            if type(value) is int:
                lines[head] = f"{head}{value}\n"
            elif isinstance(value, Distribution):
                lines[head] = _histogram(metric, labels, value)
            else:
                lines[head] = f"{head}{number(value)}\n"
        if len(heads) > 2 * count + CACHE_SLACK:
            heads.clear()
        return families

    def _process_text(self, openmetrics: bool) -> Iterator[str]:
        for family in self._process.collect() if self._process else ():
            kind: Kind = "counter" if family.type == "counter" else "gauge"
            name = f"{family.name}_total" if kind == "counter" else family.name
            yield _head(name, kind, family.documentation, openmetrics)
            for sample in family.samples:
                yield f"{sample.name} {number(sample.value)}\n"


def number(value: float) -> str:
    """A value as both formats write it; integers exactly."""
    return str(int(value)) if isinstance(value, int) else str(floatToGoString(value))  # type: ignore[no-untyped-call]  # no types there


def _own(snapshot: Snapshot) -> Iterator[Sample]:
    """What the daemon says of itself."""
    yield RELOAD(NoLabels(), int(snapshot.reload_successful))
    for view in snapshot.checks:
        labels = CheckLabels(view.name)
        yield OVERRUNS(labels, view.overruns)
        if view.ran:
            yield SUCCESS(labels, int(view.success))
        if view.outcome is not None:
            yield DURATION(labels, view.outcome.seconds)
            yield LAST_RUN(labels, view.outcome.finished_wall)
    for status in STATUSES:
        yield HEALTH(StatusLabels(status), int(snapshot.status == status))
    for one in snapshot.findings:
        finding = one.finding
        yield FINDING(FindingLabels(finding.check, finding.subject, finding.severity.value, finding.reason), 1)
    for (source, reason), count in sorted(snapshot.source_errors.items()):
        yield SOURCE_ERRORS(ErrorLabels(source, reason), count)


def _head(name: str, kind: Kind, help_text: str, openmetrics: bool) -> str:
    """HELP and TYPE: OpenMetrics names a counter or info without its suffix, and knows infos."""
    if openmetrics:
        family = name.removesuffix("_total") if kind == "counter" else name
        family = family.removesuffix("_info") if kind == "info" else family
        return f"# HELP {family} {_escape(help_text)}\n# TYPE {family} {kind}\n"
    help_line = help_text.replace("\\", "\\\\").replace("\n", "\\n")
    return f"# HELP {name} {help_line}\n# TYPE {name} {'gauge' if kind == 'info' else kind}\n"


def _series(name: str, label_names: tuple[str, ...], values: tuple[str, ...]) -> str:
    if not label_names:
        return f"{name} "
    pairs = ",".join(f'{key}="{_escape(value)}"' for key, value in zip(label_names, values, strict=True))
    return f"{name}{{{pairs}}} "


def _histogram(metric: Metric[Any], labels: tuple[str, ...], value: Distribution) -> str:
    """The cumulative buckets, the sum and the count."""
    names, bounds = (*metric.label_names, "le"), [number(bound) for bound in metric.bounds]
    lines, seen = [], 0
    for bound, count in zip((*bounds, "+Inf"), value.counts, strict=True):
        seen += count
        lines.append(f"{_series(f'{metric.name}_bucket', names, (*labels, bound))}{seen}\n")
    lines.append(f"{_series(f'{metric.name}_sum', metric.label_names, labels)}{number(value.total)}\n")
    lines.append(f"{_series(f'{metric.name}_count', metric.label_names, labels)}{seen}\n")
    return "".join(lines)


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
