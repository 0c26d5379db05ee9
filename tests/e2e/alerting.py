"""A real Prometheus and a real Alertmanager with the shipped configuration, made quick; and who gets the messages."""

import json
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.e2e.daemon import eventually, write
from tests.e2e.fake_fleet import Quiet, answering

DEPLOY = Path(__file__).parents[2] / "deploy/prometheus"
ALERTMANAGER = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
QUICK = {"1m": "3s", "2m": "4s", "5m": "6s", "10m": "8s", "15m": "9s", "30m": "10s"}
"""What each `for` of the rules becomes: the order stays."""
Message = Mapping[str, Any]


def quick_rules(quick: Mapping[str, str]) -> str:
    """The shipped rules, evaluated every second."""
    rules = yaml.safe_load((DEPLOY / "eastwest.rules.yml").read_text())
    for group in rules["groups"]:
        group["interval"] = "1s"
        for rule in group["rules"]:
            if "for" in rule:
                rule["for"] = quick[rule["for"]]
            if "keep_firing_for" in rule:
                rule["keep_firing_for"] = "2s"
    return yaml.safe_dump(rules)


def quick_prometheus(targets: list[str], alertmanager: str, folder: Path) -> str:
    """The shipped scrape example, on these targets."""
    config = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"] = [alertmanager]
    write(folder / "targets.yml", yaml.safe_dump([{"targets": targets}]))
    config["scrape_configs"][0]["file_sd_configs"] = [{"files": [str(folder / "targets.yml")]}]
    return yaml.safe_dump(config)


def quick_alertmanager(receiver: str) -> str:
    """The shipped Alertmanager example, that sends to `receiver` and waits for seconds."""
    config = yaml.safe_load((DEPLOY / "alertmanager.yml").read_text())
    config["route"] |= {"group_wait": "1s", "group_interval": "1s"}
    for each in config["receivers"]:
        for hook in each.get("webhook_configs", []):
            hook["url"] = f"http://{receiver}/{each['name']}"
    return yaml.safe_dump(config)


@contextmanager
def messages() -> Iterator[tuple[str, list[Message]]]:
    """A webhook receiver's address, and the messages that it has got."""
    got: list[Message] = []

    class Hook(Quiet):
        """Takes Alertmanager's messages."""

        def do_POST(self) -> None:  # noqa: N802 - the name that http.server calls
            """Keep the message."""
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            got.append({**body, "path": self.path})
            self.answer("ok")

    with answering(Hook) as address:
        yield address, got


def free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"127.0.0.1:{free.getsockname()[1]}"


@contextmanager
def alertmanager(folder: Path, receiver: str) -> Iterator[str]:
    """A real Alertmanager; its address."""
    assert ALERTMANAGER is not None
    config, listen = write(folder / "alertmanager.yml", quick_alertmanager(receiver)), free_address()
    command = [
        ALERTMANAGER,
        f"--config.file={config}",
        f"--storage.path={folder / 'alertmanager'}",
        f"--web.listen-address={listen}",
        "--cluster.listen-address=",
        "--log.level=error",
    ]
    with _running(command, f"http://{listen}/-/ready"):
        yield listen


@contextmanager
def prometheus(folder: Path, targets: list[str], alertmanager: str, quick: Mapping[str, str] = QUICK) -> Iterator[str]:
    """A real Prometheus with the shipped rules; its URL."""
    write(folder / "eastwest.rules.yml", quick_rules(quick))
    config, listen = write(folder / "prometheus.yml", quick_prometheus(targets, alertmanager, folder)), free_address()
    command = [
        "prometheus",
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={listen}",
        "--log.level=error",
    ]
    with _running(command, f"http://{listen}/-/ready"):
        yield f"http://{listen}"


@contextmanager
def _running(command: list[str], ready: str) -> Iterator[None]:
    process = subprocess.Popen(command)
    try:
        eventually(lambda: _answers(ready), seconds=30)
        yield
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=2).status_code == httpx.codes.OK
    except httpx.TransportError:
        return False
