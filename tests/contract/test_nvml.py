"""The real binding in the real worker on a fake library: what NVML may do, and what is made of it."""

import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from exporter.hardware.affinity import GpuFunctions
from exporter.hardware.child import Child
from exporter.hardware.nvml_client import HUNG_SECONDS, STRIKES, Means, NvmlGpus
from exporter.model import SourceError, Unavailable
from exporter.model_gpu import Gpu, Gpus
from tests.e2e.daemon import eventually
from tests.fakenvml import FakeNvml, b200, build, h100, receive_kib, transmit_kib
from tests.trees import Clock

LINKS = 18
Bench = Callable[..., "Rig"]


@dataclass
class Rig:
    """The client on a worker of its own, and a clock that is moved by hand past each shared reading."""

    fake: FakeNvml
    level: str
    deadline: float = 10.0
    clock: Clock = field(default_factory=lambda: Clock(1000.0))
    workers: list[Child] = field(default_factory=list)
    given_up: list[str] = field(default_factory=list)
    released: bool = False
    root: Path = Path("/nonexistent")

    def __post_init__(self) -> None:
        self.gpus = NvmlGpus(
            Means(
                start=self._start,
                present=lambda: True,
                released=lambda: self.released,
                functions=GpuFunctions(self.root),
                clock=self.clock,
                deadline=self.deadline,
                give_up=self.given_up.append,
            )
        )

    def _start(self) -> Child:
        argv = (sys.executable, "-m", "exporter.hardware.nvml_worker", self.level)
        self.workers.append(Child(argv, self.fake.environment))
        return self.workers[-1]

    def read(self, after: float = 10.0) -> Gpus:
        """A reading so many seconds after the last."""
        self.clock.now += after
        return self.gpus.read()

    def fails(self, after: float = 10.0) -> str:
        """The reason of a reading that fails."""
        with pytest.raises(SourceError) as caught:
            self.read(after)
        return caught.value.reason

    def end(self) -> None:
        """End the workers, the hung ones by force."""
        self.gpus.close()
        for worker in self.workers:
            if worker.alive and worker.pid is not None:
                os.kill(worker.pid, signal.SIGKILL)
            assert worker.close(10)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def bench(library: Path, tmp_path: Path) -> Iterator[Bench]:
    """Makes rigs, and ends their workers."""
    made: list[Rig] = []

    def make(content: dict[str, object], level: str = "basic", deadline: float = 10.0, where: Path = library) -> Rig:
        made.append(Rig(FakeNvml(where, tmp_path, content), level, deadline, root=tmp_path / "sys"))
        return made[-1]

    yield make
    for rig in made:
        rig.end()


def complete(gpu: Gpu, links: int = LINKS) -> bool:
    """Whether all of a healthy GPU's links say all."""
    return (
        len(gpu.links) == links
        and all(link.up and link.receive_bytes and link.transmit_bytes for link in gpu.links)
        and gpu.fabric is not None
    )


def test_two_gpus_of_18_links_are_complete(bench: Bench) -> None:
    reading = bench(h100()).read()
    assert [gpu.uuid for gpu in reading.gpus] == ["GPU-fake-0", "GPU-fake-1"]
    assert all(complete(gpu) for gpu in reading.gpus)
    assert reading.faults == ()
    first, second = reading.gpus
    assert (first.pci_address, first.model, first.driver_version) == (
        "0000:10:00.0",
        "NVIDIA H100 80GB HBM3",
        "550.90.07",
    )
    assert second.throttle == {"power_cap": 3.0, "hardware_thermal": 0.0}
    assert (second.pcie.generation, second.pcie.max_width, second.pcie.replays) == (5, 16, 0)
    assert second.links[3].errors == {"replay": 0, "recovery": 0, "crc_flit": 0}
    assert second.links[3].speed is None


def test_transmitted_and_received_are_told_apart_for_each_link(bench: Bench) -> None:
    for gpu in bench(h100()).read().gpus:
        for link in gpu.links:
            assert link.transmit_bytes == transmit_kib(gpu.number, link.number) * 1024
            assert link.receive_bytes == receive_kib(gpu.number, link.number) * 1024


def test_all_of_a_link_is_read_at_that_level_and_no_bytes_at_none(bench: Bench) -> None:
    (gpu,) = bench(h100(1) | {"fval.0.146.5": "ui 12"}, "all").read().gpus
    assert {link.speed for link in gpu.links} == {26.562e9}
    assert {(link.remote_type, link.remote_pci_address) for link in gpu.links} == {("switch", "")}
    assert gpu.links[5].remote_link == 12
    (gpu,) = bench(h100(1), "none").read().gpus
    assert len(gpu.links) == LINKS
    assert {link.transmit_bytes for link in gpu.links} == {None}
    (gpu,) = bench(h100(1), "off").read().gpus
    assert gpu.links == ()


