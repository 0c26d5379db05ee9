"""The whole of /metrics for each scenario, against its golden file: the interface that dashboards rely on."""

import os
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from exporter import reference
from exporter.catalogue import MODULES, declared, markdown, reasons
from exporter.hardware.scenarios import SCENARIOS
from tests.replays import Replays, replay

HERE = Path(__file__).parent
GOLDEN = HERE / "golden"


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_metrics_match_golden(scenario: str, replays: Replays) -> None:
    got = replays[scenario].text
    golden = GOLDEN / f"{scenario}.prom"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(got)
    assert got == golden.read_text()


def test_a_dgx_like_node_has_at_most_1300_series_by_default() -> None:
    lines = (GOLDEN / "healthy.prom").read_text().splitlines()
    count = sum(not line.startswith("#") for line in lines)
    print(f"{count} series")  # noqa: T201 - shown by pytest -s
    assert 900 < count <= 1300


def test_every_golden_file_has_its_scenario() -> None:
    assert {path.stem for path in GOLDEN.glob("*.prom")} == set(SCENARIOS)


@pytest.mark.parametrize("scenario", ["healthy", "einval", "efa", "bare"])
def test_both_formats_say_the_same(scenario: str, replays: Replays) -> None:
    def series(families: object) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        assert hasattr(families, "__iter__")
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in families
            for sample in family.samples
        }

    text = series(parse_text(replays[scenario].text))
    openmetrics = series(parse_openmetrics(replays[scenario].openmetrics))  # type: ignore[no-untyped-call]  # untyped there
    assert text == openmetrics
    assert text


def test_the_same_scenario_gives_the_same_text_every_time(replays: Replays) -> None:
    assert replay("flapping") == replays["flapping"]


def test_catalogue_is_what_the_docs_hold() -> None:
    assert (HERE.parent / "docs/metrics.md").read_text() == markdown()


def test_findings_are_what_the_docs_hold() -> None:
    assert (HERE.parent / "docs/findings.md").read_text() == reasons()


def test_configuration_reference_is_what_the_docs_hold() -> None:
    assert (HERE.parent / "docs/configuration.md").read_text() == reference.markdown()


def test_every_metric_of_a_golden_file_is_in_the_catalogue() -> None:
    known = {metric.name for _, module in MODULES for metric in declared(module)}
    seen = {
        line.split()[2]
        for path in GOLDEN.glob("*.prom")
        for line in path.read_text().splitlines()
        if line.startswith("# TYPE")
    }
    assert seen <= known
