"""A simulated node: real files under a temporary root, read by the real parsers.

Moving files are rewritten in place at fixed width, so that a held descriptor sees whole values. What a plain
file can't do (fail with an errno, never answer) is done one layer below the parsers, in Files.
"""

import os
import time
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Event
from typing import BinaryIO

from exporter.hardware.counters import BITS_32
from exporter.hardware.files import Files
from exporter.hardware.parse import BYTES_PER_MEGABIT
from exporter.hardware.scenario_nics import Nic
from exporter.hardware.scenarios import END, Fail, Hang, Scenario, Value, traffic
from exporter.hardware.selection import Selection
from exporter.hardware.sysfs import SysfsPorts
from exporter.model import CpuTimes, Ports

EPOCH = 1_767_225_600.0
"""Unix time of `t` = 0 on a scenario's own clock: 2026-01-01."""
WIDTH = 24
MTU = 4096
CPUS = 112
_ERROR_FILES = (
    "symbol_error",
    "link_error_recovery",
    "link_downed",
    "port_rcv_errors",
    "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors",
    "port_xmit_discards",
    "port_xmit_constraint_errors",
    "port_rcv_constraint_errors",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
    "VL15_dropped",
)
_MLX5_FILES = (
    "rx_write_requests",
    "rx_read_requests",
    "rx_atomic_requests",
    "rx_dct_connect",
    "out_of_buffer",
    "out_of_sequence",
    "duplicate_request",
    "rnr_nak_retry_err",
    "packet_seq_err",
    "implied_nak_seq_err",
    "local_ack_timeout_err",
    "resp_local_length_error",
    "resp_cqe_error",
    "req_cqe_error",
    "req_remote_invalid_request",
    "req_remote_access_errors",
    "resp_remote_access_errors",
    "resp_cqe_flush_error",
    "req_cqe_flush_error",
    "roce_adp_retrans",
    "roce_adp_retrans_to",
    "roce_slow_restart",
    "roce_slow_restart_cnps",
    "roce_slow_restart_trans",
    "rx_icrc_encapsulated",
)
_ROCE_FILES = (
    "rp_cnp_ignored",
    "rp_cnp_handled",
    "np_ecn_marked_roce_packets",
    "np_cnp_sent",
)


class SimulatedFiles(Files):
    """Files of which some fail or hang; `elapsed` is the scenario's time."""

    def __init__(self, failures: Mapping[str, Fail | Hang], elapsed: Callable[[], float]) -> None:
        super().__init__(budget=2048)
        self._failures = failures
        self._folders = tuple(path for path in failures if path.endswith("/"))
        self._elapsed = elapsed

    def read(self, path: str) -> bytes:
        """As Files.read, unless the scenario has it otherwise."""
        failure = self._failures.get(path)
        if failure is None and self._folders and path.startswith(self._folders):
            failure = next(self._failures[folder] for folder in self._folders if path.startswith(folder))
        if failure is not None and self._elapsed() >= failure.since:
            if isinstance(failure, Hang):
                Event().wait()
            else:
                raise OSError(failure.errno, os.strerror(failure.errno), path)
        return super().read(path)


class Simulation:
    """A scenario's tree under `root`, at any time from 0 on. Also its port and host sources.

    `elapsed` says what time it is in the scenario; the tree is brought up to that before each reading.
    """

    def __init__(self, scenario: Scenario, root: Path, elapsed: Callable[[], float]) -> None:
        self._elapsed = elapsed
        self.sysfs = root / "sys"
        self.proc = root / "proc"
        self._base = self.sysfs / "class/infiniband"
        self._moving: list[tuple[BinaryIO, Callable[[float], str | int], bytes]] = []
        (self.sysfs / "class/net").mkdir(parents=True)
        (self.proc / "net").mkdir(parents=True)
        for index, nic in enumerate(scenario.nics):
            self._build(nic, _files(index, nic), scenario.changes)
        self._write_route(scenario.nics)
        self.failures = {f"{self._base}/{path}": failure for path, failure in scenario.failures.items()}

    def advance(self) -> None:
        """Bring every moving file up to now."""
        now = self._elapsed()
        for position, (file, value, before) in enumerate(self._moving):
            content = _padded(value(now))
            if content != before:
                os.pwrite(file.fileno(), content, 0)
                self._moving[position] = file, value, content

    def _build(self, nic: Nic, files: Mapping[str, Value], changes: Mapping[str, Value]) -> None:
        function = self.sysfs / "devices" / f"pci{nic.pci[:7]}" / nic.pci
        device = function / "infiniband" / nic.device
        device.mkdir(parents=True)
        (function / "uevent").write_text(f"DRIVER={nic.driver}\nPCI_SLOT_NAME={nic.pci}\n")
        (function / "numa_node").write_text(f"{nic.numa}\n")
        if nic.pcie:
            for which, (speed, lanes) in {"current": nic.pcie_now or nic.pcie, "max": nic.pcie}.items():
                (function / f"{which}_link_speed").write_text(f"{speed}\n")
                (function / f"{which}_link_width").write_text(f"{lanes}\n")
        if nic.module is not None:
            sensors = function / "hwmon/hwmon1"
            sensors.mkdir(parents=True)
            for number, label, celsius in ((1, "asic", 61.0), (2, "Module0", nic.module)):
                (sensors / f"temp{number}_label").write_text(f"{label}\n")
                (sensors / f"temp{number}_input").write_text(f"{celsius * 1000:.0f}\n")
        (device / "device").symlink_to("../../../" + nic.pci)
        self._base.mkdir(parents=True, exist_ok=True)
        (self._base / nic.device).symlink_to(os.path.relpath(device, self._base))
        if nic.netdev:
            netdev = function / "net" / nic.netdev
            netdev.mkdir(parents=True)
            (netdev / "dev_port").write_text("0\n")
            (netdev / "speed").write_text(f"{nic.speed}\n")
            (self.sysfs / "class/net" / nic.netdev).symlink_to(os.path.relpath(netdev, self.sysfs / "class/net"))
        for name, value in files.items():
            key = f"{nic.device}/{name}"
            folder = f"{key.rpartition('/')[0]}/"
            self._write(device / name, changes.get(key, changes.get(folder, value)))

    def _write(self, path: Path, value: Value) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        if callable(value):
            content = _padded(value(self._elapsed()))
            path.write_bytes(content)
            file = path.open("r+b", buffering=0)
            weakref.finalize(self, file.close)
            self._moving.append((file, value, content))
        else:
            path.write_text(f"{value}\n")

    def _write_route(self, nics: tuple[Nic, ...]) -> None:
        header = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
        slowest = min((nic for nic in nics if nic.link_layer == "Ethernet"), key=lambda nic: nic.speed, default=None)
        row = f"{slowest.netdev}\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n" if slowest else ""
        (self.proc / "net/route").write_text(header + row)