def test_a_lost_gpu_leaves_the_other_complete_and_comes_back(bench: Bench) -> None:
    rig = bench(h100())
    rig.read()
    rig.fake.set({"lost.1": 15})
    reading = rig.read()
    first, second = reading.gpus
    assert complete(first)
    assert (second.up, second.uuid, second.pci_address, second.links) == (False, "GPU-fake-1", "0000:11:00.0", ())
    assert {(fault.subject, fault.reason) for fault in reading.faults} == {("gpu1", "gpu_lost")}
    rig.fake.set({}, "lost.1")
    asked = len(rig.fake.calls())
    assert not rig.read().gpus[1].up
    assert not [call for call in rig.fake.calls()[asked:] if call.endswith(" 1") and "EventSet" not in call]


@pytest.mark.parametrize("code", [999, 15, 16])
def test_a_gpu_that_is_lost_from_the_start_is_shown_as_down(bench: Bench, code: int) -> None:
    reading = bench(h100() | {"lost.0": code}).read()
    assert [(gpu.number, gpu.up, gpu.uuid) for gpu in reading.gpus] == [(0, False, ""), (1, True, "GPU-fake-1")]
    assert complete(reading.gpus[1])


def test_a_gpu_that_says_unknown_error_to_everything_is_lost_without_a_fault_for_each_field(bench: Bench) -> None:
    rig = bench(h100())
    rig.read()
    rig.fake.set({"lost.0": 999})
    reading = rig.read()
    assert [gpu.up for gpu in reading.gpus] == [False, True]
    assert len(reading.faults) == 1


def test_a_field_that_spoils_its_batch_spoils_nothing(bench: Bench) -> None:
    rig = bench(h100(1) | {"spoils.270": 1})
    for _ in range(3):
        reading = rig.read()
        assert complete(reading.gpus[0])
        assert reading.gpus[0].throttle["hardware_thermal"] == 0.0
        assert reading.faults == ()


def test_a_field_that_fails_later_is_a_fault_of_its_link_alone(bench: Bench) -> None:
    rig = bench(h100(1))
    rig.read()
    rig.fake.set({"fret.0.139.4": 999})
    reading = rig.read()
    assert reading.gpus[0].links[4].receive_bytes is None
    assert all(link.receive_bytes for link in reading.gpus[0].links if link.number != 4)
    assert [(fault.subject, fault.reason) for fault in reading.faults] == [("gpu0/link04", "unknown")]
    rig.fake.set({}, "fret.0.139.4")
    assert complete(rig.read().gpus[0])


def test_values_are_decoded_by_their_type_and_blanks_are_none(bench: Bench) -> None:
    kinds = {
        "fval.0.138.0": "ui 7",
        "fval.0.138.1": "d 8.0",
        "fval.0.138.2": "us 9",
        "fval.0.138.3": "sll 10",
        "fval.0.138.4": "si -1",
        "fval.0.138.5": f"ull {0x7FFFFFFFFFFFFFF2}",
        "fval.0.138.6": "ull 140737488355328",
        "fval.0.138.7": f"ui {0x7FFFFFF2}",
        "fval.0.138.8": f"ull {(1 << 64) - 1}",
    }
    links = bench(h100(1) | kinds).read().gpus[0].links
    assert [link.transmit_bytes for link in links[:9]] == [7 * 1024, 8 * 1024, 9 * 1024, 10 * 1024, *[None] * 5]
    assert all(link.receive_bytes for link in links)


def test_hoppers_totals_that_say_zero_are_not_asked_for(bench: Bench) -> None:
    rig = bench(h100(1) | {"fval.0.52.0": "ull 0", "fval.0.45.0": "ull 0", "ec.0.3.0": 17})
    assert rig.read().gpus[0].links[3].errors["replay"] == 17
    asked = {call.split()[1] for call in rig.fake.calls() if call.startswith("field ")}
    assert asked.isdisjoint({"38", "45", "52", "59", "160"})


def test_b200_has_18_links_of_36_with_bytes_by_field(bench: Bench) -> None:
    (gpu,) = bench(b200(), "all").read().gpus
    assert (len(gpu.links), gpu.link_count) == (18, 18)
    assert gpu.links[17].transmit_bytes == transmit_kib(0, 17)
    assert gpu.links[17].errors == {"recovery": 17}
    assert gpu.links[0].bit_error_ratios == {"effective": pytest.approx(3e-14), "symbol": 0.0}
    assert gpu.fabric is None


