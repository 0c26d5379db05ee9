"""How a metric is declared: one typed value, whose labels are a NamedTuple. Standard library only."""

import re
from dataclasses import dataclass
from typing import Any, Generic, Literal, NamedTuple, TypeVar

NAMESPACE = "eastwest"
Kind = Literal["gauge", "counter", "info", "histogram"]
Labels = TypeVar("Labels", bound=tuple[str, ...])
_NAME = re.compile(r"[a-z][a-z0-9_]*[a-z0-9]")
_UNIT_WORDS = {"milliseconds", "microseconds", "megabytes", "bits_per_second", "percent"}


@dataclass(frozen=True, slots=True, eq=False)
class Metric(Generic[Labels]):
    """A metric family, declared once, at the head of the module that fills it. Compared by identity."""

    kind: Kind
    name: str
    help: str
    labels: type[Labels]
    bounds: tuple[float, ...] = ()
    """Upper bounds of a histogram's buckets but the last, ascending."""

    def __call__(self, labels: Labels, value: "float | Distribution") -> "Sample":
        """A sample of this family; `value` in the base unit that the name says, a Distribution for a histogram."""
        return Sample(self, labels, value)

    @property
    def label_names(self) -> tuple[str, ...]:
        """The names of the labels, in order."""
        names: tuple[str, ...] = getattr(self.labels, "_fields", ())
        return names


@dataclass(frozen=True, slots=True)
class Distribution:
    """A histogram's value: how many observations fell into each bucket (one more than bounds), and their sum."""

    counts: tuple[int, ...]
    total: float


class Sample(NamedTuple):
    """One value of one series; label values are text already."""

    metric: Metric[Any]
    labels: tuple[str, ...]
    value: float | Distribution


class NoLabels(NamedTuple):
    """The labels of a family with a single series."""


def gauge(name: str, help_text: str, labels: type[Labels]) -> Metric[Labels]:
    """A value that goes up and down; `name` without the prefix."""
    if name.endswith(("_total", "_info")):
        raise ValueError(f"{name}: _total is for counters, _info for infos")
    return _metric("gauge", name, help_text, labels)


def counter(name: str, help_text: str, labels: type[Labels]) -> Metric[Labels]:
    """A value that only grows, until its source is reset; `name` ends in `_total`."""
    if not name.endswith("_total"):
        raise ValueError(f"{name}: a counter's name ends in _total")
    return _metric("counter", name, help_text, labels)


def info(name: str, help_text: str, labels: type[Labels]) -> Metric[Labels]:
    """Facts as labels, with the value 1; `name` ends in `_info`."""
    if not name.endswith("_info"):
        raise ValueError(f"{name}: an info's name ends in _info")
    return _metric("info", name, help_text, labels)


def histogram(name: str, help_text: str, labels: type[Labels], bounds: tuple[float, ...]) -> Metric[Labels]:
    """Observations by size: cumulative buckets up to each of `bounds`, their count and sum."""
    if name.endswith(("_total", "_info", "_bucket", "_count", "_sum")) or "le" in getattr(labels, "_fields", ()):
        raise ValueError(f"{name}: a histogram has suffixes and the label `le` of its own")
    if not bounds or list(bounds) != sorted(set(bounds)):
        raise ValueError(f"{name}: bounds ascend")
    return _metric("histogram", name, help_text, labels, bounds)


def _metric(
    kind: Kind, name: str, help_text: str, labels: type[Labels], bounds: tuple[float, ...] = ()
) -> Metric[Labels]:
    """Apply the naming law of docs/design.md: base units, one namespace, HELP that names the source."""
    if not _NAME.fullmatch(name) or "__" in name:
        raise ValueError(f"{name}: not a metric name of this project")
    if found := [word for word in _UNIT_WORDS if word in name]:
        raise ValueError(f"{name}: {found[0]} is not a base unit")
    if not help_text.endswith("."):
        raise ValueError(f"{name}: help is a sentence")
    return Metric(kind, f"{NAMESPACE}_{name}", help_text, labels, bounds)
