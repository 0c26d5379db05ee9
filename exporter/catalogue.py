"""Every metric, as Markdown: what docs/metrics.md is made of."""

from types import ModuleType
from typing import Any

import exporter.checks.burst
import exporter.checks.gpu
import exporter.checks.host
import exporter.checks.infiniband
import exporter.checks.nvlink
import exporter.checks.roce
import exporter.exposition
import exporter.probes.figures
from exporter.metrics import Metric

MODULES: tuple[tuple[str, ModuleType], ...] = (
    ("Ports (`checks/infiniband.py`)", exporter.checks.infiniband),
    ("RoCE detail, PCIe, modules (`checks/roce.py`)", exporter.checks.roce),
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


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace(">", "&gt;")
