"""The daemon probes a node with a fake NCCL and CUDA: results in /metrics and the API; and no worker outlives it."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from exporter.hardware.child import members
from tests import fakenccl
from tests.e2e.daemon import Daemon, command, ended, eventually, serving
from tests.probes.processes import workers

pytestmark = pytest.mark.e2e
GAP = "10s"
BUDGET = "{max_seconds_per_hour: 3600, max_bytes_per_hour: 900GiB}"


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(fakenccl.build(tmp_path)))
    return tmp_path


def paths(root: Path) -> str:
    """`paths` of a machine of empty folders under `root`, made."""
    for name in ("sys", "state", "proc/2"):
        (root / name).mkdir(parents=True)
    # the host's processes, so that no Slurm is none: these tests may run in a container
    (root / "proc" / "2" / "comm").write_text("kthreadd\n")
    (root / "proc" / "stat").write_text(Path("/proc/stat").read_text())
    return f"paths: {{sysfs: {root / 'sys'}, proc: {root / 'proc'}, state: {root / 'state'}}}\n"


@contextmanager
def probing(root: Path, gap: str = GAP) -> Iterator[Daemon]:
    """A daemon with its own folders, whose path is in its workers' command line."""
    config = root / "eastwest.yml"
    config.write_text(
        f"{paths(root)}checks: {{gpu: {{enabled: false}}, nvlink: {{enabled: false}}}}\n"
        f"probes: {{enabled: true, min_gap: {gap}, budget: {BUDGET}}}\n"
    )
    # an overdue node begins within a tenth of min_gap
    (root / "state" / "probes.json").write_text(
        json.dumps({"version": 1, "last": time.time() - 3600, "records": [], "learnt": {}})
    )
    with serving("--config", str(config)) as daemon:
        yield daemon


def children(daemon: Daemon) -> list[int]:
    """The processes of probes that the daemon has started, found by their parents."""
    found: list[int] = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            line = (stat.parent / "cmdline").read_bytes()
        except OSError:
            continue
        if parent in (daemon.process.pid, *found) and b"exporter.probes.worker" in line:
            found.append(int(stat.parent.name))
    return found


def test_a_result_in_metrics_and_api(library: Path) -> None:
    fakenccl.configure(library, rate=360e9, latency=1e-5)
    with probing(library) as daemon:
        series = 'eastwest_probe_transmit_bandwidth_bytes_per_second{scope="intra",engine="nccl",rail=""}'
        value = eventually(lambda: daemon.value(series), 40)
        assert value == pytest.approx(350e9, rel=0.05)
        document = daemon.get("/api/v1/probes").json()
        (first, *_) = document["probes"]
        assert (document["enabled"], first["result"], first["facts"]["nccl"]) == (True, "ok", "2.32.3")
        assert daemon.value('eastwest_probe_runs_total{scope="intra",engine="nccl",result="ok"}') == 1
        assert daemon.value('eastwest_check_success{check="probes"}') == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_worker_outlives_a_daemon_that_ends_in_mid_probe(library: Path, number: int) -> None:
    fakenccl.configure(library, hang="run", hang_abort=1)
    with probing(library) as daemon:
        found = eventually(lambda: found if len(found := children(daemon)) == 9 else [], 40)
        group = os.getpgid(found[0])
        daemon.process.send_signal(number)
        assert ended(daemon.process, 10) < 5
        eventually(lambda: not members(group), 5)
        if number == signal.SIGTERM:
            (record,) = json.loads((library / "state" / "probes.json").read_text())["records"]
            assert (record["result"], record["reason"]) == ("aborted", "daemon_stops")


def test_off_by_default_nothing_is_started(library: Path) -> None:
    fakenccl.configure(library)
    with serving() as daemon:
        time.sleep(2)
        assert daemon.get("/api/v1/probes").json() == {"enabled": False, "probes": []}
        assert "eastwest_probe_" not in daemon.get("/metrics").text
        assert children(daemon) == []


