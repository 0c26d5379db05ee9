"""A real Prometheus over a past that promtool wrote."""

import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.e2e.daemon import eventually


@dataclass(frozen=True, slots=True)
class Answer:
    """What Prometheus said to one query, and how long it took."""

    error: str
    series: tuple[Mapping[str, Any], ...]
    seconds: float

    @property
    def labels(self) -> list[dict[str, str]]:
        """The labels of every series."""
        return [dict(row["metric"]) for row in self.series]

    def values(self) -> list[float]:
        """The (last) value of every series."""
        return [float((row.get("value") or row["values"][-1])[1]) for row in self.series]

    def value(self, **labels: str) -> float | None:
        """The (last) value of the one series with these labels, None if there is none."""
        found = [
            float((row.get("value") or row["values"][-1])[1])
            for row in self.series
            if labels.items() <= row["metric"].items()
        ]
        assert len(found) <= 1, f"{labels}: {len(found)} series"
        return found[0] if found else None


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A server that is up."""

    url: str

    def ask(self, what: str, **parameters: str) -> Answer:
        """`query`, `query_range`."""
        began = time.perf_counter()
        answer = httpx.post(f"{self.url}/api/v1/{what}", data=parameters, timeout=60)
        took = time.perf_counter() - began
        said = answer.json()
        if said["status"] != "success":
            return Answer(said["error"], (), took)
        return Answer("", tuple(said["data"]["result"]), took)

    def label_values(self, label: str, match: str, start: float, end: float) -> list[str]:
        """The values of a label, in the series that match within the time range; as Grafana asks."""
        parameters: dict[str, str] = {"start": str(start), "end": str(end)} | ({"match[]": match} if match else {})
        answer = httpx.get(f"{self.url}/api/v1/label/{label}/values", params=parameters, timeout=60)
        values: list[str] = answer.json()["data"]
        return values


@contextmanager
def prometheus_over(past: Path, folder: Path) -> Iterator[Prometheus]:
    """A Prometheus that holds what the OpenMetrics file says, and scrapes nothing."""
    data = folder / "data"
    subprocess.run(
        [
            "promtool",
            "tsdb",
            "create-blocks-from",
            "--max-block-duration=24h",
            "openmetrics",
            "--quiet",
            str(past),
            str(data),
        ],
        check=True,
        capture_output=True,
        timeout=600,
    )
    config = folder / "prometheus.yml"
    config.write_text("scrape_configs: []\n")
    with socket.create_server(("127.0.0.1", 0)) as free:
        listen = f"127.0.0.1:{free.getsockname()[1]}"
    process = subprocess.Popen(
        [
            "prometheus",
            f"--config.file={config}",
            f"--storage.tsdb.path={data}",
            f"--web.listen-address={listen}",
            "--web.cors.origin=.*",
            "--log.level=error",
        ]
    )
    server = Prometheus(f"http://{listen}")
    try:
        eventually(lambda: _ready(server), seconds=60)
        yield server
    finally:
        process.terminate()
        process.wait(timeout=30)


def _ready(server: Prometheus) -> bool:
    try:
        return httpx.get(f"{server.url}/-/ready", timeout=2).status_code == httpx.codes.OK
    except httpx.TransportError:
        return False
