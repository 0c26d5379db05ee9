"""Which metrics and labels an expression names. Enough of PromQL for that; Prometheus itself judges the grammar."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from exporter.catalogue import MODULES, declared

TARGET = frozenset({"job", "instance", "node"})
"""Labels of the scrape target."""
FOREIGN: Mapping[str, frozenset[str]] = {
    "up": frozenset(),
    "ALERTS": frozenset({"alertname", "alertstate", "severity", "device", "gpu"}),
    "process_cpu_seconds_total": frozenset(),
}
"""What Prometheus and the client library make."""
MADE = frozenset({"kind"})
"""Labels that queries make themselves, with label_replace."""
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_SELECTOR = re.compile(r"\b((?:eastwest|process)_\w+|up|ALERTS)\b\s*(?:\{([^}]*)\})?")
_MATCHER = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
_GROUPING = re.compile(r"\b(?:by|on|without|ignoring|group_left|group_right)\s*\(([^)]*)\)")


@dataclass(frozen=True, slots=True)
class Named:
    """What an expression names: labels by metric, and those it groups or joins by."""

    selectors: tuple[tuple[str, frozenset[str]], ...]
    grouping: frozenset[str]


def catalogue() -> Mapping[str, frozenset[str]]:
    """Every series that there is, and its labels; a histogram's three are apart."""
    known = dict(FOREIGN)
    for _, module in MODULES:
        for metric in declared(module):
            labels = frozenset(metric.label_names)
            known[metric.name] = labels
            if metric.kind == "histogram":
                known |= {f"{metric.name}_{suffix}": labels for suffix in ("count", "sum")}
                known[f"{metric.name}_bucket"] = labels | {"le"}
    return known


def named(expr: str) -> Named:
    """What this expression names."""
    bare = _STRING.sub('""', expr)
    selectors = tuple((found[1], frozenset(_MATCHER.findall(found[2] or ""))) for found in _SELECTOR.finditer(bare))
    grouping = {label.strip() for found in _GROUPING.finditer(bare) for label in found[1].split(",")}
    return Named(selectors, frozenset(grouping - {""}))


def strangers(expr: str, known: Mapping[str, frozenset[str]], used: frozenset[str] = frozenset()) -> Iterator[str]:
    """What the expression, and what is made of its labels (`used`), names and nobody declares."""
    found = named(expr)
    labels = set(TARGET | MADE)
    for metric, matched in found.selectors:
        if metric not in known:
            yield metric
            continue
        labels |= known[metric]
        yield from (f"{metric}{{{label}}}" for label in sorted(matched - known[metric] - TARGET))
    yield from sorted((found.grouping | used) - labels)
