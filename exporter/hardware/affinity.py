"""Which GPU a NIC is near to: PCI functions of one root complex, by the bridges between them. From sysfs alone.

NVML knows nothing of NICs, so the resolved paths under /sys/devices are compared. Reading them touches no device.
"""

import os
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path

from exporter.hardware import parse
from exporter.hardware.device import names, optional
from exporter.hardware.files import Files

_NVIDIA = "10DE"
_DISPLAY_CLASSES = ("300", "302")
"""PCI classes 0x0300 (VGA) and 0x0302 (3D controller), as PCI_CLASS= of uevent writes them."""
NOT_OURS = frozenset({"vfio-pci", "pci-stub"})
"""Drivers that hold a GPU for a virtual machine."""


class GpuFunctions:
    """The NVIDIA GPUs under `<root>/bus/pci/devices`, found anew when a function comes or goes."""

    def __init__(self, root: Path) -> None:
        self._base = f"{root}/bus/pci/devices"
        self._files = Files()
        self._seen: tuple[str, ...] = ()
        self._paths: Mapping[str, str] = {}

    def paths(self) -> Mapping[str, str]:
        """Resolved path of each GPU, by PCI address."""
        functions = names(self._files, self._base)
        if functions != self._seen:
            self._seen = functions
            self._paths = {name: os.path.realpath(f"{self._base}/{name}") for name in functions if self._is_gpu(name)}
        return self._paths

    def numa_node(self, pci_address: str) -> int | None:
        """`numa_node` of a function; None where there is none. (NVML's own figure is that of the GPU's memory.)"""
        return parse.small_integer(optional(self._files, f"{self._base}/{pci_address}/numa_node"))

    def _is_gpu(self, name: str) -> bool:
        uevent = optional(self._files, f"{self._base}/{name}/uevent")
        vendor = parse.uevent(uevent, "PCI_ID").partition(":")[0].upper()
        display = parse.uevent(uevent, "PCI_CLASS")[:-2] in _DISPLAY_CLASSES
        return vendor == _NVIDIA and display and parse.uevent(uevent, "DRIVER") not in NOT_OURS


def nearest(function: str, gpus: Mapping[str, str]) -> tuple[str, ...]:
    """The PCI addresses of the GPUs that are nearest to a function, by resolved paths; none in its root complex: ().

    Nearest is by the number of bridges up to where both paths meet and down again.
    """
    distances = {address: hops for address, path in gpus.items() if (hops := _hops(function, path)) is not None}
    least = min(distances.values(), default=0)
    return tuple(sorted(address for address, hops in distances.items() if hops == least))


def _hops(one: str, other: str) -> int | None:
    """Steps from one to the other in the tree; None where they have not even the root complex in common."""
    first, second = _below_root(one), _below_root(other)
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))
    return len(first) + len(second) - 2 * shared if shared else None


def _below_root(path: str) -> list[str]:
    """`pci0000:15` and what follows it, of a resolved path."""
    parts = path.split("/")
    root = next((at for at, part in enumerate(parts) if part.startswith("pci")), len(parts))
    return parts[root:]
