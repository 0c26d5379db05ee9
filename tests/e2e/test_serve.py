"""The real daemon under the things that go wrong: hangs, half-open requests, signals, bad configurations."""

import contextlib
import gzip
import signal
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

import httpx
import pytest

from tests.e2e.daemon import Daemon, command, ended, eventually, serving, write

pytestmark = pytest.mark.e2e
HALF_OPEN = 200
RECORDED = Path(__file__).parents[3] / "shared/data/h100-node"


def ready(daemon: Daemon) -> bool:
    try:
        return daemon.get("/readyz").status_code == httpx.codes.OK
    except httpx.TransportError:
        return False


def quickest(daemon: Daemon) -> float:
    """Seconds of the quickest of five scrapes: a client on a busy machine is not what is measured."""
    took = []
    for _ in range(5):
        began = time.monotonic()
        with urllib.request.urlopen(f"{daemon.url}/metrics", timeout=5) as answer:  # noqa: S310 - of the daemon
            assert b"eastwest_build_info" in answer.read()
        took.append(time.monotonic() - began)
    return min(took)


def test_hang_costs_its_own_check_only() -> None:
    success, host = 'eastwest_check_success{check="%s"}', 'eastwest_check_last_run_timestamp_seconds{check="host"}'
    with serving("--simulate", "hang") as daemon:
        eventually(lambda: daemon.value(success % "infiniband") == 0)
        assert quickest(daemon) < 0.1
        assert daemon.value(success % "host") == 1
        first = daemon.value(host)
        assert first is not None
        eventually(lambda: (daemon.value(host) or 0) > first, seconds=20)
        assert daemon.get("/healthz").status_code == httpx.codes.OK
        assert ready(daemon)
        assert "hangs for" in daemon.get("/").text
        daemon.process.send_signal(signal.SIGTERM)
        assert ended(daemon.process, 10) < 5
        assert daemon.process.returncode == 0
        assert daemon.process.stderr is not None
        said = daemon.process.stderr.read()
        assert said.count("check=infiniband: no answer within its deadline of 5 s") == 1


def test_half_open_requests_are_dropped_and_hold_up_nobody() -> None:
    with serving("--simulate", "healthy") as daemon:
        eventually(lambda: ready(daemon))
        host, port = daemon.url.removeprefix("http://").split(":")
        slow = []
        for _ in range(HALF_OPEN):
            connection = socket.create_connection((host, int(port)), timeout=5)
            connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nX-Slow: ")
            slow.append(connection)
        opened = time.monotonic()
        assert quickest(daemon) < 0.5
        for connection in slow:
            connection.settimeout(max(0.1, opened + 12 - time.monotonic()))
            assert connection.recv(1024) == b""
            connection.close()
        assert time.monotonic() - opened < 12


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 200_000 + b"\r\n\r\n",
        b"\x00\xff\xfe garbage\r\n\r\n",
        b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\nshort",
        b"GET /../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
    ids=["huge header", "garbage", "endless body", "traversal", "http2 preface"],
)
def test_hostile_requests_get_an_error_and_the_next_one_an_answer(request_bytes: bytes) -> None:
    with serving("--simulate", "bare") as daemon:
        host, port = daemon.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=8) as connection:
            answer = b""
            with contextlib.suppress(ConnectionError):  # it may close on us before all is sent
                connection.sendall(request_bytes)
                answer = connection.recv(4096)
        assert b" 200 " not in answer.split(b"\r\n")[0]
        assert daemon.get("/metrics").status_code == httpx.codes.OK


def test_connections_past_the_limit_are_closed_and_the_daemon_lives() -> None:
    with serving("--simulate", "bare") as daemon:
        host, port = daemon.url.removeprefix("http://").split(":")
        many = [socket.create_connection((host, int(port)), timeout=8) for _ in range(600)]
        for connection in many:
            connection.close()
        eventually(lambda: ready(daemon))


