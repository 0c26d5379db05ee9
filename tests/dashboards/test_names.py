"""A metric or a label that the code does not declare can't be on a dashboard."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dashboards.faults import FAULTS, markdown
from tests.dashboards.promql import catalogue, named, strangers
from tests.dashboards.viewer import Json, dashboards, expressions, panels

ALL = dashboards()
_LEGEND = re.compile(r"\{\{(\w+)\}\}")
_FIELD = re.compile(r"\$\{__(?:data\.fields|field\.labels)\.(\w+)\}")


def _used(panel: Json) -> frozenset[str]:
    """Labels that legends and links of a panel use."""
    legends = " ".join(target["legendFormat"] for target in panel["targets"])
    return frozenset(_LEGEND.findall(legends) + _FIELD.findall(repr(panel["fieldConfig"])))


def _columns(panel: Json) -> Iterator[str]:
    """Labels that a table or a matrix is made of."""
    for step in panel.get("transformations", []):
        options = step["options"]
        if step["id"] == "organize":
            yield from (name for name in options["indexByName"] if not name.startswith("Value"))
        if step["id"] == "groupingToMatrix":
            yield from (options["rowField"], options["columnField"])


@pytest.mark.parametrize("uid", ALL)
def test_every_metric_and_label_is_declared(uid: str) -> None:
    known = catalogue()
    unknown = {where: found for where, expr in expressions(ALL[uid]) if (found := list(strangers(expr, known)))}
    assert unknown == {}


@pytest.mark.parametrize("uid", ALL)
def test_legends_links_and_columns_use_labels_that_the_queries_have(uid: str) -> None:
    known = catalogue()
    for panel in panels(ALL[uid]):
        together = " or ".join(target["expr"] for target in panel["targets"])
        used = _used(panel) | frozenset(_columns(panel))
        assert list(strangers(together, known, used)) == [], panel["title"]


def test_a_renamed_metric_is_noticed() -> None:
    known = {name: labels for name, labels in catalogue().items() if name != "eastwest_nvlink_up"}
    found = [
        name for dashboard in ALL.values() for _, expr in expressions(dashboard) for name in strangers(expr, known)
    ]
    assert "eastwest_nvlink_up" in found


def test_a_renamed_label_is_noticed() -> None:
    known = {name: labels - {"rail"} for name, labels in catalogue().items()}
    found = {
        name for dashboard in ALL.values() for _, expr in expressions(dashboard) for name in strangers(expr, known)
    }
    assert "rail" in found
    assert "eastwest_port_up{rail}" in found


def test_names_are_found_in_an_expression() -> None:
    found = named('sum by (a, b) (rate(eastwest_x_total{job=~"$job", c="{d=1}"}[5m])) / on (e) group_left () up')
    assert found.selectors == (("eastwest_x_total", frozenset({"job", "c"})), ("up", frozenset()))
    assert found.grouping == frozenset({"a", "b", "e"})


def test_the_table_of_faults_is_what_the_docs_hold() -> None:
    assert markdown() in (Path(__file__).parents[2] / "docs/dashboards.md").read_text()


def test_every_fault_names_a_panel_that_is_there() -> None:
    titles = {(uid, panel["title"]) for uid, dashboard in ALL.items() for panel in panels(dashboard)}
    assert {(fault.dashboard, fault.panel) for fault in FAULTS} <= titles
