"""What else happened while a probe ran: counters of its ports and NVLinks, throttling, the host's processors."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from exporter.hardware.base import GpuSource, HostSource, PortSource
from exporter.history import delta
from exporter.model import CpuTimes, SourceError, Unavailable

Counters = Mapping[str, Mapping[str, int]]
PEERMEM = ("nvidia_peermem", "nv_peer_mem")
BYTES = frozenset({"receive_bytes", "transmit_bytes"})
WIRE_SHARE = 0.5
"""Share of a probe's bytes that its sender's port must have counted; less and they never left the machine."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Counters by subject (`mlx5_0/1`, `gpu0/link03`), seconds throttled by GPU and reason, the driver, processors."""

    counters: Counters = field(default_factory=dict)
    throttled: Mapping[str, float] = field(default_factory=dict)
    driver: str = ""
    cpu: CpuTimes | None = None


@dataclass(frozen=True, slots=True)
class Witness:
    """Reads before and after. What can't be read is not in it: evidence is no condition."""

    ports: PortSource
    gpus: GpuSource
    host: HostSource
    sysfs: Path = Path("/sys")

    def read(self) -> Reading:
        """Everything, now."""
        counters: dict[str, Mapping[str, int]] = {}
        throttled: dict[str, float] = {}
        driver, cpu = "", None
        with contextlib.suppress(Unavailable, SourceError):
            counters.update({port.subject: port.counters for port in self.ports.read().ports})
        try:
            for gpu in self.gpus.read().gpus:
                driver = gpu.driver_version or driver
                throttled.update({f"{gpu.subject} {reason}": seconds for reason, seconds in gpu.throttle.items()})
                for link in gpu.links:
                    moved = {"receive_bytes": link.receive_bytes, "transmit_bytes": link.transmit_bytes, **link.errors}
                    known = {name: value for name, value in moved.items() if value is not None}
                    counters[f"{gpu.subject}/link{link.number:02}"] = known
        except (Unavailable, SourceError):
            pass
        with contextlib.suppress(SourceError):
            cpu = self.host.cpu_times()
        return Reading(counters, throttled, driver, cpu)

    def gpudirect(self) -> str:
        """The module that lets a NIC reach GPU memory, where it is loaded (dma-buf needs none)."""
        loaded = (name for name in PEERMEM if (self.sysfs / "module" / name).is_dir())
        return next(loaded, "none")


def between(before: Reading, after: Reading) -> dict[str, Any]:
    """What moved, as JSON has it: of counters of errors what grew, of bytes all that moved."""
    moved: dict[str, dict[str, int]] = {}
    for subject, counters in after.counters.items():
        for name, value in counters.items():
            change = delta(before.counters.get(subject, {}).get(name), value)
            if change.amount:
                moved.setdefault(subject, {})[name] = change.amount
    found: dict[str, Any] = {"counters": moved}
    slowed = {name: seconds - before.throttled.get(name, seconds) for name, seconds in after.throttled.items()}
    if any(seconds > 0 for seconds in slowed.values()):
        found["throttled_seconds"] = {name: round(seconds, 3) for name, seconds in slowed.items() if seconds > 0}
    if before.cpu and after.cpu and (total := after.cpu.total - before.cpu.total) > 0:
        found["cpu"] = {
            "steal": round(max(0.0, after.cpu.steal - before.cpu.steal) / total, 4),
            "softirq": round(max(0.0, after.cpu.softirq - before.cpu.softirq) / total, 4),
        }
    if after.driver:
        found["driver"] = after.driver
    return found


def left_the_machine(found: Mapping[str, Any], before: Reading, source: str, moved: int) -> bool:
    """Whether a port's own counter saw what it is said to have sent; True where it counts no bytes at all."""
    if "transmit_bytes" not in before.counters.get(source, {}):
        return True
    counted = found["counters"].get(source, {}).get("transmit_bytes", 0)
    return bool(counted >= WIRE_SHARE * moved)
