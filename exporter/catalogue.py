"""Every metric and every reason of a finding, as Markdown: docs/metrics.md and docs/findings.md."""

import textwrap
from collections.abc import Iterable
from types import ModuleType
from typing import Any

import exporter.checks.burst
import exporter.checks.gpu
import exporter.checks.host
import exporter.checks.nvlink
import exporter.checks.port_metrics
import exporter.checks.roce
import exporter.checks.verbs
import exporter.exposition
import exporter.probes.figures
from exporter.health import GONE, SILENCES
from exporter.metrics import Metric
from exporter.reasons import GPUS, PORTS, PROBES, REASONS, TRAFFIC, Reason

MODULES: tuple[tuple[str, ModuleType], ...] = (
    ("Ports (`checks/infiniband.py`)", exporter.checks.port_metrics),
    ("RoCE detail, PCIe, modules (`checks/roce.py`)", exporter.checks.roce),
    ("RDMA as programs see it (`checks/verbs.py`)", exporter.checks.verbs),
    ("Bursts (`checks/burst.py`)", exporter.checks.burst),
    ("NVLink (`checks/nvlink.py`)", exporter.checks.nvlink),
    ("GPUs (`checks/gpu.py`)", exporter.checks.gpu),
    ("Host (`checks/host.py`)", exporter.checks.host),
    ("Probes (`probes/figures.py`)", exporter.probes.figures),
    ("The daemon itself (`exposition.py`)", exporter.exposition),
)


def declared(module: ModuleType) -> list[Metric[Any]]:
    """The metrics that a module declares, by name."""
    found = {}
    for value in vars(module).values():
        several = value.values() if isinstance(value, dict) else [value]
        found.update({metric.name: metric for metric in several if isinstance(metric, Metric)})
    return [found[name] for name in sorted(found)]


def markdown() -> str:
    """The catalogue."""
    lines = [
        "# Metrics",
        "",
        "Made by `eastwest catalogue` from the declarations in the code; do not edit by hand (`make golden`).",
        "",
        "What is absent could not be read or is not there: no value is ever made up. All values are in base units.",
        "The daemon also serves prometheus_client's `process_*` figures of itself.",
    ]
    for title, module in MODULES:
        lines += [
            "",
            f"## {title}",
            "",
            "| metric | type | labels | meaning and source |",
            "|---|---|---|---|",
        ]
        lines += [
            f"| `{metric.name}` | {metric.kind} | {', '.join(metric.label_names) or '–'} | {_cell(metric.help)} |"
            for metric in declared(module)
        ]
    return "\n".join(lines) + "\n"


def reasons() -> str:
    """Every reason of a finding."""
    lines = [
        "# Findings",
        "",
        "Made by `eastwest catalogue findings` from the list in the code (`exporter/reasons`); do not edit by hand.",
        "",
        *textwrap.wrap(
            "A finding names a check, a subject (`mlx5_1/1`, `mlx5_1/pcie`, `gpu0`, `gpu0/link03`, `gpu0/gpu3`, "
            "`node`), a severity and one of these reasons. The verdict of a node is the worst severity, in the order "
            "critical, unknown, degraded; info counts for nothing. The severities here are those of a compute "
            "(East-West) port: on a storage port critical becomes degraded, and what concerns a management port is "
            "info.",
            118,
        ),
        "",
        *textwrap.wrap(
            "A finding is raised once it has lasted its delay, and cleared once it has been gone for its hold. Of "
            "several with one cause only the cause is shown: what is gone "
            f"({_names(GONE)}, `ports_down`) silences everything else of that device, and "
            "the table of consequences at the end silences the rest. `eastwest ack SUBJECT` makes what concerns a "
            "subject info; `health.severity_cap` does so for everything above it.",
            118,
        ),
        "",
        "| reason | severity | meaning |",
        "|---|---|---|",
        *(f"| [`{one.name}`](#{one.name}) | {one.severity} | {_cell(one.meaning)} |" for one in REASONS.values()),
    ]
    groups = (
        ("Ports", PORTS),
        ("Errors, congestion, PCIe", TRAFFIC),
        ("GPUs, NVLinks, checks", GPUS),
        ("Probes", PROBES),
    )
    for title, group in groups:
        lines += ["", f"## {title}"]
        lines += [line for one in group for line in _reason(one)]
    lines += ["", "## Consequences", "", "| while this stands on a device | these are not shown |", "|---|---|"]
    lines += [f"| `{cause}` | {_names(silenced)} |" for cause, silenced in SILENCES.items()]
    return "\n".join(lines) + "\n"


def _reason(one: Reason) -> list[str]:
    waits = f"raised after {one.delay:.0f} s" if one.delay else "raised at once"
    holds = f"cleared {one.hold:.0f} s after it is gone" if one.hold else "cleared at once"
    return [
        "",
        f"### {one.name}",
        "",
        f"{one.meaning} Severity: {one.severity}; {waits}, {holds}.",
        "",
        f"- **Computed from**: {_text(one.computation)}",
        f"- **Threshold**: {_text(one.threshold)}",
        f"- **Not evidence of**: {_text(one.not_evidence)}",
        f"- **Next**: {_text(one.action)}",
    ]


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


def _text(words: str) -> str:
    """Angle brackets outside of code are tags to Markdown."""
    parts = words.split("`")
    return "`".join(part if index % 2 else _cell(part) for index, part in enumerate(parts))


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace(">", "&gt;")
