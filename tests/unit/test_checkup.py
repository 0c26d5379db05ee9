"""`eastwest check` and `eastwest ack`: exit statuses, formats, and what is known already."""

import json
import logging
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from exporter import checkup
from exporter.acks import FILE, Acks, acknowledge
from exporter.cli import main
from exporter.clock import Clock
from exporter.config import load
from exporter.model import UserError
from exporter.state import State
from tests.trees import ACTIVE, plant

PORT = {
    **ACTIVE,
    "ports/1/rate": "400 Gb/sec (4X NDR)",
    "ports/1/link_layer": "InfiniBand",
    "ports/1/counters/link_downed": "0",
}


@pytest.fixture(autouse=True)
def _logging() -> Iterator[None]:
    """A command sets up the logging of its process: have it as it was for the next test."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(capture=False)


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A configuration of a node with four ports, of which one trained a single lane."""
    devices = {f"mlx5_{n}": dict(PORT) for n in range(4)}
    devices["mlx5_2"]["ports/1/rate"] = "100 Gb/sec (1X NDR)"
    plant(tmp_path, devices)
    (tmp_path / "state").mkdir()
    config = tmp_path / "config.yml"
    config.write_text(f"paths: {{sysfs: {tmp_path}, state: {tmp_path}/state}}\n")
    return config