@pytest.mark.parametrize("code", [2, 3])
def test_links_are_walked_where_field_91_is_missing(bench: Bench, code: int) -> None:
    content = b200() | {"nolink": code}
    del content["fval.0.91.0"]
    (gpu,) = bench(content).read().gpus
    assert (len(gpu.links), gpu.link_count) == (18, 18)


def test_v100_has_no_bytes_rather_than_zero(bench: Bench) -> None:
    content: dict[str, object] = {"count": 1, "fval.0.91.0": "ui 6", "name.0": "Tesla V100-SXM2-32GB"}
    content |= {f"state.0.{link}": int(link < 4) for link in range(6)}
    (gpu,) = bench(content).read().gpus
    assert [link.up for link in gpu.links] == [True] * 4 + [False] * 2
    assert {(link.receive_bytes, link.transmit_bytes) for link in gpu.links} == {(None, None)}


def test_a_link_that_comes_up_has_what_it_had_not(bench: Bench) -> None:
    content = h100(1, links=2) | {"fval.0.165.1": "ui 0", "fret.0.138.1": 3, "fret.0.139.1": 3}
    rig = bench(content)
    assert rig.read().gpus[0].links[1].transmit_bytes is None
    rig.fake.set({"fval.0.165.1": "ui 1"}, "fret.0.138.1", "fret.0.139.1")
    rig.read()
    assert rig.read().gpus[0].links[1].transmit_bytes == transmit_kib(0, 1) * 1024


@pytest.mark.parametrize(("version", "summary"), [(3, True), (2, False)])
def test_fabric_by_the_version_that_the_driver_knows(bench: Bench, version: int, summary: bool) -> None:
    (gpu,) = bench(h100(1) | {"fabver": version, "fabric.0": "3 23 0x119A 2"}).read().gpus
    assert gpu.fabric is not None
    assert (gpu.fabric.state, gpu.fabric.status) == (3, 23)
    assert gpu.fabric.conditions["route_unhealthy"]
    assert not gpu.fabric.conditions["degraded_bandwidth"]
    assert ("unhealthy" in gpu.fabric.conditions) is summary


def test_a_driver_without_the_newer_fabric_call_is_asked_by_the_older(tmp_path: Path, bench: Bench) -> None:
    folder = tmp_path / "old"
    folder.mkdir()
    rig = bench(h100(1) | {"fabric.0": "2 9 0 0"}, where=build(folder, "-DNO_FABRIC_V"))
    (gpu,) = rig.read().gpus
    assert gpu.fabric is not None
    assert (gpu.fabric.state, gpu.fabric.status, gpu.fabric.conditions) == (2, None, {})


def test_in_mig_mode_links_have_no_state(bench: Bench) -> None:
    (gpu,) = bench(h100(1) | {"mig.0": 1, **{f"fval.0.165.{link}": "ui 0" for link in range(18)}}).read().gpus
    assert gpu.mig
    assert {link.up for link in gpu.links} == {None}


def test_xids_are_counted_across_a_new_worker(bench: Bench) -> None:
    rig = bench(h100() | {"xid.0": "1 74", "xid.1": "1 74", "xid.2": "0 31"})
    first, second = rig.read().gpus
    assert (first.xids, second.xids) == ({74: 0, 79: 0, 31: 1}, {74: 2, 79: 0})
    pid = rig.workers[0].pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    rig.fake.set({"xid.0": "1 79"}, "xid.1", "xid.2")
    assert rig.fails() == "worker_died"
    assert rig.read().gpus[1].xids == {74: 2, 79: 1}


def test_a_worker_killed_by_sigsegv_is_replaced(bench: Bench) -> None:
    rig = bench(h100() | {"segv.nvmlDeviceGetFieldValues": 1})
    assert rig.fails() == "worker_died"
    assert rig.fails(after=2) == "worker_died"
    assert len(rig.workers) == 1, "not replaced before the pause is over"
    rig.fake.set({}, "segv.nvmlDeviceGetFieldValues")
    assert all(complete(gpu) for gpu in rig.read().gpus)


def test_a_worker_that_hangs_for_ever_is_left_and_replaced(bench: Bench) -> None:
    rig = bench(h100())
    rig.read()
    rig.gpus.close()
    slow = bench(h100() | {"hang.nvmlDeviceGetFieldValues": 1}, deadline=0.3)
    assert slow.fails() == "timeout"
    assert slow.fails() == "timeout"
    assert len(slow.workers) == 1, "a call of 45 s is waited for"
    assert slow.fails(after=HUNG_SECONDS) == "timeout"
    assert slow.workers[0].alive, "not killed inside the driver"
    slow.fake.set({}, "hang.nvmlDeviceGetFieldValues")
    slow.clock.now += 10
    assert all(complete(gpu) for gpu in eventually(lambda: unless_late(slow)).gpus)
    assert len(slow.workers) == 2