def test_a_new_configuration_turns_them_on_and_off(library: Path) -> None:
    fakenccl.configure(library)
    with probing(library) as daemon:
        assert daemon.get("/api/v1/probes").json()["enabled"]
        config = library / "eastwest.yml"
        text = config.read_text()
        config.write_text(text.replace("enabled: true", "enabled: false"))
        daemon.process.send_signal(signal.SIGHUP)
        eventually(lambda: not daemon.get("/api/v1/probes").json()["enabled"], 20)
        config.write_text(text)
        daemon.process.send_signal(signal.SIGHUP)
        eventually(lambda: daemon.get("/api/v1/probes").json()["enabled"], 20)
        eventually(lambda: daemon.value('eastwest_check_success{check="probes"}') == 1, 20)


def test_by_hand_and_as_a_hook(library: Path) -> None:
    fakenccl.configure(library, rate=360e9)
    config = library / "eastwest.yml"
    config.write_text(f"{paths(library)}probes: {{enabled: true}}\n")
    done = subprocess.run(
        command("probe", "intra", "--config", str(config)), capture_output=True, text=True, timeout=60, check=True
    )
    assert "GB/s = " in done.stdout
    assert "expected: not known yet" in done.stdout
    hook = command("probe", "--hook", "epilog", "--config", str(config))
    done = subprocess.run(hook, capture_output=True, text=True, timeout=60, check=True)
    assert "min_gap" in done.stdout


def test_the_algorithm_of_the_configuration_and_the_small_operation_alone(library: Path) -> None:
    fakenccl.configure(library, rate=360e9, latency=1e-5, dump=library)
    config = library / "eastwest.yml"
    config.write_text(f"{paths(library)}probes: {{enabled: true, algorithm: tree}}\n")

    def by_hand(what: str) -> tuple[str, bool]:
        argv = command("probe", what, "--config", str(config))
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
        return done.stdout, "NCCL_ALGO=Tree" in (library / "0.env").read_text().splitlines()

    said, tree = by_hand("intra")
    assert tree
    assert "algorithm tree" in said
    learnt = json.loads((library / "state" / "probes.json").read_text())["learnt"]
    assert f"intra/nccl/{64 << 20}/tree/P2P/>" in learnt
    said, tree = by_hand("latency")
    assert not tree
    assert "8 GPUs latency  10.0 us" in said
    assert "GB/s" not in said


def test_a_hook_is_over_by_its_deadline(library: Path) -> None:
    fakenccl.configure(library, hang="run", hang_abort=1)
    config = library / "eastwest.yml"
    config.write_text(f"{paths(library)}probes: {{enabled: true}}\n")
    hook = command("probe", "--hook", "prolog", "--deadline", "15s", "--config", str(config))
    began = time.monotonic()
    done = subprocess.run(hook, capture_output=True, text=True, timeout=60, check=True)
    assert time.monotonic() - began < 15
    assert "aborted" in done.stdout or "timeout" in done.stdout
    assert workers(str(library).encode()) == []


def test_a_slow_pair_is_a_finding_after_two_probes_and_none_after_a_good_one(library: Path) -> None:
    """By hand beside the daemon, which judges them; half a minute."""
    config = library / "eastwest.yml"

    def by_hand(**knobs: object) -> str:
        fakenccl.configure(library, rate=360e9, latency=1e-5, **knobs)
        argv = command("probe", "intra", "--config", str(config))
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
        return f"{done.returncode} {done.stdout}"

    with probing(library, "30d") as daemon:
        finding = 'eastwest_finding{check="probes",subject="gpu2/gpu3",severity="critical",reason="probe_pair_slow"}'
        assert [by_hand()[0] for _ in range(4)] == ["0"] * 4
        assert by_hand(rate__2__3=40e9)[0] == "1"
        time.sleep(6)  # the check runs every 5 s
        assert "eastwest_finding{" not in daemon.get("/metrics").text
        by_hand(rate__2__3=40e9)
        eventually(lambda: daemon.value(finding) == 1, 20)
        (told,) = daemon.get("/api/v1/health").json()["findings"]
        assert told["evidence"]["direction"] == ["gpu2>gpu3"]
        assert daemon.value('eastwest_node_health{status="critical"}') == 1
        assert by_hand()[0] == "0"
        eventually(lambda: daemon.value('eastwest_node_health{status="ok"}') == 1, 20)
