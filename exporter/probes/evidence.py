"""What else happened while a probe ran: counters of its ports and NVLinks, throttling, the host's processors."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from exporter.hardware.base import GpuSource, HostSource, PortSource
from exporter.hardware.counters import WRAP_32, moduli, table
from exporter.history import delta
from exporter.model import CpuTimes, Port, SourceError, Unavailable
from exporter.probes.protocol import Flow

SENT = "transmit_bytes"
Counters = Mapping[str, Mapping[str, int]]
PEERMEM = ("nvidia_peermem", "nv_peer_mem")
WIRE_SHARE = 0.5
"""Share of a probe's bytes that its sender's port must have counted; less and they never left the machine."""
REGISTERS = (WRAP_32, 4 * WRAP_32)
"""Where a register of 32 bits ends that counts bytes, or words of four."""
FULL = 0.8
"""Share of such a register that a probe must send for the register to come round unseen: there are headers too."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Counters by subject (`mlx5_0/1`, `gpu0/link03`), seconds throttled by GPU and reason, the driver, processors.

    `wraps` is where counters of a port wrap, `stuck` those that stand at their ceiling and count no more.
    """

    counters: Counters = field(default_factory=dict)
    wraps: Counters = field(default_factory=dict)
    stuck: Mapping[str, frozenset[str]] = field(default_factory=dict)
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
        wraps: dict[str, Mapping[str, int]] = {}
        stuck: dict[str, frozenset[str]] = {}
        with contextlib.suppress(Unavailable, SourceError):
            for port in self.ports.read().ports:
                counters[port.subject] = port.counters
                wraps[port.subject] = moduli(port.device.driver)
                stuck[port.subject] = _stuck(port)
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
        return Reading(counters, wraps, stuck, throttled, driver, cpu)

    def gpudirect(self) -> str:
        """The module that lets a NIC reach GPU memory, where it is loaded (dma-buf needs none)."""
        loaded = (name for name in PEERMEM if (self.sysfs / "module" / name).is_dir())
        return next(loaded, "none")


def between(before: Reading, after: Reading) -> dict[str, Any]:
    """What moved, as JSON has it: of counters of errors what grew, of bytes all that moved."""
    moved: dict[str, dict[str, int]] = {}
    for subject, counters in after.counters.items():
        for name, value in counters.items():
            wraps = after.wraps.get(subject, {}).get(name)
            change = delta(before.counters.get(subject, {}).get(name), value, wraps)
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


def stayed_inside(before: Reading, after: Reading, flows: Sequence[Flow]) -> list[str]:
    """The senders whose ports have not counted what they are said to have sent."""
    sent: dict[str, int] = {}
    for flow in flows:
        sent[flow.source] = sent.get(flow.source, 0) + flow.moved
    return [source for source, moved in sent.items() if not left_the_machine(before, after, source, moved)]


def left_the_machine(before: Reading, after: Reading, source: str, moved: int) -> bool:
    """Whether a port's own counter saw what it is said to have sent.

    True where that can't be told: the counter is absent, stands at its ceiling, began anew, or may have come round.
    """
    earlier, later = (reading.counters.get(source, {}).get(SENT) for reading in (before, after))
    wraps = after.wraps.get(source, {}).get(SENT)
    counted = delta(earlier, later, wraps).amount
    if earlier is None or later is None or counted is None:
        return True
    if any(SENT in reading.stuck.get(source, ()) for reading in (before, after)):
        return True
    ends = (wraps,) if wraps else tuple(end for end in REGISTERS if max(earlier, later) < end)
    return counted >= WIRE_SHARE * moved or any(moved >= FULL * end for end in ends)


def _stuck(port: Port) -> frozenset[str]:
    """The names of the counters that stand at their ceiling."""
    if not port.saturated:
        return frozenset()
    rows = (group.get(file) for group in table(port.device.driver).values() for file in port.saturated)
    return frozenset(row.name for row in rows if row is not None)
