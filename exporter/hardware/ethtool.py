"""Ethtool statistics by ioctl: unprivileged, without a program. Asks and decodes; nic_counters.py knows the names.

Structures and commands: include/uapi/linux/ethtool.h. One reading of a ConnectX netdev is some dozens of firmware
commands under the kernel's RTNL lock: not a thing to do every second.
"""

import ctypes
import errno
import fcntl
import os
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from exporter.hardware.base import EthtoolSource

SIOCETHTOOL = 0x8946
GET_DRIVER_INFO, GET_STRINGS, GET_STATISTICS, GET_SET_INFO = 0x03, 0x1B, 0x1D, 0x37
STATISTICS_SET = 1
NAME_BYTES = 32
DRIVER_INFO_BYTES = 196
BUS_OFFSET = 100
SLACK = 8192
"""Entries of room beyond the count asked for.

Kernels before 6.19 copy as many values as the driver has by then, whatever room there is: the count grows when a
priority or channels are enabled.
"""
MAX_COUNT = 1 << 16
TRIES = 3


class ChangingError(OSError):
    """The driver's list of names changed while it was read."""

    def __init__(self, netdev: str) -> None:
        super().__init__(errno.EAGAIN, f"{netdev}: the list of statistics keeps changing")


class KernelEthtool:
    """The machine's own netdevs, those of this process' network namespace."""

    def ioctl(self, netdev: str, request: bytearray) -> None:
        """See hardware.base.EthtoolSource."""
        name = os.fsencode(netdev)
        if not 0 < len(name) < 16 or b"\0" in name:
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV), netdev)
        buffer = (ctypes.c_char * len(request)).from_buffer(request)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as descriptor:
            fcntl.ioctl(descriptor, SIOCETHTOOL, struct.pack("16sP16x", name, ctypes.addressof(buffer)))


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where the wanted names stand, as long as the driver gives exactly these names."""

    names: bytes
    positions: Mapping[str, int]


class Ethtool:
    """Reads chosen statistics of netdevs. Errors are OSError with the kernel's errno."""

    def __init__(self, source: EthtoolSource) -> None:
        self._source = source
        self._layouts: dict[str, _Layout] = {}

    def bus_address(self, netdev: str) -> str:
        """The PCI address of the netdev's device as its driver says it, or ''."""
        request = bytearray(DRIVER_INFO_BYTES)
        struct.pack_into("=I", request, 0, GET_DRIVER_INFO)
        self._source.ioctl(netdev, request)
        return _name(bytes(request[BUS_OFFSET : BUS_OFFSET + NAME_BYTES]))

    def statistics(self, netdev: str, wanted: Mapping[str, object]) -> Mapping[str, int]:
        """The values of the names in `wanted` that the driver has.

        The names are read after the values and must be those the values were decoded by: a driver changes its
        list when a priority is enabled, and the count may be the same.
        """
        for _ in range(TRIES):
            count = self._count(netdev)
            if count == 0:
                self._layouts.pop(netdev, None)
                return {}
            before = self._layouts.get(netdev)
            values = self._values(netdev, count) if before is not None else ()
            names = self._names(netdev, count)
            if before is not None and before.names == names and len(values) == count:
                return {name: values[position] for name, position in before.positions.items()}
            self._layouts[netdev] = _Layout(names, _positions(names, wanted))
        raise ChangingError(netdev)

    def forget(self, keep: set[str]) -> None:
        """Drop what is known of every other netdev."""
        self._layouts = {netdev: layout for netdev, layout in self._layouts.items() if netdev in keep}

    def _count(self, netdev: str) -> int:
        request = bytearray(struct.pack("=IIQI", GET_SET_INFO, 0, 1 << STATISTICS_SET, 0))
        try:
            self._source.ioctl(netdev, request)
        except OSError as error:
            if error.errno == errno.EOPNOTSUPP:
                return 0
            raise
        _, _, mask, count = struct.unpack("=IIQI", request)
        return min(count, MAX_COUNT) if mask & (1 << STATISTICS_SET) else 0

    def _names(self, netdev: str, count: int) -> bytes:
        head = struct.pack("=III", GET_STRINGS, STATISTICS_SET, count)
        request = _room(head, count, NAME_BYTES)
        self._source.ioctl(netdev, request)
        given = struct.unpack_from("=I", request, 8)[0]
        return bytes(request[12 : 12 + min(given, count) * NAME_BYTES])

    def _values(self, netdev: str, count: int) -> tuple[int, ...]:
        head = struct.pack("=II", GET_STATISTICS, count)
        request = _room(head, count, 8)
        self._source.ioctl(netdev, request)
        given = struct.unpack_from("=I", request, 4)[0]
        return struct.unpack_from(f"={given}Q", request, 8) if given == count else ()


def _room(head: bytes, count: int, size: int) -> bytearray:
    return bytearray(head).ljust(len(head) + (2 * count + SLACK) * size, b"\0")


def _name(raw: bytes) -> str:
    """Some drivers pad a name with blanks; mlx5 once did so with one of its own."""
    return raw.split(b"\0", 1)[0].decode("utf-8", "replace").strip()


def _positions(names: bytes, wanted: Mapping[str, object]) -> Mapping[str, int]:
    """Where each wanted name stands; the first place counts where a name repeats."""
    found: dict[str, int] = {}
    for position in range(len(names) // NAME_BYTES):
        name = _name(names[position * NAME_BYTES : (position + 1) * NAME_BYTES])
        if name in wanted:
            found.setdefault(name, position)
    return found
