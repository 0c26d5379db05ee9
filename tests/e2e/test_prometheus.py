"""The daemon scraped by a real Prometheus, and its text judged by promtool."""

import json
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from exporter.hardware.scenarios import SCENARIOS
from tests.e2e.daemon import eventually, serving, write

KNOWN = {
    "eastwest_port_counter_saturated metric name should not include type 'counter'",
    'eastwest_port_phy_bits_total use base unit "bytes" instead of "bits"',
    'eastwest_port_phy_corrected_bits_total use base unit "bytes" instead of "bits"',
}
"""promtool takes any `counter` in a name for the type, and any bits for an amount of data (docs/adr/0007)."""
GOLDEN = Path(__file__).parents[1] / "golden"
pytestmark = pytest.mark.e2e
needs_prometheus = pytest.mark.skipif(shutil.which("prometheus") is None, reason="prometheus is not installed")
needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")


@contextmanager
def prometheus(folder: Path, target: str, job: Mapping[str, Any] | None = None) -> Iterator[str]:
    """A Prometheus that scrapes `target` every second; `job` is what else the scrape job has."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        listen = f"127.0.0.1:{free.getsockname()[1]}"
    config = write(
        folder / "prometheus.yml",
        "global: {scrape_interval: 1s}\nscrape_configs:\n"
        f"  - {json.dumps({'job_name': 'eastwest', 'static_configs': [{'targets': [target]}]} | dict(job or {}))}\n",
    )
    process = subprocess.Popen(
        [
            "prometheus",
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address={listen}",
            "--log.level=error",
        ]
    )
    try:
        yield f"http://{listen}"
    finally:
        process.terminate()
        process.wait(timeout=20)


def query(url: str, expression: str) -> list[tuple[dict[str, str], float]]:
    try:
        answer = httpx.get(f"{url}/api/v1/query", params={"query": expression}, timeout=5)
    except httpx.TransportError:
        return []
    if answer.status_code != httpx.codes.OK:
        return []
    return [(row["metric"], float(row["value"][1])) for row in answer.json()["data"]["result"]]


@needs_prometheus
def test_prometheus_finds_the_slow_port_and_the_traffic(tmp_path: Path) -> None:
    with serving("--simulate", "slow-port") as daemon, prometheus(tmp_path, daemon.url.removeprefix("http://")) as url:
        slow = eventually(
            lambda: query(url, "eastwest_port_rate_bytes_per_second < eastwest_port_expected_rate_bytes_per_second"),
            seconds=30,
        )
        assert [(labels["device"], labels["rail"], value) for labels, value in slow] == [("mlx5_5", "3", 12.5e9)]
        moving = eventually(
            lambda: query(url, "rate(eastwest_port_receive_bytes_total{role='compute'}[20s]) > 1e9"), seconds=40
        )
        assert len(moving) == 8
        assert query(url, "up") == [({"__name__": "up", "instance": url and daemon.url[7:], "job": "eastwest"}, 1.0)]


@needs_promtool
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_promtool_has_nothing_to_say_of_the_metrics(scenario: str) -> None:
    done = subprocess.run(
        ["promtool", "check", "metrics"],
        input=(GOLDEN / f"{scenario}.prom").read_text(),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    said = [line for line in (done.stdout + done.stderr).splitlines() if line not in KNOWN]
    assert said == []