def unless_late(rig: Rig) -> Gpus | None:
    """A reading, or None where the worker is still starting."""
    try:
        return rig.read(after=2)
    except SourceError:
        return None


def test_a_driver_reloaded_under_the_session_is_opened_again_at_once(bench: Bench) -> None:
    rig = bench(h100())
    rig.read()
    rig.fake.set({"session": 1})
    assert all(complete(gpu) for gpu in rig.read().gpus)
    assert len(rig.workers) == 1
    assert rig.fake.calls().count("nvmlInitWithFlags -1") == 2


def test_while_the_driver_is_away_known_gpus_are_down_and_then_back(bench: Bench) -> None:
    rig = bench(h100())
    rig.read()
    rig.fake.set({"session": 1, "init": 9})
    reading = rig.read()
    assert [gpu.up for gpu in reading.gpus] == [False, False]
    assert {fault.reason for fault in reading.faults} == {"driver_not_loaded"}
    rig.fake.set({"init": 0})
    assert all(complete(gpu) for gpu in rig.read().gpus)


def test_no_driver_and_no_gpu_is_absence_but_a_gpu_without_driver_is_not(bench: Bench, tmp_path: Path) -> None:
    rig = bench({"init": 9})
    with pytest.raises(Unavailable, match="driver_not_loaded"):
        rig.read()
    assert eventually(lambda: not rig.workers[0].alive), "no worker stays for nothing"
    with pytest.raises(Unavailable):
        rig.read(after=2)
    assert len(rig.workers) == 1, "nor is one started at every poll"
    function = tmp_path / "sys/bus/pci/devices/0000:10:00.0"
    function.mkdir(parents=True)
    (function / "uevent").write_text("PCI_CLASS=30200\nPCI_ID=10DE:2330\n")
    assert rig.fails() == "driver_not_loaded"
    (function / "uevent").write_text("DRIVER=vfio-pci\nPCI_CLASS=30200\nPCI_ID=10DE:2330\n")


def test_an_upgraded_package_takes_a_new_worker_and_in_a_container_a_new_container(bench: Bench) -> None:
    rig = bench(h100())
    rig.read()
    rig.fake.set({"session": 1, "init": 18})
    for count in range(STRIKES):
        assert rig.fails(after=400) == "version_mismatch"
        assert bool(rig.given_up) is (count == STRIKES - 1)
    assert len(rig.workers) == STRIKES, "the first replaces nothing: the worker that had NVML open saw it too"
    rig.fake.set({"init": 0})
    assert all(complete(gpu) for gpu in rig.read(after=400).gpus)


def test_a_container_whose_nvml_never_worked_is_not_ended(bench: Bench) -> None:
    rig = bench({"init": 18})
    for _ in range(STRIKES + 1):
        assert rig.fails(after=400) == "version_mismatch"
    assert rig.given_up == []


def test_devices_taken_from_the_container_end_it(bench: Bench) -> None:
    rig = bench(h100())
    rig.read()
    rig.fake.set({"lost.0": 999, "lost.1": 999})
    for _ in range(STRIKES):
        assert [gpu.up for gpu in rig.read().gpus] == [False, False]
    assert len(rig.given_up) == 1


def test_a_device_that_is_not_for_this_container_is_quietly_left_out(bench: Bench) -> None:
    reading = bench(h100() | {"err.nvmlDeviceGetHandleByIndex_v2.0": 4}).read()
    assert [gpu.uuid for gpu in reading.gpus] == ["GPU-fake-1"]
    assert reading.faults == ()


def test_released_nvml_is_closed_and_opened_again_after(bench: Bench) -> None:
    rig = bench(h100())
    rig.read()
    rig.released = True
    assert rig.gpus.close()
    assert rig.fake.calls()[-2:] == ["nvmlShutdown -1", "nvmlShutdown -1"]
    with pytest.raises(Unavailable, match="released"):
        rig.read()
    assert not rig.workers[0].alive
    rig.released = False
    assert all(complete(gpu) for gpu in rig.read().gpus)


def test_nothing_that_writes_is_ever_called() -> None:
    folder = Path(__file__).parents[2] / "exporter"
    named = {name for path in folder.rglob("*.py") for name in re.findall(r"nvml[A-Z]\w+", path.read_text())}
    assert "nvmlDeviceGetFieldValues" in named
    assert not [
        name for name in named if re.search(r"nvml\w*?(Set(?!Create|Wait)|Clear|Reset|Modify|Remove)[A-Z]", name)
    ]
