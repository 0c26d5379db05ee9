"""Small sysfs trees of our own values, and a reader that records or refuses."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from exporter.hardware.files import Files
from exporter.hardware.selection import Selection
from exporter.hardware.sysfs import SysfsPorts
from exporter.model import Port

ACTIVE: Mapping[str, str] = {
    "ports/1/state": "4: ACTIVE",
    "ports/1/phys_state": "5: LinkUp",
    "ports/1/rate": "400 Gb/sec (4X NDR)",
    "ports/1/link_layer": "InfiniBand",
}
COUNTERS: Mapping[str, str] = {
    "ports/1/counters/port_rcv_data": "2221223609",
    "ports/1/counters/port_xmit_data": "1000",
    "ports/1/counters/port_rcv_packets": "77",
    "ports/1/counters/symbol_error": "0",
    "ports/1/counters/link_downed": "3",
}
HEALTHY: Mapping[str, str] = {**ACTIVE, **COUNTERS, "hca_type": "MT4129", "board_id": "MT_0000000838"}


@dataclass
class Clock:
    """Monotonic seconds, moved by hand."""

    now: float = 0.0

    def __call__(self) -> float:
        """The time."""
        return self.now


@dataclass
class Recorder(Files):
    """Files that note every path they touch; `errnos` are reads that fail, by the end of the path."""

    errnos: Mapping[str, int] = field(default_factory=dict)
    reads: list[str] = field(default_factory=list)
    touched: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(budget=1000)

    def read(self, path: str) -> bytes:
        """As Files.read, noted, or failing."""
        self.reads.append(path)
        self.touched.append(path)
        for end, number in self.errnos.items():
            if path.endswith(end):
                raise OSError(number, os.strerror(number), path)
        return super().read(path)

    def names(self, path: str) -> Sequence[str]:
        """As Files.names, noted."""
        self.touched.append(path)
        return super().names(path)

    def identity(self, path: str) -> tuple[int, int, int]:
        """As Files.identity, noted."""
        self.touched.append(path)
        return super().identity(path)


def plant(root: Path, devices: Mapping[str, Mapping[str, str | bytes]], driver: str = "mlx5_core") -> Path:
    """Devices under `root/class/infiniband`, each with a PCI function of its own; returns the class folder.

    `driver` '' leaves out the device link, as recorded trees and software devices have it.
    """
    base = root / "class/infiniband"
    base.mkdir(parents=True, exist_ok=True)
    for index, (name, files) in enumerate(devices.items()):
        device = base / name
        for file, content in files.items():
            put(device / file, content)
        if driver:
            function = root / f"devices/pci0000:00/0000:{index + 16:02x}:00.0"
            put(function / "uevent", f"DRIVER={driver}\nPCI_SLOT_NAME=x\n")
            (device / "device").symlink_to(function)
    return base


def put(path: Path, content: str | bytes) -> None:
    """A file and its folders; text gets the kernel's newline."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else f"{content}\n".encode())


def reader(
    root: Path, selection: Selection | None = None, files: Files | None = None, clock: Clock | None = None
) -> SysfsPorts:
    """The real reader on a planted tree."""
    return SysfsPorts(root, root / "proc", selection or Selection(), files or Files(1000), clock or Clock())


def by_subject(ports: Sequence[Port]) -> dict[str, Port]:
    """The ports by `mlx5_0/1`."""
    return {port.subject: port for port in ports}


def empty_machine(root: Path) -> Path:
    """The configuration, with probes on, of a machine of empty folders under `root`, made."""
    for name in ("sys", "proc/2", "state"):
        (root / name).mkdir(parents=True)
    (root / "proc" / "2" / "comm").write_text("kthreadd\n")  # the host's, so that no Slurm is none
    path = root / "eastwest.yml"
    paths = ", ".join(f"{key}: {root / name}" for key, name in (("proc", "proc"), ("state", "state"), ("sysfs", "sys")))
    path.write_text(f"paths: {{{paths}}}\nprobes: {{enabled: true}}\n")
    return path