@pytest.mark.parametrize(
    ("flags", "status"),
    [
        ((), 2),
        (("--fail-on", "degraded"), 0),
        (("--fail-on", "degraded,unknown"), 0),
        (("--fail-on", "critical, degraded"), 2),
        (("--fail-on", ""), 0),
        (("--fail-on", "ok"), 64),
        (("--fail-on", "bad"), 64),
        (("--format", "xml"), 64),
        (("--watch", "x"), 64),
        (("--watch", "0"), 64),
        (("--nonsense",), 64),
        (("extra",), 64),
    ],
)
def test_the_exit_status_is_the_verdict_where_it_was_asked_for(
    node: Path, flags: tuple[str, ...], status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        got = main(["check", "--config", str(node), *flags])
    except SystemExit as end:
        got = int(str(end.code))
    assert got == status
    said = capsys.readouterr()
    assert status == 64 or "mlx5_2/1 (rail 2) runs at 100 Gbit/s" in said.out
    assert status != 64 or (said.err and not said.out)


@pytest.mark.parametrize("content", ["check: {}", "paths: [", "checks: {infiniband: {interval: 5}}"])
def test_a_wrong_configuration_is_64_and_no_node_state(
    tmp_path: Path, content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.yml"
    path.write_text(content)
    assert main(["check", "--config", str(path)]) == 64
    assert main(["check", "--config", str(tmp_path / "none.yml")]) == 64
    assert main(["check", "--simulate", "nonsense"]) == 64
    assert "Traceback" not in capsys.readouterr().err


def test_json_is_what_the_daemon_says(node: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--config", str(node), "--format", "json", "--fail-on", "unknown"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["status"] == "critical"
    (one,) = said["findings"]
    assert {"check", "subject", "severity", "reason", "message", "since", "evidence"} <= one.keys()
    assert (one["subject"], one["reason"], one["evidence"]["rate"]) == ("mlx5_2/1", "width_reduced", 12.5e9)


def test_what_is_acknowledged_does_not_fail_a_node_until_it_expires(
    node: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["ack", "mlx5_2", "--reason", "cable ordered", "--for", "2d", "--config", str(node)]) == 0
    assert main(["check", "--config", str(node)]) == 0
    said = capsys.readouterr().out
    assert "OK. No finding to look at." in said
    assert "cable ordered" in said
    later = time.time() + 3 * 86_400
    monkeypatch.setattr("exporter.polled.Clock", lambda: _clock(later))
    assert main(["check", "--config", str(node)]) == 2
    monkeypatch.undo()
    assert main(["ack", "mlx5_2", "--for", "0s", "--config", str(node)]) == 0
    assert main(["check", "--config", str(node)]) == 2


def _clock(wall: float) -> Clock:
    return Clock(wall=lambda: wall)


@pytest.mark.parametrize(
    ("subject", "reason"),
    [("", ""), ("a\nb", ""), ("x" * 501, ""), ("gpu0", "a\x00b"), ("gpu0", "r" * 501), ("mlx5_*", "")],
)
def test_a_subject_or_a_reason_that_is_none_is_refused(tmp_path: Path, subject: str, reason: str) -> None:
    with pytest.raises(UserError):
        acknowledge(tmp_path, subject, reason, 60)


def test_an_acknowledgement_that_no_finding_asks_for_is_said_to_be_one(
    node: Path, daemon: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["check", "--config", str(node), "--format", "json"])
    daemon["body"] = capsys.readouterr().out.encode()
    monkeypatch.setattr(checkup, "DAEMON", daemon["url"].decode())
    config = load(node)
    monkeypatch.setattr("exporter.config.load", lambda _path: config)
    for asked, told in (("mlx5_2/1", False), ("mlx5_2", False), ("mlx5_", True), ("nosuch/9", True)):
        assert main(["ack", asked]) == 0
        said = capsys.readouterr().out
        assert said.startswith(f"{asked} is acknowledged until")
        assert ("no finding" in said) is told


def test_a_node_that_should_have_ports_and_gpus_and_never_had_any_is_not_ok(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "c.yml"
    config.write_text(f"paths: {{state: {tmp_path}}}\nexpect: {{compute: {{ports: 8}}, gpus: 8}}\n")
    assert main(["check", "--simulate", "bare", "--config", str(config)]) == 2
    said = capsys.readouterr().out
    assert "0 compute ports are up of the 8 that are expected" in said
    assert "0 GPUs answer of the 8 that are expected" in said
    config.write_text(f"paths: {{state: {tmp_path}}}\n")
    assert main(["check", "--simulate", "bare", "--config", str(config)]) == 0
    assert "\nNo port and no GPU was seen here." in capsys.readouterr().out


def test_an_unusable_folder_or_length_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "c.yml"
    config.write_text(f"paths: {{state: {tmp_path}/nowhere}}\n")
    assert main(["ack", "gpu0", "--config", str(config)]) == 2
    assert main(["ack", "gpu0", "--for", "7", "--config", str(config)]) == 2
    assert main(["ack", "gpu0", "--for", "900d", "--config", str(config)]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 3


@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"acks": [{}]}', '{"acks": [{"subject": 1}]}', "[" * 50_000, "\xff"]
)
def test_a_file_of_acknowledgements_that_makes_no_sense_is_said_once(
    tmp_path: Path, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FILE).write_text(content)
    acks = Acks(tmp_path)
    assert acks.current() == acks.current() == ()
    assert len(caplog.records) == 1
    (tmp_path / FILE).unlink()
    acknowledge(tmp_path, "gpu0", "", 60)
    assert [one.subject for one in acks.current()] == ["gpu0"]


def test_a_one_shot_beside_the_daemon_reads_the_state_and_leaves_it(node: Path, tmp_path: Path) -> None:
    owner = State(tmp_path / "state", create=True)
    before = sorted(path.name for path in (tmp_path / "state").iterdir())
    assert main(["check", "--config", str(node)]) == 2
    assert sorted(path.name for path in (tmp_path / "state").iterdir()) == before
    owner.close()


@pytest.fixture
def daemon() -> Iterator[dict[str, bytes]]:
    """Something that answers at an address, with `body`."""
    said = {"body": b"{}"}

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(said["body"])

        def log_message(self, *_args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    said["url"] = f"http://127.0.0.1:{server.server_port}/api/v1/health".encode()
    yield said
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_running_daemon_is_asked_and_something_else_is_not_believed(
    daemon: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(checkup, "DAEMON", daemon["url"].decode())
    health = {"node": "gpu-7", "status": "unknown", "findings": [], "checks": {}, "time": 0}
    daemon["body"] = json.dumps(health).encode()
    assert main(["check", "--fail-on", "unknown"]) == 3
    assert capsys.readouterr().out.startswith("gpu-7: UNKNOWN. Not every check")
    for other in (b"", b"[]", b"<html>", b'{"status": "fine"}', b'{"status": "ok"}'):
        daemon["body"] = other
        assert checkup._asked() is None  # noqa: SLF001 - what decides between the daemon and an own look
