"""What the gate is told: over several polls before a probe, and while it runs."""

import os
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event, Timer

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


def test_what_speaks_against_a_probe_is_not_looked_at_again() -> None:
    load = Load(SourceError("timeout", "NVML does not answer"))
    assert reasons(load) == ["nvml_unreadable"]
    assert load.polls == 1, "10 s each where it hangs"


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


class Hanging:
    """A source that answers once it is let go."""

    def __init__(self) -> None:
        self.go = Event()
        self.asked = 0

    def holders(self) -> tuple[str, ...]:
        """See survey.Scheduler."""
        self.asked += 1
        self.go.wait(20)
        return ()

    def read(self) -> tuple[GpuLoad, ...]:
        """See gpu_load.LoadSource."""
        self.holders()
        return gpus(2)

    def close(self) -> None:
        """See gpu_load.LoadSource."""


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    source = Hanging()
    yield source
    source.go.set()


def test_a_source_that_hangs_ends_with_the_rounds_time_and_is_named(hanging: Hanging) -> None:
    looked = Survey({"slurm": SLURM}, hanging, PortsOf())
    began = time.monotonic()
    (refusal,) = idle(looked.idle(until=began + 0.4), Limits())
    assert time.monotonic() - began < 1.5
    assert (refusal.reason, refusal.detail.startswith("no answer in 0.")) == ("nvml_unreadable", True)


def test_a_look_ends_when_the_round_is_stopped(hanging: Hanging) -> None:
    looked = Survey({"slurm": hanging}, Load(), PortsOf())
    stop = Stop()
    Timer(0.3, stop.set, ("SIGTERM",)).start()
    began = time.monotonic()
    looked.idle(lambda: stop.reason)
    assert time.monotonic() - began < 1.5
    stop.close()


def test_between_polls_too() -> None:
    clock, load = Clock(), Load()
    survey(load, PortsOf(), clock).idle(until=clock.now + 0.55)
    assert load.polls == 1
    assert clock.now == pytest.approx(1000.6)


def test_what_hangs_costs_one_thread_however_often_it_is_asked(hanging: Hanging) -> None:
    looked = Survey({"slurm": hanging}, Load(), PortsOf())
    before = threading.active_count()
    for _ in range(4):
        (refusal,) = idle(looked.now(0.05), Limits())
        assert refusal.reason == "slurm_unreadable"
    assert (hanging.asked, threading.active_count() - before) == (1, 1)
    hanging.go.set()
    assert list(idle(looked.now(5.0), Limits())) == []
    assert hanging.asked == 2, "the answer to the question of before proves nothing"


def test_a_job_is_noticed_at_once_beside_an_nvml_that_hangs(hanging: Hanging) -> None:
    slurm, stop = Scheduler(), Stop()
    watch = Watch(Survey({"slurm": slurm}, hanging, PortsOf()), stop)
    eventually(lambda: hanging.asked)
    slurm.said = ("job 9",)
    began = time.monotonic()
    eventually(lambda: stop.reason)
    assert time.monotonic() - began < 1.4
    found = watch.end()
    assert found is not None
    assert found.reason == stop.reason == "slurm_allocation"
    stop.close()


def test_one_that_hangs_while_a_probe_runs_counts_as_work_in_the_end(
    hanging: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("exporter.probes.survey.DEAF_SECONDS", 1.0)
    stop = Stop()
    watch = Watch(Survey({"slurm": hanging}, Load(), PortsOf()), stop)
    eventually(lambda: stop.reason == "slurm_unreadable")
    watch.end()
    stop.close()


def test_a_bug_of_a_source_is_not_hidden_in_its_thread() -> None:
    class Broken(Scheduler):
        def holders(self) -> tuple[str, ...]:
            raise KeyError("a bug")

    with pytest.raises(KeyError):
        survey(Load(), PortsOf(), Clock(), slurm=Broken()).now()


class Stuck:
    """A worker that neither answers nor ends."""

    alive = True

    def ask(self, request: bytes, seconds: float) -> bytes:  # noqa: ARG002 - as a Child has them
        """See gpu_load.Worker."""
        raise TimeoutError

    def close(self, seconds: float = 0.0) -> bool:  # noqa: ARG002 - as above
        """See gpu_load.Worker."""
        return not self.alive


def test_workers_that_hang_are_not_piled_up() -> None:
    started: list[Stuck] = []

    def start() -> Stuck:
        started.append(Stuck())
        return started[-1]

    load = NvmlLoad(start, lambda: True)
    for _ in range(5):
        with pytest.raises(SourceError, match="NVML"):
            load.read()
        load.close()
    assert len(started) == 2
    started[0].alive = False
    with pytest.raises(SourceError, match="does not answer"):
        load.read()
    assert len(started) == 3