def test_formats_by_accept_and_gzip() -> None:
    with serving("--simulate", "healthy") as daemon:
        eventually(lambda: ready(daemon))
        text = daemon.get("/metrics")
        assert text.headers["content-type"].startswith("text/plain; version=0.0.4")
        assert "process_resident_memory_bytes" in text.text
        openmetrics = daemon.get("/metrics", "application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
        assert openmetrics.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
        assert openmetrics.text.endswith("# EOF\n")
        with httpx.stream("GET", daemon.url + "/metrics", headers={"Accept-Encoding": "gzip"}) as packed:
            assert packed.headers["content-encoding"] == "gzip"
            assert b"eastwest_port_up" in gzip.decompress(b"".join(packed.iter_raw()))
        plain = httpx.get(daemon.url + "/metrics", headers={"Accept-Encoding": "identity"})
        assert "content-encoding" not in plain.headers


def test_sighup_takes_a_good_configuration_and_keeps_the_old_before_a_bad_one(tmp_path: Path) -> None:
    config = write(tmp_path / "eastwest.yml", "node: {name: before}\n")
    reloaded = "eastwest_config_last_reload_successful"
    with serving("--simulate", "healthy", "--config", str(config)) as daemon:
        eventually(lambda: daemon.value('eastwest_node_info{node="before",rack=""}'))
        write(config, "node: {name: after, typo: 1}\n")
        daemon.process.send_signal(signal.SIGHUP)
        eventually(lambda: daemon.value(reloaded) == 0)
        assert daemon.value('eastwest_node_info{node="before",rack=""}') == 1
        write(config, "node: {name: after, labels: {rack: r12}}\nchecks: {infiniband: {exclude: [mlx5_0]}}\n")
        daemon.process.send_signal(signal.SIGHUP)
        eventually(lambda: daemon.value('eastwest_node_info{node="after",rack="r12"}'))
        assert daemon.value(reloaded) == 1
        assert 'device="mlx5_0"' not in daemon.get("/metrics").text
        assert 'device="mlx5_3"' in daemon.get("/metrics").text


def test_port_in_use_is_one_line_and_status_2() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        done = subprocess.run(
            command("serve", "--simulate", "bare", "--listen", where),
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr == f"eastwest: web.listen: {where}: already in use\n"


@pytest.mark.skipif(not RECORDED.is_dir(), reason=f"recorded data is not there: {RECORDED}")
def test_recorded_h100_node_through_the_real_command(tmp_path: Path) -> None:
    config = write(tmp_path / "eastwest.yml", f"paths: {{sysfs: '{RECORDED}', state: '{tmp_path}/state'}}\n")
    done = subprocess.run(
        command("metrics", "--config", str(config)), capture_output=True, text=True, timeout=20, check=True
    )
    lines = done.stdout.splitlines()
    rates = [float(line.split()[-1]) for line in lines if line.startswith("eastwest_port_rate_bytes_per_second{")]
    assert sorted(rates) == [25e9] + [50e9] * 8
    saturated = 'eastwest_port_counter_saturated{device="mlx5_1",port="1",counter="link_downed"} 1'
    assert saturated in lines
    raw = (RECORDED / "class/infiniband/mlx5_4/ports/1/counters/port_rcv_data").read_text()
    received = next(line for line in lines if line.startswith('eastwest_port_receive_bytes_total{device="mlx5_4"'))
    assert int(received.split()[-1]) == 4 * int(raw)
    assert done.stderr == ""


def test_the_service_manager_hears_of_the_start_the_reload_and_the_end_and_a_hung_check_starves_no_watchdog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = write(tmp_path / "eastwest.yml", "node: {name: before}\n")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(20)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "2000000")
        heard: list[str] = []

        def hear(wanted: str) -> str:
            while wanted not in (message := manager.recv(4096).decode()):
                heard.append(message)
            return message

        with serving("--simulate", "hang", "--config", str(config)) as daemon:
            assert hear("READY=1") == f"READY=1\nSTATUS=listening on {daemon.url}"
            eventually(lambda: daemon.value('eastwest_check_success{check="infiniband"}') == 0)
            manager.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    manager.recv(4096)
            manager.settimeout(5)
            for _ in range(3):
                hear("WATCHDOG=1")
            daemon.process.send_signal(signal.SIGHUP)
            hear("RELOADING=1")
            hear("READY=1")
            daemon.process.send_signal(signal.SIGTERM)
            hear("STOPPING=1")
            assert ended(daemon.process, 10) < 5
