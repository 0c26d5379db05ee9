"""A session of the worker on a library in Python: lost GPUs, a driver that goes, a bug, each GPU by itself."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from exporter.hardware.nvml import FieldKey, FieldValue, NvmlError
from exporter.hardware.nvml_session import PAUSE, Session
from tests.trees import Clock


class Library:
    """Two GPUs of two links. `lost` holds codes by GPU; `broken` a GPU on which the binding itself fails."""

    def __init__(self) -> None:
        self.lost: dict[int, int] = {}
        self.broken: int | None = None
        self.opened = 0
        self.closed = 0
        self.xids: list[tuple[int, int]] = []

    def open(self) -> None:
        """See nvml.Library."""
        self.opened += 1

    def close(self) -> None:
        """See nvml.Library."""
        self.closed += 1

    def call(self, name: str, *arguments: Any) -> Any:
        """See nvml.Library."""
        plain = {"nvmlSystemGetDriverVersion": "550", "nvmlDeviceGetCount": 2}
        if name in plain:
            return plain[name]
        if name == "nvmlDeviceGetHandleByIndex":
            return arguments[0]
        self._refuse(name, arguments[0])
        if name == "nvmlDeviceGetPciInfo":
            return SimpleNamespace(domain=1, bus=0x1B + arguments[0], device=0)
        if name == "nvmlDeviceGetUUID":
            return f"GPU-{arguments[0]}"
        raise NvmlError(name, 3)

    def fields(self, handle: int, keys: Sequence[FieldKey]) -> list[FieldValue]:
        """See nvml.Library."""
        self._refuse("nvmlDeviceGetFieldValues", handle)
        known = {91: 2, 165: 1}
        return [FieldValue(0, 1, known[of]) if of in known else FieldValue(3, 0, 0) for of, _ in keys]

    def fabric(self, handle: int, version: int) -> tuple[int, int, int, int]:
        """See nvml.Library."""
        raise NvmlError(f"fabric {handle} {version}", 3)

    def watch(self, handles: Sequence[int]) -> tuple[object, list[bool]]:
        """See nvml.Library: the second GPU takes no registration."""
        return object(), [handle == 0 for handle in handles]

    def events(self, events: object) -> list[tuple[int, int]]:
        """See nvml.Library."""
        assert events is not None
        found, self.xids = self.xids, []
        return found

    def pointer(self, handle: int) -> int:
        """See nvml.Library."""
        return 100 + handle

    def _refuse(self, name: str, handle: int) -> None:
        if handle == self.broken:
            raise ZeroDivisionError(name)
        if handle in self.lost:
            raise NvmlError(name, self.lost[handle])


@pytest.fixture
def library() -> Library:
    return Library()


def session(library: Library) -> tuple[Session, Clock, list[str]]:
    clock, said = Clock(), list[str]()
    return Session(library, "basic", clock, said.append), clock, said


def lost(message: Any) -> list[int | None]:
    """The code of each GPU that is lost."""
    return [gpu.get("lost") for gpu in message["gpus"]]


def test_a_lost_gpu_is_asked_again_after_a_pause_and_found_anew(library: Library) -> None:
    reading, clock, _ = session(library)
    assert lost(reading.read()) == [None, None]
    library.lost = {1: 15}
    assert lost(reading.read()) == [None, 15]
    library.lost = {}
    clock.now += PAUSE - 1
    assert lost(reading.read()) == [None, 15]
    clock.now += 1
    message = reading.read()
    assert lost(message) == [None, None]
    assert message["gpus"][1]["pci"] == "0001:1c:00.0"
    assert library.opened == 1


def test_all_lost_at_once_is_opened_anew_but_not_at_every_poll(library: Library) -> None:
    reading, clock, _ = session(library)
    clock.now = 1000.0
    reading.read()
    library.lost = {0: 999, 1: 999}
    for _ in range(3):
        assert lost(reading.read()) == [999, 999]
    assert library.opened == 2
    clock.now += PAUSE
    reading.read()
    assert library.opened == 3


@pytest.mark.parametrize("code", [1, 9])
def test_a_session_that_is_gone_is_opened_anew_at_once(library: Library, code: int) -> None:
    reading, _, _ = session(library)
    reading.read()
    library.lost = {0: code}
    closed = library.closed
    reading.read()
    assert library.closed == closed + 1


def test_a_bug_met_on_one_gpu_leaves_the_other_and_is_said_once(library: Library) -> None:
    reading, clock, said = session(library)
    library.broken = 0
    for _ in range(2):
        assert lost(reading.read()) == [999, None]
        clock.now += PAUSE
    assert len(said) == 1
    assert "ZeroDivisionError" in said[0]


def test_xids_are_counted_by_gpu_and_those_of_strangers_not(library: Library) -> None:
    reading, _, _ = session(library)
    library.xids = [(101, 74), (100, 74), (101, 74), (555, 74)]
    assert sorted(reading.read()["xids"]) == [("GPU-0", 74, 1), ("GPU-1", 74, 2)]
    message = reading.read()
    assert sorted(message["xids"]) == [("GPU-0", 74, 1), ("GPU-1", 74, 2)]
    assert message["watched"] == ["GPU-0"]
