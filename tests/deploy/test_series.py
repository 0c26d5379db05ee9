"""The PodMonitor's relabelings, by a real Prometheus: what series of a cluster are called."""

import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.chart import MATRIX, of, render
from tests.e2e.daemon import eventually, serving
from tests.e2e.test_prometheus import needs_prometheus, prometheus, query

pytestmark = [
    pytest.mark.e2e,
    needs_prometheus,
    pytest.mark.skipif(shutil.which("helm") is None, reason="no helm on the PATH: the chart was not rendered"),
]
POD = {"pod": "eastwest-x7k2p", "container": "eastwest", "endpoint": "metrics", "namespace": "eastwest"}
"""What the operator puts on a target before the monitor's own relabelings."""


def snake(value: Any) -> Any:
    """As the operator writes Prometheus' configuration: sourceLabels becomes source_labels."""
    if isinstance(value, list):
        return [snake(item) for item in value]
    if isinstance(value, dict):
        return {re.sub(r"[A-Z]", lambda found: f"_{found[0].lower()}", key): snake(one) for key, one in value.items()}
    return value


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """A Prometheus with the rendered relabelings, and a simulated daemon as the pod on node gpu-1."""
    (endpoint,) = of("PodMonitor", render(MATRIX["operator"], tmp_path))["spec"]["podMetricsEndpoints"]
    with serving("--simulate", "slow-port") as daemon:
        target = daemon.url.removeprefix("http://")
        labels = {**POD, "__meta_kubernetes_pod_node_name": "gpu-1"}
        job: Mapping[str, Any] = {
            "static_configs": [{"targets": [target], "labels": labels}],
            "relabel_configs": snake(endpoint["relabelings"][:3]),
            "metric_relabel_configs": snake(endpoint["metricRelabelings"]),
        }
        with prometheus(tmp_path, target, job) as found:
            yield found


def test_series_are_the_nodes(url: str) -> None:
    """Also what the daemon calls itself, which in a pod may be the pod's name; and nothing of the pod is left."""
    ((node, _),) = eventually(lambda: query(url, "eastwest_node_info"), seconds=30)
    where = {"job": "eastwest", "instance": "gpu-1", "namespace": "eastwest", "node": "gpu-1"}
    assert node == {"__name__": "eastwest_node_info"} | where | ({"rack": node["rack"]} if "rack" in node else {})
    ((up, _),) = query(url, "up")
    assert up == {"__name__": "up"} | where