class SimulatedPorts:
    """The real reader over the simulated tree."""

    def __init__(self, simulation: Simulation, selection: Selection, elapsed: Callable[[], float]) -> None:
        self._simulation = simulation
        files = SimulatedFiles(simulation.failures, elapsed)
        self._real = SysfsPorts(simulation.sysfs, simulation.proc, selection, files, elapsed)

    def read(self) -> Ports:
        """See hardware.base.PortSource."""
        self._simulation.advance()
        return self._real.read()


class SimulatedHost:
    """112 CPUs, a hundredth of their time in soft interrupts, none stolen."""

    def __init__(self, elapsed: Callable[[], float]) -> None:
        self._elapsed = elapsed

    def cpu_times(self) -> CpuTimes:
        """See hardware.base.HostSource."""
        total = CPUS * (100_000.0 + self._elapsed())
        return CpuTimes(total, 0.0, total / 100)


def elapsed_since(start: float, begins: float = END) -> Callable[[], float]:
    """A scenario's time in a daemon: `begins` at `start` (monotonic seconds), then as fast as the machine's."""
    return lambda: begins + time.monotonic() - start


def _files(index: int, nic: Nic) -> Mapping[str, Value]:
    port = "ports/1"
    files: dict[str, Value] = {
        "fw_ver": nic.firmware,
        "node_guid": f"a088:c203:00{index:02x}:{index:02x}90",
        f"{port}/state": "4: ACTIVE",
        f"{port}/phys_state": "5: LinkUp",
        f"{port}/rate": nic.rate,
        f"{port}/link_layer": nic.link_layer,
    }
    if nic.hca_type:
        files["hca_type"] = nic.hca_type
    if nic.board_id:
        files["board_id"] = nic.board_id
    groups = {
        f"{port}/counters": _pma(index, nic) if nic.pma else {},
        f"{port}/hw_counters": _hardware(index, nic),
    }
    return files | {f"{group}/{file}": value for group, rows in groups.items() for file, value in rows.items()}


def _bytes(index: int, nic: Nic, phase: float, words: int) -> Callable[[float], int]:
    per_second = nic.load * nic.speed * BYTES_PER_MEGABIT
    return traffic((7 + index) * 10**14 // words, per_second / words, phase)


def _pma(index: int, nic: Nic) -> Mapping[str, Value]:
    packets = nic.load * nic.speed * BYTES_PER_MEGABIT / MTU
    return {
        "port_rcv_data": _bytes(index, nic, 0.0, 4),
        "port_xmit_data": _bytes(index, nic, 0.4, 4),
        "port_rcv_packets": traffic((3 + index) * 10**11, packets, 0.0),
        "port_xmit_packets": traffic((3 + index) * 10**11, packets, 0.4),
        "port_xmit_wait": lambda t: min(BITS_32, int((5_000_000 + index * 90_000) + t * nic.load * 4000)),
        **dict.fromkeys(_ERROR_FILES, 0),
        "port_rcv_switch_relay_errors": index % 3,
    }


def _hardware(index: int, nic: Nic) -> Mapping[str, Value]:
    if nic.driver == "efa":
        packets = nic.load * nic.speed * BYTES_PER_MEGABIT / MTU
        return {
            "lifespan": 12,
            "rx_bytes": _bytes(index, nic, 0.0, 1),
            "tx_bytes": _bytes(index, nic, 0.4, 1),
            "rx_pkts": traffic(4 * 10**11, packets, 0.0),
            "tx_pkts": traffic(4 * 10**11, packets, 0.4),
            "rx_drops": 0,
            "retrans_pkts": 120 + index,
            "retrans_timeout_events": 0,
        }
    if nic.driver != "mlx5_core":
        return {}
    roce = _ROCE_FILES if nic.link_layer == "Ethernet" else ()
    return {"lifespan": 12, **dict.fromkeys([*_MLX5_FILES, *roce], 0), "rx_write_requests": 3_809_045_607}


def _padded(value: str | int) -> bytes:
    return f"{value:<{WIDTH}}\n".encode()
