"""Simulated netdevs at the level of the ioctl: the structures that the kernel would fill, so that the decoder runs."""

import errno
import os
import struct
from collections.abc import Callable, Mapping, Sequence

from exporter.hardware.ethtool import (
    BUS_OFFSET,
    GET_DRIVER_INFO,
    GET_SET_INFO,
    GET_STATISTICS,
    GET_STRINGS,
    NAME_BYTES,
    STATISTICS_SET,
)
from exporter.hardware.parse import BYTES_PER_MEGABIT
from exporter.hardware.scenario_nics import Nic
from exporter.hardware.scenarios import Scenario, Value

Row = tuple[str, Value]
LOSSLESS = 3
"""The priority that RoCE commonly runs on, the only one with PFC here."""


class SimulatedEthtool:
    """Answers for the netdevs of a scenario; `elapsed` is its time."""

    def __init__(self, scenario: Scenario, elapsed: Callable[[], float]) -> None:
        self._nics = {nic.netdev: nic for nic in scenario.nics if nic.netdev}
        self._changes = scenario.ethtool
        self._elapsed = elapsed

    def ioctl(self, netdev: str, request: bytearray) -> None:
        """See hardware.base.EthtoolSource."""
        nic = self._nics.get(netdev)
        if nic is None:
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV), netdev)
        rows = statistics(nic, self._changes)
        answer(request, nic.driver, nic.pci, rows, self._elapsed())


def answer(request: bytearray, driver: str, bus: str, rows: Sequence[Row], now: float) -> None:
    """Fill a command's structure as the kernel does (include/uapi/linux/ethtool.h); it must have room."""
    command = struct.unpack_from("=I", request)[0]
    if command == GET_DRIVER_INFO:
        struct.pack_into("=32s", request, 4, driver.encode())
        struct.pack_into("=32s", request, BUS_OFFSET, bus.encode())
    elif command == GET_SET_INFO:
        struct.pack_into("=IIQI", request, 0, command, 0, 1 << STATISTICS_SET if rows else 0, len(rows))
    elif command == GET_STRINGS:
        struct.pack_into("=I", request, 8, len(rows))
        for position, (name, _) in enumerate(rows):
            struct.pack_into(f"={NAME_BYTES}s", request, 12 + position * NAME_BYTES, name.encode())
    elif command == GET_STATISTICS:
        struct.pack_into(f"=I{len(rows)}Q", request, 4, len(rows), *(_at(value, now) for _, value in rows))
    else:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))


def statistics(nic: Nic, changes: Mapping[str, Value]) -> Sequence[Row]:
    """What the driver of a NIC names, in its order; none for a driver whose names are not simulated."""
    rows = _mlx5(nic) if nic.driver == "mlx5_core" else []
    return [(name, changes.get(f"{nic.device}/{name}", value)) for name, value in rows]


def _mlx5(nic: Nic) -> list[Row]:
    bits = nic.speed * BYTES_PER_MEGABIT * 8
    channels = [(f"{way}{index}_packets", 1000 + index) for index in range(8) for way in ("rx", "tx")]
    pauses: list[Row] = []
    if nic.link_layer == "Ethernet":
        for way in ("rx", "tx"):
            pauses += [
                (f"{way}_prio{LOSSLESS}_pause", 0),
                (f"{way}_prio{LOSSLESS}_pause_duration", 0),
            ]
        pauses += [("tx_pause_storm_warning_events ", 0), ("tx_pause_storm_error_events", 0)]
    return [
        ("rx_packets", 81_000),
        ("rx_out_of_buffer", 0),
        ("rx_pause_ctrl_phy", 0),
        ("tx_pause_ctrl_phy", 0),
        ("rx_discards_phy", 0),
        ("tx_discards_phy", 0),
        ("link_down_events_phy", 1),
        ("rx_bits_phy", lambda t: int((86_400 + t) * bits)),
        ("rx_pcs_symbol_err_phy", 0),
        ("rx_corrected_bits_phy", lambda t: int((86_400 + t) * bits * 1e-9)),
        ("outbound_pci_stalled_rd", 0),
        ("outbound_pci_stalled_wr", 0),
        *pauses,
        *channels,
    ]


def _at(value: Value, now: float) -> int:
    return int(value(now)) if callable(value) else int(value)
