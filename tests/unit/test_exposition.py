"""Our writer against prometheus_client's parsers: whatever the labels and values, both formats say what was meant."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import Metric as Family
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from exporter.board import CheckView, Outcome, Snapshot, Timing
from exporter.checks.base import Report
from exporter.exposition import Exposition
from exporter.metrics import Distribution, Sample, counter, gauge, info


class Two(NamedTuple):
    """Labels of a test."""

    first: str
    second: str


GAUGE = gauge("oracle_value", 'A value, \\ and "quotes"\nin two lines.', Two)
COUNTER = counter("oracle_things_total", "Things.", Two)
INFO = info("oracle_info", "Facts.", Two)
FINITE = st.one_of(st.integers(0, 2**64 - 1), st.floats(allow_nan=False))
ROWS = st.dictionaries(st.tuples(st.text(max_size=12), st.text(max_size=12)), FINITE, max_size=8)
Found = dict[tuple[str, str, str], float]


def shown(samples: Sequence[Sample], openmetrics: bool = False, process: bool = False) -> str:
    outcome = Outcome("c", "ok", Report(tuple(samples)), 10.0, 1e9, 0.5)
    view = CheckView("c", Timing(5, 5), outcome, outcome)
    snapshot = Snapshot(1e9, 11.0, (view,), {("src", "eio"): 3}, reload_successful=True)
    return Exposition("n", "r", process).render(snapshot, openmetrics).decode()


def oracle(families: Iterable[Family]) -> Found:
    """Every sample of this file's families."""
    return {
        (sample.name, sample.labels["first"], sample.labels["second"]): float(sample.value)
        for family in families
        for sample in family.samples
        if sample.name.startswith("eastwest_oracle")
    }


def both(samples: Sequence[Sample]) -> tuple[Found, Found]:
    return (
        oracle(parse_text(shown(samples))),
        oracle(parse_openmetrics(shown(samples, openmetrics=True))),  # type: ignore[no-untyped-call]  # untyped there
    )


@settings(max_examples=80, deadline=None)
@given(
    gauges=ROWS,
    counters=st.dictionaries(st.tuples(st.text(max_size=12), st.text(max_size=12)), st.integers(0, 2**64 - 1)),
)
def test_both_formats_give_back_what_was_put_in(
    gauges: dict[tuple[str, str], float], counters: dict[tuple[str, str], int]
) -> None:
    samples = [GAUGE(Two(*labels), value) for labels, value in gauges.items()]
    samples += [COUNTER(Two(*labels), value) for labels, value in counters.items()]
    samples += [INFO(Two(*labels), 1) for labels in gauges]
    expected = {
        (sample.metric.name, *sample.labels): float(sample.value)
        for sample in samples
        if not isinstance(sample.value, Distribution)
    }
    text, openmetrics = both(samples)
    assert text == expected
    assert openmetrics == expected


def test_integers_are_exact_and_special_floats_are_as_the_formats_spell_them() -> None:
    text = shown(
        [
            GAUGE(Two("a", str(index)), value)
            for index, value in enumerate((2**64 - 1, math.inf, -math.inf, math.nan, True))
        ]
    )
    values = [line.rpartition(" ")[2] for line in text.splitlines() if line.startswith("eastwest_oracle_value{")]
    assert values == ["18446744073709551615", "+Inf", "-Inf", "NaN", "1"]


def test_a_series_given_twice_appears_once_and_the_text_stays_valid() -> None:
    text, openmetrics = both([GAUGE(Two("a", "b"), 1), GAUGE(Two("a", "b"), 2)])
    assert text == openmetrics == {("eastwest_oracle_value", "a", "b"): 2}


def test_types_and_help_in_both_formats() -> None:
    samples = [COUNTER(Two("a", "b"), 1), INFO(Two("a", "b"), 1)]
    text, openmetrics = shown(samples), shown(samples, openmetrics=True)
    assert "# TYPE eastwest_oracle_things_total counter\n" in text
    assert "# TYPE eastwest_oracle_info gauge\n" in text
    assert "# TYPE eastwest_oracle_things counter\n" in openmetrics
    assert "# TYPE eastwest_oracle info\n" in openmetrics
    assert openmetrics.endswith("\n# EOF\n")
    families = {family.name: family for family in parse_text(shown([GAUGE(Two("a", "b"), 1)]))}
    assert families["eastwest_oracle_value"].documentation == GAUGE.help


def test_what_the_daemon_says_of_itself() -> None:
    text = shown([], process=True)
    assert 'eastwest_check_success{check="c"} 1\n' in text
    assert 'eastwest_check_duration_seconds{check="c"} 0.5\n' in text
    assert 'eastwest_source_errors_total{source="src",reason="eio"} 3\n' in text
    assert 'eastwest_node_info{node="n",rack="r"} 1\n' in text
    assert "process_cpu_seconds_total " in text
    assert "# TYPE process_cpu_seconds_total counter\n" in text


def test_labels_that_are_gone_do_not_stay_in_memory() -> None:
    exposition = Exposition("n", "", process=False)

    def render(name: str) -> str:
        report = Report(tuple(GAUGE(Two(name, str(index)), 1) for index in range(400)))
        outcome = Outcome("c", "ok", report, 10.0, 1e9, 0.5)
        view = CheckView("c", Timing(5, 5), outcome, outcome)
        return exposition.render(Snapshot(1e9, 11.0, (view,), {}, reload_successful=True)).decode()

    for generation in range(10):
        text = render(f"device{generation}")
        assert text.count("eastwest_oracle_value{") == 400
        assert f'first="device{generation}"' in text
    assert len(exposition._heads) < 2500  # noqa: SLF001 - the cache is what this test is about
