"""Every query of every panel and variable on a real Prometheus, over a simulated fleet."""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest

from tests.dashboards.faults import FAULTS, Fault
from tests.dashboards.fleet import MEMBERS, SECONDS, recent, shown
from tests.dashboards.server import Answer, Prometheus
from tests.dashboards.viewer import Json, Viewer, dashboards, panels

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(
        shutil.which("prometheus") is None or shutil.which("promtool") is None, reason="prometheus is not installed"
    ),
]
ALL = dashboards()
SECONDS_A_QUERY = 15.0
"""Only what is out of all proportion: this machine may be busy. bench/dashboards.py measures, on a large fleet."""
LINES = 60
ROWS = 40
OF_ONE_NODE = {"eastwest-nvlink", "eastwest-node"}
LOOK_AT = ("healthy", "nvlink-errors", "b200", "hang", "einval")
"""Nodes that are looked at in turn on the dashboards of one node; each panel must show something for one of them."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """The server, and the time range to look at."""

    server: Prometheus
    start: float
    end: float

    def viewer(self, node: str = "") -> Viewer:
        """Somebody who has chosen this node (none: what the dashboard begins with)."""
        return Viewer(self.server, self.start, self.end, {"node": node} if node else {})


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    span = recent(SECONDS)
    with shown(tmp_path_factory.mktemp("fleet"), MEMBERS, span) as server:
        yield Fleet(server, span.start, span.end)


def seen(fleet: Fleet, uid: str, node: str) -> Mapping[str, list[Answer]]:
    """What each panel's queries give, by the panel's title."""
    viewer = fleet.viewer(node)
    values, _ = viewer.variables(ALL[uid])
    return {panel["title"]: viewer.see(panel, values) for panel in panels(ALL[uid])}


@pytest.mark.parametrize("uid", ALL)
def test_every_panel_shows_something_and_no_query_is_wrong_or_slow(fleet: Fleet, uid: str) -> None:
    looked = [seen(fleet, uid, node) for node in (LOOK_AT if uid in OF_ONE_NODE else ("",))]
    for panel in panels(ALL[uid]):
        for number, _ in enumerate(panel["targets"]):
            answers = [look[panel["title"]][number] for look in looked]
            assert [answer.error for answer in answers if answer.error] == [], panel["title"]
            assert any(answer.series for answer in answers), f"{panel['title']} {number}: empty"
            slowest = max(answer.seconds for answer in answers)
            assert slowest < SECONDS_A_QUERY, f"{panel['title']} {number}: {slowest:.2f} s"
            for answer in answers:
                _shape(panel, answer)


def _shape(panel: Json, answer: Answer) -> None:
    """The answer is of the kind that this panel draws."""
    steps = {step["id"]: step["options"] for step in panel.get("transformations", [])}
    match panel["type"]:
        case "stat":
            assert len(answer.series) <= 1, panel["title"]
        case "heatmap" | "state-timeline":
            assert len(answer.series) <= ROWS, panel["title"]
        case "timeseries":
            assert len(answer.series) <= LINES, panel["title"]
        case "table" if "groupingToMatrix" in steps:
            pivot = steps["groupingToMatrix"]
            pairs = [(row.get(pivot["rowField"]), row.get(pivot["columnField"])) for row in answer.labels]
            assert all(row and column for row, column in pairs), panel["title"]
            assert len(set(pairs)) == len(pairs), panel["title"]
        case "table":
            columns = set(steps["organize"]["indexByName"])
            assert all(set(row) <= columns for row in answer.labels), panel["title"]
        case other:
            raise AssertionError(f"{panel['title']}: no shape is known for {other}")


@pytest.mark.parametrize("uid", ALL)
def test_every_variable_finds_values(fleet: Fleet, uid: str) -> None:
    values, found = fleet.viewer().variables(ALL[uid])
    assert all(number for number, _ in found.values()), found
    assert found["node"][0] == len(MEMBERS)
    assert all(seconds < SECONDS_A_QUERY for _, seconds in found.values())
    assert all(values[name] for name in found)


@pytest.mark.parametrize("uid", ["eastwest-fleet", "eastwest-ports"])
def test_the_worst_nodes_are_those_with_something_wrong(fleet: Fleet, uid: str) -> None:
    viewer = Viewer(fleet.server, fleet.start, fleet.end, {"topn": "10"})
    dashboard = ALL[uid] | {"templating": {"list": [_ten(one) for one in ALL[uid]["templating"]["list"]]}}
    values, _ = viewer.variables(dashboard)
    worst = set(values["worst"].strip("()").split("|"))
    assert len(worst) == 10
    assert worst.isdisjoint({"healthy", "roce", "efa", "bare", "v100", "b200"})
    assert {"slow-port", "flapping", "gpu-lost", "nvlink-down", "pcie-downgrade"} <= worst


def _ten(variable: Json) -> Json:
    return variable | {"current": {"value": "10"}} if variable["name"] == "topn" else variable


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.node}-{fault.dashboard}-{fault.panel}")
def test_the_fault_is_seen_on_its_panel(fleet: Fleet, fault: Fault) -> None:
    dashboard = ALL[fault.dashboard]
    viewer = fleet.viewer(fault.node if fault.dashboard in OF_ONE_NODE else "")
    values, _ = viewer.variables(dashboard)
    (panel,) = (panel for panel in panels(dashboard) if panel["title"] == fault.panel)
    answer = viewer.ask(panel["targets"][fault.query], values, panel.get("maxDataPoints", 1000))
    assert answer.error == ""
    assert fault.visible(answer), answer.series


@pytest.mark.parametrize(
    "fault",
    [fault for fault in FAULTS if fault.dashboard in OF_ONE_NODE and not fault.whole_fleet],
    ids=lambda f: f.panel,
)
def test_a_healthy_node_does_not_look_like_it(fleet: Fleet, fault: Fault) -> None:
    dashboard = ALL[fault.dashboard]
    viewer = fleet.viewer("healthy")
    values, _ = viewer.variables(dashboard)
    (panel,) = (panel for panel in panels(dashboard) if panel["title"] == fault.panel)
    answer = viewer.ask(panel["targets"][fault.query], values, panel.get("maxDataPoints", 1000))
    assert not fault.visible(answer)


def test_what_is_missing_is_missing_and_zero_is_zero(fleet: Fleet) -> None:
    ports = seen(fleet, "eastwest-node", "einval")
    speed = ports["Ports"][1]
    assert speed.value(device="mlx5_6") is None
    assert len(speed.series) == 10
    links = seen(fleet, "eastwest-nvlink", "nvlink-down")[
        "Throughput: GPU × link (bytes/s, both directions, last 5 minutes)"
    ]
    assert links[0].value(gpu="GPU 2", link="07") == 0.0
    assert (
        seen(fleet, "eastwest-nvlink", "v100")["Throughput: GPU × link (bytes/s, both directions, last 5 minutes)"][
            0
        ].series
        == ()
    )
