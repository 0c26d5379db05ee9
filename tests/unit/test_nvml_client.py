"""The client on a worker that says what it is told: numbers that stay, nonsense, pauses, absence."""

import itertools
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from exporter.hardware import nvml_presence
from exporter.hardware.affinity import GpuFunctions
from exporter.hardware.child import ChildEndedError
from exporter.hardware.gpu_scenarios import DGX_H100, H100, GpuNode
from exporter.hardware.nvml_client import MAX_ABANDONED, Means, NvmlGpus
from exporter.hardware.nvml_presence import library_is_there
from exporter.hardware.simulated_gpus import SimulatedWorker, message
from exporter.model import SourceError, Unavailable
from exporter.model_gpu import Gpu
from tests.trees import Clock

Said = Callable[[], bytes]


class Scripted:
    """A worker that says the next thing each time; `alive` until it is closed, or for ever."""

    def __init__(self, say: Said, stuck: bool = False) -> None:
        self._say = say
        self._stuck = stuck
        self.alive = True

    def ask(self, request: bytes, seconds: float) -> bytes:
        """See nvml_client.Worker."""
        assert request.endswith(b"\n")
        assert seconds > 0
        return self._say()

    def close(self, seconds: float = 0.0) -> bool:
        """See nvml_client.Worker."""
        assert seconds >= 0
        self.alive = self._stuck
        return not self._stuck


def client(say: Said, present: bool = True, stuck: bool = False) -> tuple[NvmlGpus, Clock, list[Scripted]]:
    clock, started = Clock(100.0), list[Scripted]()

    def start() -> Scripted:
        started.append(Scripted(say, stuck))
        return started[-1]

    nowhere = GpuFunctions(Path("/nonexistent"))
    return NvmlGpus(Means(start, lambda: present, lambda: False, nowhere, clock, 4.5)), clock, started


def healthy() -> dict[str, Any]:
    return json.loads(json.dumps(message(GpuNode(H100, DGX_H100.slots[:3]), 0.0)))  # type: ignore[no-any-return]  # json's


def told(content: dict[str, Any]) -> Said:
    return lambda: json.dumps(content).encode()


def numbers(gpus: tuple[Gpu, ...]) -> dict[str, int]:
    return {gpu.uuid[-1]: gpu.number for gpu in gpus}


def test_a_gpu_keeps_its_number_when_nvml_counts_anew() -> None:
    content = healthy()
    gpus, clock, _ = client(told(content))
    assert numbers(gpus.read().gpus) == {"0": 0, "1": 1, "2": 2}
    del content["gpus"][1]
    content["gpus"][1]["index"] = 1
    clock.now += 10
    reading = gpus.read()
    assert numbers(reading.gpus) == {"0": 0, "1": 1, "2": 2}
    assert [gpu.up for gpu in reading.gpus] == [True, False, True]
    assert [(fault.subject, fault.reason) for fault in reading.faults] == [("gpu1", "gpu_lost")]
    assert gpus.numbers() == {"0000:1b:00.0": 0, "0000:43:00.0": 1, "0000:52:00.0": 2}


def test_a_new_gpu_gets_a_number_that_is_free() -> None:
    content = healthy()
    gpus, clock, _ = client(told(content))
    gpus.read()
    content["gpus"][1]["uuid"] = "GPU-9"
    clock.now += 10
    assert numbers(gpus.read().gpus) == {"0": 0, "1": 1, "2": 2, "9": 3}


def test_a_gpu_that_lost_its_name_as_well_is_the_silent_one_of_its_number() -> None:
    content = healthy()
    gpus, clock, _ = client(told(content))
    gpus.read()
    content["gpus"][2] = {"index": 2, "uuid": "", "lost": 15, "faults": [["nvmlDeviceGetUUID", 15, -1]]}
    clock.now += 10
    reading = gpus.read()
    assert [(gpu.uuid[-1], gpu.up) for gpu in reading.gpus] == [("0", True), ("1", True), ("2", False)]
    assert len(reading.faults) == 1


def test_two_checks_in_one_second_share_a_reading_and_a_failure() -> None:
    asked: list[int] = []

    def say() -> bytes:
        asked.append(1)
        if len(asked) > 1:
            raise ChildEndedError("ended by SIGSEGV")
        return told(healthy())()

    gpus, clock, _ = client(say)
    assert gpus.read() is gpus.read()
    clock.now += 10
    for _ in range(2):
        with pytest.raises(SourceError, match="ended by SIGSEGV"):
            gpus.read()
    assert len(asked) == 2


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"init": "x"}',
        b'{"init": 0}',
        b'{"init": 0, "driver": "", "gpus": [{}], "xids": [], "watched": []}',
        b'{"init": 0, "driver": "", "gpus": 5}',
    ],
)
def test_nonsense_is_a_source_error_and_costs_the_worker(line: bytes) -> None:
    gpus, _, started = client(lambda: line)
    with pytest.raises(SourceError, match="nonsense"):
        gpus.read()
    assert not started[0].alive


def test_pauses_between_workers_grow_and_end_with_a_good_reading() -> None:
    answers: list[Said] = []

    def say() -> bytes:
        if answers:
            return answers.pop()()
        raise ChildEndedError("ended by SIGSEGV")

    gpus, clock, started = client(say)
    began: list[float] = []
    for _ in range(200):
        with pytest.raises(SourceError):
            gpus.read()
        if len(started) > len(began):
            began.append(clock.now)
        clock.now += 5
    gaps = [after - before for before, after in itertools.pairwise(began)]
    assert gaps[:5] == [5, 10, 20, 40, 80]
    assert max(gaps) == 300
    answers.append(told(healthy()))
    clock.now += 300
    gpus.read()
    clock.now += 10
    with pytest.raises(SourceError):
        gpus.read()
    clock.now += 5
    count = len(started)
    with pytest.raises(SourceError):
        gpus.read()
    assert len(started) == count + 1


def test_hung_workers_do_not_pile_up() -> None:
    def hang() -> bytes:
        raise TimeoutError

    gpus, clock, started = client(hang, stuck=True)
    for _ in range(200):
        with pytest.raises(SourceError, match="does not answer"):
            gpus.read()
        clock.now += 30
    assert len(started) == MAX_ABANDONED
    assert not gpus.close()


def test_without_a_library_nothing_is_started() -> None:
    gpus, _, started = client(told(healthy()), present=False)
    with pytest.raises(Unavailable, match="no NVML"):
        gpus.read()
    assert started == []


def test_a_simulated_worker_hangs_when_its_scenario_says_so() -> None:
    node = GpuNode(H100, DGX_H100.slots, hang_since=500.0)
    with pytest.raises(TimeoutError):
        SimulatedWorker(node, lambda: 500.0).ask(b"read\n", 1.0)
    assert SimulatedWorker(node, lambda: 499.0).ask(b"read\n", 1.0)


def test_the_library_is_looked_for_and_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml_presence, "_FOLDERS", ())
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{tmp_path}:")
    if "libnvidia-ml" not in Path("/etc/ld.so.cache").read_bytes().decode("latin-1"):
        assert not library_is_there()
    (tmp_path / "libnvidia-ml.so.1").write_text("not a library at all")
    assert library_is_there()
    assert "libnvidia-ml" not in Path(f"/proc/{os.getpid()}/maps").read_text()
