"""The committed JSON: what the builder makes, what Grafana takes, and what people can read."""

import json
from itertools import combinations
from pathlib import Path

import pytest
import yaml

from grafana.build import FOLDER, built
from tests.dashboards.viewer import dashboards, panels

ALL = dashboards()
GRAFANA = Path(__file__).parents[2] / "grafana"
SCHEMA = 39
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
each = pytest.mark.parametrize("uid", ALL)


def test_the_committed_files_are_what_the_builder_makes() -> None:
    assert {path.name: path.read_text() for path in FOLDER.glob("*.json")} == built(), "run make dashboards"


def test_there_are_the_four_dashboards() -> None:
    assert set(ALL) == {"eastwest-fleet", "eastwest-ports", "eastwest-nvlink", "eastwest-node"}
    assert {dashboard["uid"] for dashboard in ALL.values()} == set(ALL)


@each
def test_it_can_be_imported_and_provisioned(uid: str) -> None:
    dashboard = ALL[uid]
    assert dashboard["id"] is None
    assert dashboard["schemaVersion"] == SCHEMA
    assert not {"__inputs", "__requires", "__elements"} & set(dashboard)
    assert "${DS_" not in json.dumps(dashboard)


@each
def test_everything_reads_the_chosen_data_source(uid: str) -> None:
    dashboard = ALL[uid]
    for panel in panels(dashboard):
        assert panel["datasource"] == DATASOURCE
        assert all(target["datasource"] == DATASOURCE for target in panel["targets"])
    asking = [*dashboard["annotations"]["list"], *(v for v in dashboard["templating"]["list"] if v["type"] == "query")]
    assert all(one["datasource"] == DATASOURCE for one in asking)


@each
def test_ids_are_unique_and_titles_too(uid: str) -> None:
    everything = ALL[uid]["panels"]
    assert len({panel["id"] for panel in everything}) == len(everything)
    titles = [panel["title"] for panel in panels(ALL[uid])]
    assert len(set(titles)) == len(titles)
    for panel in panels(ALL[uid]):
        refs = [target["refId"] for target in panel["targets"]]
        assert len(set(refs)) == len(refs)


@each
def test_no_panel_lies_on_another_or_outside(uid: str) -> None:
    places = [panel["gridPos"] for panel in ALL[uid]["panels"]]
    assert all(place["x"] >= 0 and place["x"] + place["w"] <= 24 for place in places)
    for one, other in combinations(places, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or above, (one, other)


@each
def test_heatmaps_show_zeros_and_name_their_palette(uid: str) -> None:
    for panel in panels(ALL[uid]):
        if panel["type"] == "heatmap":
            options = panel["options"]
            assert options["filterValues"]["le"] < 0
            assert options["calculate"] is False
            assert options["color"]["scheme"] == "Viridis"
            assert options["color"]["reverse"] is False
            assert options["color"]["scale"] == "linear"


@each
def test_matrices_are_sorted_both_ways_and_leave_gaps_uncoloured(uid: str) -> None:
    for panel in panels(ALL[uid]):
        steps = [step["id"] for step in panel.get("transformations", [])]
        if "groupingToMatrix" not in steps:
            continue
        assert steps == ["sortBy", "groupingToMatrix", "sortBy"]
        assert len(panel["targets"]) == 1
        assert panel["transformations"][1]["options"]["emptyValue"] == "null"
        assert any(mapping["type"] == "special" for mapping in panel["fieldConfig"]["defaults"]["mappings"])
        corner = panel["fieldConfig"]["overrides"][0]
        assert {"id": "unit", "value": "string"} in corner["properties"]


@each
def test_lines_have_gaps_where_there_is_no_data(uid: str) -> None:
    for panel in panels(ALL[uid]):
        if panel["type"] in {"timeseries", "state-timeline"}:
            assert panel["fieldConfig"]["defaults"]["custom"]["spanNulls"] is False


@each
def test_links_keep_time_source_and_jobs_and_lead_somewhere(uid: str) -> None:
    urls = list(_urls(ALL[uid]))
    assert urls
    for url in urls:
        path, _, query = url.partition("?")
        assert path.removeprefix("/d/") in ALL
        for part in ("${__url_time_range}", "${datasource:queryparam}", "${job:queryparam}"):
            assert part in query.split("&")
        given = [part.removeprefix("var-").partition("=")[0] for part in query.split("&") if part.startswith("var-")]
        known = {variable["name"] for variable in ALL[path.removeprefix("/d/")]["templating"]["list"]}
        assert set(given) <= known


@each
def test_the_list_of_dashboards_keeps_time_and_variables(uid: str) -> None:
    (links,) = ALL[uid]["links"]
    assert links["keepTime"] is links["includeVars"] is links["asDropdown"] is True
    assert set(links["tags"]) <= set(ALL[uid]["tags"])


@pytest.mark.parametrize("path", sorted(GRAFANA.glob("provisioning/*/*.yaml")), ids=lambda path: path.parent.name)
def test_provisioning_files_are_of_version_1(path: Path) -> None:
    content = yaml.safe_load(path.read_text())
    assert content["apiVersion"] == 1
    assert len(content.get("providers", content.get("datasources"))) == 1


def _urls(value: object) -> "list[str]":
    if isinstance(value, dict):
        own = [value["url"]] if str(value.get("url", "")).startswith("/d/") else []
        return own + [url for part in value.values() for url in _urls(part)]
    return [url for part in value for url in _urls(part)] if isinstance(value, list) else []
