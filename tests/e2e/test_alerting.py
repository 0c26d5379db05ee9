"""The shipped rules and configuration in a real Prometheus and Alertmanager: how often is somebody woken?"""

import shutil
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from exporter.hardware.scenario_nics import COMPUTE
from tests.e2e.alerting import ALERTMANAGER, QUICK, Message, alertmanager, messages, prometheus
from tests.e2e.daemon import eventually, serving
from tests.e2e.fake_fleet import NODES, Fault, four_nodes

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(shutil.which("prometheus") is None, reason="prometheus is not installed"),
    pytest.mark.skipif(ALERTMANAGER is None, reason="prometheus-alertmanager is not installed"),
]
SLOWER = {**QUICK, "2m": "12s"}
"""Daemons on a busy machine notice within seconds of each other, not within one."""
QUIET = 6.0
"""Seconds in which nothing further may come: longer than the `for` of a page, and several rounds of Alertmanager."""


def names(got: Sequence[Message]) -> list[tuple[str, str, str]]:
    """Receiver, alert and what it is about, of each message that says something is wrong."""
    return [
        (
            message["path"],
            labels["alertname"],
            labels.get("subject") or labels.get("leaf") or labels.get("driver") or "",
        )
        for message in got
        if message["status"] == "firing"
        for labels in [message["commonLabels"]]
    ]


def firing(url: str) -> list[dict[str, str]]:
    alerts = httpx.get(f"{url}/api/v1/alerts", timeout=5).json()["data"]["alerts"]
    return [alert["labels"] for alert in alerts if alert["state"] == "firing"]


def scraped(url: str) -> bool:
    """Whether all nodes have been judged by the rules once."""
    found = httpx.get(f"{url}/api/v1/query", params={"query": "sum(status:eastwest_nodes:count)"}, timeout=5).json()
    result = found["data"]["result"]
    return bool(result) and float(result[0]["value"][1]) == len(NODES)


def stays(what: Callable[[], object], seconds: float) -> None:
    """`what` gives the same all the time."""
    at_first, end = what(), time.monotonic() + seconds
    while time.monotonic() < end:
        assert what() == at_first
        time.sleep(0.2)


@pytest.mark.parametrize(
    ("faults", "expected", "nodes"),
    [
        pytest.param(
            {"gpu-2": Fault.NIC_GONE}, ("/pager", "EastwestPortMissing", "mlx5_6/1"), {"gpu-2"}, id="one dead NIC"
        ),
        pytest.param(
            dict.fromkeys(NODES, Fault.PORT_DOWN), ("/pager", "EastwestManyNodes", "leaf-4"), {None}, id="a whole leaf"
        ),
        pytest.param(
            dict.fromkeys(NODES, Fault.ALL_PORTS_DOWN),
            ("/pager", "EastwestManyNodes", "mlx5_core"),
            {None},
            id="every leaf",
        ),
    ],
)
def test_one_cause_is_one_message(
    tmp_path: Path, faults: dict[str, Fault], expected: tuple[str, str, str], nodes: set[str | None]
) -> None:
    with (
        messages() as (receiver, got),
        four_nodes() as fleet,
        alertmanager(tmp_path, receiver) as notifier,
        prometheus(tmp_path, list(fleet.addresses.values()), notifier) as url,
    ):
        eventually(lambda: scraped(url), seconds=20)
        stays(lambda: names(got), seconds=2)
        assert got == []
        fleet.faults.update(faults)
        eventually(lambda: names(got), seconds=25)
        stays(lambda: names(got), seconds=QUIET)
        assert names(got) == [expected]
        assert {labels.get("node") for labels in firing(url)} == nodes
        fleet.faults.update(dict.fromkeys(NODES, Fault.NONE))
        resolved = eventually(lambda: [message for message in got if message["status"] == "resolved"], seconds=15)
        assert len(resolved) == 1
        assert names(got) == [expected]


def test_node_is_the_host_name_of_the_target(tmp_path: Path) -> None:
    hosts = ["gpu-1.example.invalid:10428", "gpu-2:10428", "10.0.0.7:10428", "7gpus.example.invalid:10428"]
    with prometheus(tmp_path, hosts, "127.0.0.1:9") as url:

        def labels() -> dict[str, str]:
            active = httpx.get(f"{url}/api/v1/targets", timeout=5).json()["data"]["activeTargets"]
            of_daemons = [target["labels"] for target in active if target["labels"]["job"] == "eastwest"]
            return {target["instance"]: target.get("node", "") for target in of_daemons}

        eventually(lambda: len(labels()) == len(hosts), seconds=20)
        assert labels() == dict(zip(hosts, ["gpu-1", "gpu-2", "10.0.0.7", "7gpus"], strict=True))


@pytest.mark.parametrize(
    ("scenarios", "expected"),
    [
        pytest.param(
            ("port-down", "healthy", "healthy", "healthy"),
            ("/pager", "EastwestPortDown", "mlx5_6/1"),
            id="one dead NIC",
        ),
        pytest.param(("port-down",) * 4, ("/pager", "EastwestManyNodes", "leaf-4"), id="a whole leaf"),
    ],
)
def test_four_simulated_daemons_wake_somebody_once(
    tmp_path: Path, scenarios: Sequence[str], expected: tuple[str, str, str]
) -> None:
    """Real daemons, each on a simulated node whose port loses its link half a minute after the start."""
    leaves = "".join(
        f"  - {{match: {device}, role: compute, leaf: leaf-{rail}}}\n" for rail, device in enumerate(COMPUTE)
    )
    with ExitStack() as stack:
        receiver, got = stack.enter_context(messages())
        starting = []
        for number, scenario in enumerate(scenarios, 1):
            config = tmp_path / f"gpu-{number}.yml"
            config.write_text(f"node: {{name: gpu-{number}}}\nnics:\n{leaves}")
            starting.append(serving("--simulate", scenario, "--config", str(config)))
        # all at once: the ports of a leaf go down within a second, here as well
        with ThreadPoolExecutor(len(starting)) as pool:
            daemons = list(pool.map(lambda one: one.__enter__(), starting))
        for one in starting:
            stack.push(one)
        notifier = stack.enter_context(alertmanager(tmp_path, receiver))
        stack.enter_context(
            prometheus(tmp_path, [one.url.removeprefix("http://") for one in daemons], notifier, SLOWER)
        )
        eventually(lambda: names(got), seconds=120)
        stays(lambda: names(got), seconds=14)
        assert names(got) == [expected]
