"""A session with NVML in the worker: opened once, opened anew when the driver went away, every GPU by itself."""

import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from exporter.hardware import nvml_codes as codes
from exporter.hardware.nvml import Library, NvmlError
from exporter.hardware.nvml_fields import GoneError
from exporter.hardware.nvml_gpu import GpuReader, Level

PAUSE = 60.0
"""Seconds until a lost GPU is asked again (on a wedged one each call may take 45 s), or all are opened anew."""


@dataclass(slots=True)
class _Slot:
    """One of NVML's indices: its reader, or why there is none."""

    index: int
    reader: GpuReader | None = None
    failed: tuple[str, int] | None = None
    again: float = 0.0
    uuid: str = ""
    pointer: int = 0
    watched: bool = False


@dataclass(slots=True)
class _Open:
    """What an open session holds."""

    driver: str = ""
    slots: list[_Slot] = field(default_factory=list)
    events: Any = None


class Session:
    """Gives messages; `clock` is monotonic seconds, `say` for what is worth saying once."""

    def __init__(self, library: Library, level: Level, clock: Callable[[], float], say: Callable[[str], None]) -> None:
        self._library = library
        self._level = level
        self._clock = clock
        self._say = say
        self._said: set[str] = set()
        self._open: _Open | None = None
        self._reopen_at = 0.0
        self._xids: Counter[tuple[str, int]] = Counter()

    def read(self) -> Mapping[str, Any]:
        """Everything, now: `init` is 0, or why NVML could not be opened."""
        message = self._read()
        failing = [gpu["lost"] for gpu in message["gpus"] if "lost" in gpu]
        everything = bool(failing) and len(failing) == len(message["gpus"])
        if not codes.GONE.isdisjoint(failing) or (everything and self._clock() >= self._reopen_at):
            self._reopen_at = self._clock() + PAUSE
            self.close()
            message = self._read()
        return message

    def close(self) -> None:
        """End the session; the counts of Xids stay."""
        if self._open is not None:
            self._open = None
            self._library.close()

    def _read(self) -> Mapping[str, Any]:
        try:
            session = self._open or self._start()
        except NvmlError as error:
            self.close()
            return {"init": error.code, "call": error.call, "driver": "", "gpus": [], "xids": [], "watched": []}
        gpus = [message for slot in session.slots if (message := self._slot(slot)) is not None]
        self._count_events(session)
        return {
            "init": codes.SUCCESS,
            "call": "",
            "driver": session.driver,
            "gpus": gpus,
            "xids": [(uuid, xid, count) for (uuid, xid), count in self._xids.items()],
            "watched": [slot.uuid for slot in session.slots if slot.watched and slot.uuid],
        }

    def _start(self) -> _Open:
        self._library.open()
        session = self._open = _Open(driver=str(self._library.call("nvmlSystemGetDriverVersion")))
        handles: list[Any] = []
        readers: list[_Slot] = []
        for index in range(int(self._library.call("nvmlDeviceGetCount"))):
            try:
                handle = self._library.call("nvmlDeviceGetHandleByIndex", index)
            except NvmlError as error:
                # NVML counts GPUs that this container or user may not use
                if error.code != codes.NO_PERMISSION:
                    session.slots.append(_Slot(index, failed=(error.call, error.code)))
                continue
            reader = GpuReader(self._library, index, handle, self._level, self._once)
            slot = _Slot(index, reader, pointer=self._library.pointer(handle))
            session.slots.append(slot)
            readers.append(slot)
            handles.append(handle)
        self._watch(session, readers, handles)
        return session

    def _watch(self, session: _Open, slots: list[_Slot], handles: list[Any]) -> None:
        try:
            session.events, taken = self._library.watch(handles)
        except NvmlError as error:
            self._once(f"Xid errors are not counted: {error}")
            return
        for slot, watched in zip(slots, taken, strict=True):
            slot.watched = watched

    def _slot(self, slot: _Slot) -> Mapping[str, Any] | None:
        """One GPU; whatever goes wrong with it, the others go on."""
        if slot.reader is not None and self._clock() >= slot.again:
            try:
                message = slot.reader.read()
            except (GoneError, NvmlError) as error:
                slot.failed, slot.again = (error.call, error.code), self._clock() + PAUSE
            except Exception as bug:  # noqa: BLE001 - a bug met on one GPU must not take the others with it
                self._once(f"gpu{slot.index}: a bug, please report it\n{''.join(traceback.format_exception(bug))}")
                slot.failed, slot.again = (f"{type(bug).__name__}: {bug}", codes.UNKNOWN), self._clock() + PAUSE
            else:
                slot.failed, slot.uuid = None, slot.reader.uuid
                return message
        call, code = slot.failed or ("", codes.UNKNOWN)
        return {"index": slot.index, "uuid": slot.uuid, "lost": code, "faults": [(call, code, -1)]}

    def _count_events(self, session: _Open) -> None:
        if session.events is None:
            return
        try:
            events = self._library.events(session.events)
        except NvmlError as error:
            if error.code not in codes.GONE:
                self._once(f"Xid errors can't be read: {error}")
            return
        uuids = {slot.pointer: slot.uuid for slot in session.slots if slot.uuid}
        for pointer, xid in events:
            if pointer in uuids:
                self._xids[uuids[pointer], xid] += 1

    def _once(self, what: str) -> None:
        if what not in self._said:
            self._said.add(what)
            self._say(what)
