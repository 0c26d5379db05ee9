"""NVML, through NVIDIA's own binding. The only importer of pynvml, and imported in the worker process alone.

Every call gives what NVML said or raises NvmlError with its code. Nothing here sets, clears or resets anything.
"""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pynvml

from exporter.hardware import nvml_codes as codes

Handle = Any
"""nvmlDevice_t: a pointer, good until the session ends; not hashable."""
FieldKey = tuple[int, int]
"""A field id and its scope: the link, or 0."""
EVENTS_AT_ONCE = 1000
WAIT_MS = 1


class NvmlError(Exception):
    """A call that did not succeed; `code` is the nvmlReturn."""

    def __init__(self, call: str, code: int) -> None:
        super().__init__(f"{call}: {codes.reason(code)}")
        self.call = call
        self.code = code


@dataclass(frozen=True, slots=True)
class FieldValue:
    """One entry of nvmlDeviceGetFieldValues: its own return code, value type, and the union's 8 bytes."""

    code: int
    value_type: int
    bits: int


class Library(Protocol):
    """What the worker asks of NVML; each raises NvmlError."""

    def open(self) -> None:
        """NvmlInit."""

    def close(self) -> None:
        """NvmlShutdown, until nothing is open."""

    def call(self, name: str, *arguments: Any) -> Any:
        """Any call of the binding that takes and gives plain values."""

    def fields(self, handle: Handle, keys: Sequence[FieldKey]) -> list[FieldValue]:
        """Several fields at once, in order."""

    def fabric(self, handle: Handle, version: int) -> tuple[int, int, int, int]:
        """State, status, health mask and summary, by that version of the structure (3, 2, 1); 0 where it has none."""

    def watch(self, handles: Sequence[Handle]) -> tuple[Any, list[bool]]:
        """An event set for the Xids of these GPUs, and which of them it took."""

    def events(self, events: Any) -> list[tuple[int, int]]:
        """The Xids since last asked: the GPU's pointer, the Xid."""

    def pointer(self, handle: Handle) -> int:
        """What a handle points to."""


class _FabricV1(ctypes.Structure):
    _fields_ = [
        ("uuid", ctypes.c_uint8 * 16),
        ("status", ctypes.c_uint),
        ("clique", ctypes.c_uint32),
        ("state", ctypes.c_uint8),
    ]


class _FabricV3(ctypes.Structure):
    """Version 2 is the same without the summary: it is told by the version word."""

    _fields_ = [
        ("version", ctypes.c_uint),
        ("uuid", ctypes.c_uint8 * 16),
        ("status", ctypes.c_uint),
        ("clique", ctypes.c_uint32),
        ("state", ctypes.c_uint8),
        ("mask", ctypes.c_uint32),
        ("summary", ctypes.c_uint8),
    ]


_FABRIC_VERSIONS = {3: 0x03000028, 2: 0x02000024}


class Pynvml:
    """The library that `libnvidia-ml.so.1` is on this machine."""

    def open(self) -> None:
        """See Library."""
        self._asked("nvmlInit", pynvml.nvmlInit)

    def close(self) -> None:
        """See Library. nvmlInit counts references: shut down until it says that nothing is open."""
        try:
            for _ in range(16):
                self._asked("nvmlShutdown", pynvml.nvmlShutdown)
        except NvmlError:
            return

    def call(self, name: str, *arguments: Any) -> Any:
        """See Library."""
        function = getattr(pynvml, name, None)
        if function is None:
            raise NvmlError(name, codes.FUNCTION_NOT_FOUND)
        return self._asked(name, function, *arguments)

    def fields(self, handle: Handle, keys: Sequence[FieldKey]) -> list[FieldValue]:
        """See Library. The binding gives the driver a new, zeroed array each time, since some fields add to it."""
        answers = self._asked("nvmlDeviceGetFieldValues", pynvml.nvmlDeviceGetFieldValues, handle, list(keys))
        return [FieldValue(of.nvmlReturn, of.valueType, of.value.ullVal) for of in answers]

    def fabric(self, handle: Handle, version: int) -> tuple[int, int, int, int]:
        """See Library."""
        if version == 1:
            old = _FabricV1()
            name = "nvmlDeviceGetGpuFabricInfo"
            self._asked(name, pynvml.nvmlDeviceGetGpuFabricInfo, handle, ctypes.byref(old))
            return old.state, old.status, 0, 0
        info = _FabricV3(version=_FABRIC_VERSIONS[version])
        name = "nvmlDeviceGetGpuFabricInfoV"
        self._asked(name, pynvml.nvmlDeviceGetGpuFabricInfoV, handle, ctypes.byref(info))
        return info.state, info.status, info.mask, info.summary if version == 3 else 0

    def watch(self, handles: Sequence[Handle]) -> tuple[Any, list[bool]]:
        """See Library."""
        events = self._asked("nvmlEventSetCreate", pynvml.nvmlEventSetCreate)
        return events, [self._watched(handle, events) for handle in handles]

    def events(self, events: Any) -> list[tuple[int, int]]:
        """See Library."""
        found: list[tuple[int, int]] = []
        try:
            while len(found) < EVENTS_AT_ONCE:
                event = self._asked("nvmlEventSetWait_v2", pynvml.nvmlEventSetWait_v2, events, WAIT_MS)
                if event.eventType & codes.XID_EVENT:
                    found.append((self.pointer(event.device), int(event.eventData)))
        except NvmlError as error:
            if error.code != codes.TIMEOUT:
                raise
        return found

    def pointer(self, handle: Handle) -> int:
        """See Library."""
        return int(ctypes.cast(handle, ctypes.c_void_p).value or 0)

    def _watched(self, handle: Handle, events: Any) -> bool:
        try:
            self._asked("nvmlDeviceRegisterEvents", pynvml.nvmlDeviceRegisterEvents, handle, codes.XID_EVENT, events)
        except NvmlError:
            return False
        return True

    def _asked(self, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Two errors of the binding are no NVMLError: a missing versioned symbol, and text that is not UTF-8."""
        try:
            return function(*arguments)
        except pynvml.NVMLError as error:
            raise NvmlError(name, int(error.value)) from error
        except pynvml.NVMLLibraryMismatchError as error:
            raise NvmlError(name, codes.FUNCTION_NOT_FOUND) from error
        except UnicodeDecodeError as error:
            raise NvmlError(name, codes.UNKNOWN) from error
