"""The PCIe path under a device: how much it can carry now, and at most. From sysfs link attributes.

https://docs.kernel.org/admin-guide/abi-testing.html, `/sys/bus/pci/devices/.../{current,max}_link_{speed,width}`.
The slowest link of the path counts: a Gen5 x16 NIC behind an x8 riser is as slow as the riser, by design.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from exporter.hardware import parse
from exporter.hardware.files import Files

_SPEED = re.compile(rb"\s*(\d{1,3}(?:\.\d)?) GT/s(?: PCIe)?\s*")
LANE = {2.5: 0.25e9, 5.0: 0.5e9, 8.0: 0.985e9, 16.0: 1.97e9, 32.0: 3.94e9, 64.0: 7.56e9}
"""Usable bytes/s of one lane by transfer rate in GT/s, after line coding (PCIe base specification)."""
WIDTHS = frozenset({1, 2, 4, 8, 12, 16, 32})
"""Anything else is no width: 0 and 63 are a link that is down, 255 a device that is gone."""
MAX_HOPS = 32


@dataclass(frozen=True, slots=True)
class PathBandwidth:
    """Usable bytes/s of the slowest link up to the root, each way; None where that can't be known."""

    current: float | None
    maximum: float | None


def path_bandwidth(files: Files, link: str) -> PathBandwidth:
    """The path above the device that `link` leads to; that of its physical function for a virtual one.

    None where the device itself, or a link above it that should know, says no speed and width. A bridge
    without link attributes (conventional PCI, a host bridge) is no link, and left out.
    """
    physical = f"{link}/physfn"
    start = os.path.realpath(physical if os.path.lexists(physical) else link)
    return PathBandwidth(_slowest(files, start, "current"), _slowest(files, start, "max"))


def _slowest(files: Files, start: str, which: str) -> float | None:
    slowest: float | None = None
    for hop in _hops(start):
        try:
            speed = files.read(f"{hop}/{which}_link_speed")
            width = files.read(f"{hop}/{which}_link_width")
        except FileNotFoundError:
            if hop == start:
                return None
            continue
        except OSError:
            return None  # EINVAL: the link's registers can't be read
        carried = bandwidth(speed, width)
        if carried is None:
            return None
        slowest = carried if slowest is None else min(slowest, carried)
    return slowest


def _hops(start: str) -> Iterator[str]:
    """The device's folder and those of the bridges above it."""
    hop = start
    for _ in range(MAX_HOPS):
        folder, _, name = hop.rpartition("/")
        if not parse.pci_address(name):
            return
        yield hop
        hop = folder


def bandwidth(speed: bytes, width: bytes) -> float | None:
    """Usable bytes/s of one link: `32.0 GT/s PCIe` and `16` are 63 GB/s; None for `Unknown` and no width."""
    match = _SPEED.fullmatch(speed)
    lanes = parse.number(width)
    if not match or lanes not in WIDTHS:
        return None
    lane = LANE.get(float(match[1]))
    return None if lane is None else lane * lanes
