"""What the gate is told: over several polls before a probe, and while it runs."""

import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from exporter.hardware.child import Child
from exporter.hardware.gpu_load import GpuLoad, NvmlLoad
from exporter.model import SourceError, Unavailable
from exporter.probes.gate import Limits, idle
from exporter.probes.launch import Stop
from exporter.probes.survey import Survey, Watch, unknown_processes
from tests import fakenvml
from tests.e2e.daemon import eventually
from tests.probes.fakes import Clock, Load, PortsOf, Scheduler, gpus, survey

pytestmark = pytest.mark.e2e  # processes with deadlines: it waits more than it works

SLURM = Scheduler(Unavailable("no slurmd"))


def reasons(load: Load, ports: PortsOf | None = None, **schedulers: Scheduler) -> list[str]:
    looked = survey(load, ports or PortsOf(), Clock(), **schedulers)
    return [refusal.reason for refusal in idle(looked.idle(), Limits())]


def test_an_idle_node() -> None:
    assert reasons(Load(), slurm=SLURM, kubernetes=Scheduler()) == []


def test_a_node_without_anything_to_ask() -> None:
    assert reasons(Load(Unavailable("no NVML")), PortsOf(names=()), slurm=SLURM) == []


@pytest.mark.parametrize("poll", [1, 2, 3])
def test_work_in_any_of_the_polls_counts(poll: int) -> None:
    script = {poll: (replace(gpus(1)[0], utilisation=3, processes=(4711,)),), poll + 1: gpus(1)}
    assert reasons(Load(gpus(1), script)) == ["gpu_process", "gpu_busy"]


def test_a_failing_source_means_busy() -> None:
    assert reasons(Load(SourceError("timeout", "NVML does not answer"))) == ["nvml_unreadable"]
    assert reasons(Load(), kubernetes=Scheduler(SourceError("timeout", "hangs"))) == ["kubernetes_unreadable"]
    assert reasons(Load(), PortsOf(failure=SourceError("eio", "sysfs"))) == ["ports_unreadable"]


def test_traffic_of_five_percent_and_what_is_below_it() -> None:
    assert reasons(Load(), PortsOf(step=int(0.06 * 50e9))) == ["nic_busy", "nic_busy"]
    assert reasons(Load(), PortsOf(step=int(0.04 * 50e9))) == []


def watched(load: Load, **schedulers: Scheduler) -> tuple[Stop, Watch]:
    stop = Stop()
    return stop, Watch(Survey(schedulers, load, PortsOf()), stop)


def test_work_that_appears_stops_the_probe_at_once() -> None:
    load, slurm = Load(), Scheduler()
    stop, watch = watched(load, slurm=slurm)
    eventually(lambda: load.polls > 2)
    assert stop.reason == ""
    slurm.said = ("job 9",)
    began = time.monotonic()
    eventually(lambda: stop.reason)
    assert time.monotonic() - began < 1
    assert stop.reason == "slurm_allocation"
    assert watch.end() is not None
    stop.close()


def test_a_source_that_fails_for_a_moment_does_not_stop_it_and_one_that_stays_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("exporter.probes.survey.DEAF_SECONDS", 0.7)
    load = Load()
    stop, watch = watched(load)
    load.said = SourceError("timeout", "opening a context")
    eventually(lambda: load.polls > 0)
    load.said = gpus(2)
    polls = load.polls
    eventually(lambda: load.polls > polls + 3)
    assert stop.reason == ""
    load.said = SourceError("timeout", "hangs")
    eventually(lambda: stop.reason == "nvml_unreadable")
    watch.end()
    stop.close()


def test_its_own_processes_are_known_by_their_group() -> None:
    load = Load()
    stop, watch = watched(load)
    watch.follow(os.getpgid(0))
    load.said = (replace(gpus(1)[0], processes=(os.getpid(),)),)
    polls = load.polls
    eventually(lambda: load.polls > polls + 2)
    assert stop.reason == ""
    load.said = (replace(gpus(1)[0], processes=(os.getpid(), 1)),)
    eventually(lambda: stop.reason == "gpu_process")
    watch.end()
    stop.close()


def test_what_appeared_unseen_is_seen_at_the_end() -> None:
    load = Load()
    stop, watch = watched(load)
    load.said = (replace(gpus(1)[0], processes=(99,)),)
    found = watch.end()
    assert found is not None
    assert found.reason == "gpu_process"
    stop.close()


def test_pid_namespaces(tmp_path: Path) -> None:
    (tmp_path / "self" / "ns").mkdir(parents=True)
    assert unknown_processes(tmp_path) == 1
    (tmp_path / "self" / "ns" / "pid").symlink_to("pid:[4026531836]")
    assert unknown_processes(tmp_path) == 0


def test_nvml_says_who_uses_the_gpus(tmp_path: Path) -> None:
    library = fakenvml.build(tmp_path)
    content = {"count": 2, "procs.1": "4711 4712", "util.1": 97, "used.1": 5 << 30, "mig.0": 1}
    nvml = fakenvml.FakeNvml(library, tmp_path, content)
    argv = (sys.executable, "-m", "exporter.hardware.nvml_worker", "load")
    load = NvmlLoad(lambda: Child(argv, nvml.environment), lambda: True)
    try:
        assert load.read() == (
            GpuLoad(0, "GPU-fake-0", (), 0, 0, mig=True, pci_address="0000:10:00.0"),
            GpuLoad(1, "GPU-fake-1", (4711, 4712), 97, 5 << 30, pci_address="0000:11:00.0"),
        )
        nvml.set({"err.nvmlDeviceGetComputeRunningProcesses_v3.0": 4})
        assert load.read()[0].failure
        nvml.set({"hang.nvmlDeviceGetUUID": 1})
        with pytest.raises(SourceError, match="does not answer"):
            load.read()
    finally:
        load.close()


def test_no_nvml_and_no_driver(tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        NvmlLoad(present=lambda: False).read()
    nvml = fakenvml.FakeNvml(fakenvml.build(tmp_path), tmp_path, {"init": 9})
    argv = (sys.executable, "-m", "exporter.hardware.nvml_worker", "load")
    load = NvmlLoad(lambda: Child(argv, nvml.environment), lambda: True)
    with pytest.raises(Unavailable):
        load.read()
    load.close()
