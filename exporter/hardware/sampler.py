"""Byte counters of ports, sampled many times a second: bursts that a 5 s average hides.

Each read is a firmware command on a real NIC. However long the reads take, they take at most a hundredth of the
wall time: a slow NIC is sampled less often, not harder.
"""

import time
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock, Thread

from exporter.hardware import parse
from exporter.hardware.device import CounterFile, optional
from exporter.hardware.files import Files
from exporter.hardware.portmap import KnownPort, PortMap
from exporter.hardware.selection import Selection
from exporter.model import ACTIVE, BURST_BOUNDS, BurstDirection, BurstReading, Device

DUTY = 0.01
MAX_STRETCH = 10
"""A sample that spans more than so many intervals says nothing of bursts, and is not counted."""
IDLE_SECONDS = 120.0
"""Sampling ends when nobody has read for so long: the check is gone."""
NAMES = ("receive_bytes", "transmit_bytes")


@dataclass(frozen=True, slots=True)
class Target:
    """A port to sample: the files of each direction, whose values are added, and its rate in bytes/s."""

    files: tuple[tuple[CounterFile, ...], tuple[CounterFile, ...]]
    rate: float | None


@dataclass(slots=True)
class _Track:
    """What was sampled of one direction of one port."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BURST_BOUNDS) + 1))
    total: float = 0.0
    peak: float | None = None
    last: tuple[float, int] | None = None

    def sample(self, at: float, value: int, rate: float | None, longest: float) -> None:
        """One more reading: `at` is monotonic seconds, `value` the counter in bytes."""
        before, self.last = self.last, (at, value)
        if before is None or value < before[1] or not 0 < at - before[0] <= longest:
            return
        per_second = (value - before[1]) / (at - before[0])
        self.peak = per_second if self.peak is None else max(self.peak, per_second)
        if rate:
            self.counts[bisect_left(BURST_BOUNDS, per_second / rate)] += 1
            self.total += per_second / rate

    def take(self) -> BurstDirection:
        """What there is; the peak begins anew."""
        peak, self.peak = self.peak, None
        return BurstDirection(tuple(self.counts), self.total, peak)


class Sampler:
    """Samples targets; `step` is one round. `clock` is monotonic seconds."""

    def __init__(self, files: Files, interval: float, clock: Callable[[], float]) -> None:
        self._files = files
        self._interval = interval
        self._clock = clock
        self._lock = Lock()
        self._targets: Mapping[tuple[str, int], Target] = {}
        self._tracks: dict[tuple[str, int], tuple[_Track, _Track]] = {}
        self._began: tuple[float, float] | None = None

    def aim(self, targets: Mapping[tuple[str, int], Target]) -> None:
        """Sample these from now on; what was sampled of others is dropped."""
        with self._lock:
            self._targets = targets
            self._tracks = {key: self._tracks.get(key, (_Track(), _Track())) for key in targets}

    def step(self) -> float:
        """Read each target once; returns the seconds to wait before the next round."""
        began = self._clock()
        with self._lock:
            targets = self._targets
            self._began = (self._began[1] if self._began else began), began
        for key, target in targets.items():
            for direction, files in enumerate(target.files):
                value = self._read(files)
                at = self._clock()
                with self._lock:
                    if (tracks := self._tracks.get(key)) is None:
                        continue
                    track = tracks[direction]
                    if value is None:
                        track.last = None
                    else:
                        track.sample(at, value, target.rate, self._interval * MAX_STRETCH)
        spent = self._clock() - began
        return max(self._interval, spent / DUTY) - spent

    def take(self) -> tuple[BurstReading, ...]:
        """What was sampled so far."""
        with self._lock:
            apart = self._began[1] - self._began[0] if self._began else 0.0
            return tuple(
                BurstReading(device, number, receive.take(), transmit.take(), apart or None)
                for (device, number), (receive, transmit) in self._tracks.items()
            )

    def _read(self, files: Sequence[CounterFile]) -> int | None:
        """The counter in bytes; None where a part of it can't be read, or it is stuck."""
        total = 0
        for file in files:
            value = parse.number(optional(self._files, file.path))
            if value is None or file.row is None or value == file.row.ceiling:
                return None
            total += value * file.row.scale
        return total


class Bursts:
    """Finds the wanted ports and samples them on a thread of its own, as long as somebody reads."""

    def __init__(self, root: Path, selection: Selection, files: Files, interval: float) -> None:
        self._files = files
        self._map = PortMap(root, selection, files, time.monotonic)
        # The sampler's files are its own: a descriptor that one thread drops must not be read by another.
        self.sampler = Sampler(Files(budget=64), interval, time.monotonic)
        self._read_at = 0.0
        self._thread: Thread | None = None

    def read(self, wanted: Callable[[Device, int], bool]) -> tuple[BurstReading, ...]:
        """See hardware.base.BurstSource."""
        self.sampler.aim(targets(self._map.ports(), self._files, wanted))
        self._read_at = time.monotonic()
        if self._thread is None or not self._thread.is_alive():
            self._thread = Thread(target=self._run, name="burst-sampler", daemon=True)
            self._thread.start()
        return self.sampler.take()

    def _run(self) -> None:
        pause = Event()
        while time.monotonic() - self._read_at < IDLE_SECONDS:
            pause.wait(self.sampler.step())


def targets(
    ports: Sequence[KnownPort], files: Files, wanted: Callable[[Device, int], bool]
) -> Mapping[tuple[str, int], Target]:
    """The wanted ports that count bytes in both directions."""
    found = {}
    for port in ports:
        if not wanted(port.device, port.number):
            continue
        receive, transmit = (_files_of(port, name) for name in NAMES)
        if receive and transmit:
            found[port.device.name, port.number] = Target((receive, transmit), _rate(port, files))
    return found


def _files_of(port: KnownPort, name: str) -> tuple[CounterFile, ...]:
    group = next((group for group in port.layout.groups if name in group.names), None)
    return tuple(file for file in group.files if file.row and file.row.name == name) if group else ()


def _rate(port: KnownPort, files: Files) -> float | None:
    """Bytes/s as the port negotiated it; None while it is not ACTIVE."""
    if parse.state(optional(files, f"{port.layout.path}/state")) != ACTIVE:
        return None
    speed = port.layout.netdev_speed if port.layout.link_layer == "Ethernet" else ""
    rate = parse.rate(optional(files, f"{port.layout.path}/rate"))
    return (parse.netdev_rate(optional(files, speed)) if speed else None) or (rate.bytes_per_second if rate else None)
