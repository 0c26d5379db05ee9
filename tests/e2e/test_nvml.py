"""The real daemon on a fake NVML: whatever that does costs GPU series alone, and for as long as it lasts."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.e2e.daemon import Daemon, command, ended, eventually, serving, write
from tests.fakenvml import FakeNvml, build, h100
from tests.trees import HEALTHY, plant

pytestmark = pytest.mark.e2e
UP = 'eastwest_gpu_up{gpu="1"}'
SUCCESS = 'eastwest_check_success{check="%s"}'
PORTS = 'eastwest_check_last_run_timestamp_seconds{check="infiniband"}'


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """A library of two GPUs, in the environment that the daemon will have."""
    folder = tmp_path / "lib"
    folder.mkdir()
    library = FakeNvml(build(folder), tmp_path, h100())
    for name in ("LD_LIBRARY_PATH", "FAKE_NVML_FILE", "FAKE_NVML_LOG"):
        monkeypatch.setenv(name, library.environment[name])
    return library


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Polls every second, on two planted ports."""
    plant(tmp_path / "sys", {"mlx5_0": HEALTHY, "mlx5_1": HEALTHY})
    checks = ", ".join(f"{name}: {{interval: 1s}}" for name in ("infiniband", "gpu", "nvlink"))
    text = f"paths: {{sysfs: {tmp_path}/sys, state: {tmp_path}/state}}\nchecks: {{{checks}}}\n"
    return write(tmp_path / "eastwest.yml", text)


def worker(daemon: Daemon) -> int | None:
    """The process id of the daemon's only child."""
    tasks = Path(f"/proc/{daemon.process.pid}/task").iterdir()
    children = [int(pid) for task in tasks for pid in (task / "children").read_text().split()]
    return children[0] if children else None


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def ports_go_on(daemon: Daemon) -> bool:
    """Whether ports are read on, each time well."""
    before = daemon.value(PORTS) or 0.0
    eventually(lambda: (daemon.value(PORTS) or 0.0) > before, seconds=5)
    return daemon.value(SUCCESS % "infiniband") == 1


def test_a_crash_a_reload_and_a_hang_cost_gpu_series_only(fake: FakeNvml, config: Path) -> None:
    with serving("--config", str(config)) as daemon:
        eventually(lambda: daemon.value(UP) == 1)
        first = worker(daemon)
        assert first is not None

        os.kill(first, signal.SIGSEGV)
        eventually(lambda: daemon.value(SUCCESS % "gpu") == 0)
        assert ports_go_on(daemon)
        eventually(lambda: daemon.value(SUCCESS % "gpu") == 1)
        second = worker(daemon)
        assert second not in (None, first)

        fake.set({"session": 1, "init": 9})
        eventually(lambda: daemon.value(UP) == 0)
        assert ports_go_on(daemon)
        fake.set({"init": 0})
        eventually(lambda: daemon.value(UP) == 1)

        fake.set({"hang.nvmlDeviceGetFieldValues": 1})
        eventually(lambda: daemon.value(SUCCESS % "nvlink") == 0)
        began = time.monotonic()
        daemon.get("/metrics")
        assert time.monotonic() - began < 0.5
        assert ports_go_on(daemon)
        hung = worker(daemon)
        assert hung is not None
        daemon.process.send_signal(signal.SIGTERM)
        assert ended(daemon.process, 10) < 5
        eventually(lambda: not running(hung), seconds=15)


def test_release_closes_nvml_for_a_while(fake: FakeNvml, config: Path) -> None:
    with serving("--config", str(config)) as daemon:
        eventually(lambda: daemon.value(UP) == 1)
        done = subprocess.run(
            command("release", "--for", "10m", "--config", str(config)), capture_output=True, text=True, check=True
        )
        assert done.stdout.startswith("the daemon has closed NVML until")
        assert fake.calls()[-1].startswith("nvmlShutdown")
        assert worker(daemon) is None
        eventually(lambda: daemon.value(UP) is None)
        assert daemon.value(SUCCESS % "gpu") == 1
        subprocess.run(command("release", "--for", "0s", "--config", str(config)), capture_output=True, check=True)
        eventually(lambda: daemon.value(UP) == 1)
        daemon.process.send_signal(signal.SIGUSR1)
        eventually(lambda: daemon.value(UP) is None)
        assert worker(daemon) is None


def test_nothing_outlives_a_killed_daemon(fake: FakeNvml, config: Path) -> None:
    with serving("--config", str(config)) as daemon:
        eventually(lambda: daemon.value(UP) == 1)
        pid = worker(daemon)
        assert pid is not None
        daemon.process.kill()
        eventually(lambda: not running(pid))
    assert fake.calls()[-1].startswith("nvmlShutdown"), "and NVML was shut down all the same"


def test_one_poll_has_gpus_and_the_ports_near_them(fake: FakeNvml, config: Path) -> None:
    done = subprocess.run(
        command("metrics", "--config", str(config)), capture_output=True, text=True, timeout=30, check=True
    )
    assert f"{UP} 1" in done.stdout
    assert done.stderr == ""
    assert fake.calls()[-1].startswith("nvmlShutdown")


def test_a_machine_without_nvml_is_quiet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "libnvidia-ml" in Path("/etc/ld.so.cache").read_bytes().decode("latin-1"):
        pytest.skip("this machine has NVML")
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    config = write(tmp_path / "eastwest.yml", f"paths: {{sysfs: {tmp_path}, state: {tmp_path}/state}}\n")
    done = subprocess.run(
        command("metrics", "--config", str(config)), capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stderr == ""
    assert 'eastwest_check_success{check="gpu"} 1' in done.stdout
    assert "eastwest_gpu_" not in done.stdout
    with serving("--config", str(config)) as daemon:
        eventually(lambda: daemon.value(SUCCESS % "nvlink") == 1)
        assert worker(daemon) is None
