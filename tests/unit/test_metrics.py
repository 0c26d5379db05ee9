"""The naming law, and that every declared metric keeps it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from exporter.catalogue import MODULES, declared, markdown
from exporter.metrics import Metric, NoLabels, counter, gauge, info


class One(NamedTuple):
    """One label."""

    device: str


@pytest.mark.parametrize(
    ("make", "name", "what"),
    [
        (gauge, "port_total", "_total is for counters"),
        (gauge, "port_info", "_info for infos"),
        (counter, "port_bytes", "ends in _total"),
        (info, "port", "ends in _info"),
        (gauge, "Port", "not a metric name"),
        (gauge, "port__rate", "not a metric name"),
        (gauge, "_port", "not a metric name"),
        (gauge, "port-rate", "not a metric name"),
        (gauge, "", "not a metric name"),
        (gauge, "lifespan_milliseconds", "milliseconds is not a base unit"),
        (counter, "pause_microseconds_total", "microseconds is not a base unit"),
        (gauge, "rate_bits_per_second", "bits_per_second is not a base unit"),
        (gauge, "use_percent", "percent is not a base unit"),
    ],
)
def test_a_bad_name_is_refused(make: Callable[..., Metric[Any]], name: str, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        make(name, "A sentence.", NoLabels)


def test_help_is_a_sentence() -> None:
    with pytest.raises(ValueError, match="help is a sentence"):
        gauge("port_rate", "no full stop", NoLabels)


def test_a_sample_holds_its_family_labels_and_value() -> None:
    rate = gauge("port_rate", "A rate.", One)
    assert rate(One("mlx5_0"), 5) == (rate, ("mlx5_0",), 5)
    assert rate.name == "eastwest_port_rate"
    assert rate.label_names == ("device",)
    assert gauge("bare", "Bare.", NoLabels).label_names == ()


def test_no_name_is_declared_twice_and_every_one_is_in_the_catalogue() -> None:
    names = [metric.name for _, module in MODULES for metric in declared(module)]
    assert len(names) == len(set(names)) > 40
    families = [name.removesuffix("_total").removesuffix("_info") for name in names]
    assert len(families) == len(set(families)), "OpenMetrics names a family without its suffix"
    text = markdown()
    assert all(f"| `{name}` |" in text for name in names)
