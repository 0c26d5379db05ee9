"""What the drivers of the ports count by ethtool, the modules' temperature, and the PCIe under the devices."""

import errno
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from exporter.hardware.base import EthtoolSource
from exporter.hardware.device import optional
from exporter.hardware.ethtool import Ethtool
from exporter.hardware.files import Files
from exporter.hardware.gathered import Absences, errno_name
from exporter.hardware.hwmon import celsius, module_sensor
from exporter.hardware.nic_counters import ALL_PRIORITIES, NicTable, nic_table
from exporter.hardware.pcie import path_bandwidth
from exporter.hardware.portmap import KnownPort, PortMap
from exporter.hardware.refusals import Refusals
from exporter.hardware.selection import Selection
from exporter.hardware.sysfs import REFRESH_SECONDS
from exporter.model import Fault, PciePath, PortDetail, PortDetails

SOURCE = "ethtool"
Values = Mapping[tuple[str, str], float]
log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Round:
    """What one reading gathers; `asked` and `foreign` count netdevs, the latter those of another namespace."""

    faults: list[Fault] = field(default_factory=list)
    asked: set[str] = field(default_factory=set)
    foreign: list[Fault] = field(default_factory=list)


class Details:
    """Reads ports by `ethtool`, and sysfs under `root`. `clock` is monotonic seconds."""

    def __init__(
        self, root: Path, selection: Selection, ethtool: EthtoolSource, files: Files, clock: Callable[[], float]
    ) -> None:
        self._root = str(root)
        self._files = files
        self._clock = clock
        self._map = PortMap(root, selection, files, clock)
        self._ethtool = Ethtool(ethtool)
        self._refusals = Refusals(clock)
        self._absences = Absences()
        self._in_use: dict[str, set[str]] = {}
        self._paths: tuple[PciePath, ...] = ()
        self._sensors: dict[str, str] = {}
        self._slow_read_at: float | None = None
        self._said = False

    def read(self) -> PortDetails:
        """See hardware.base.PortDetailSource."""
        ports = self._map.ports()
        if self._slow_read_at is None or self._clock() - self._slow_read_at >= REFRESH_SECONDS:
            self._slow_read(ports)
        found = _Round()
        details = tuple(self._port(port, found) for port in ports)
        self._ethtool.forget(found.asked)
        if found.foreign and len(found.foreign) == len(found.asked):
            self._say_namespace()
        else:
            found.faults += found.foreign
        return PortDetails(details, self._paths, self._absences.settled(found.faults))

    def _slow_read(self, ports: Iterable[KnownPort]) -> None:
        """What changes seldom: links are retrained, sensors come and go with modules."""
        links = {port.device.name: f"{self._root}/class/infiniband/{port.device.name}/device" for port in ports}
        paths = []
        for name, link in links.items():
            path = path_bandwidth(self._files, link)
            paths.append(PciePath(name, path.current, path.maximum))
        self._paths = tuple(paths)
        self._sensors = {
            port.device.name: module_sensor(self._files, links[port.device.name]) for port in ports if port.alone
        }
        self._slow_read_at = self._clock()

    def _port(self, port: KnownPort, found: _Round) -> PortDetail:
        sensor = self._sensors.get(port.device.name, "")
        temperature = celsius(optional(self._files, sensor)) if sensor else None
        table = nic_table(port.device.driver)
        counters: Values = {}
        gauges: Values = {}
        if table is not None and (netdevs := port.layout.slaves or _one(port.layout.netdev)) and self._may_ask(port):
            read = [self._netdev(port, netdev, table, found) for netdev in netdevs]
            whole = [values for values in read if values is not None]
            if len(whole) == len(read):  # a sum without one of its slaves would look like a counter that was reset
                counters, gauges = _merge(whole, table)
        return PortDetail(port.device, port.number, counters, gauges, temperature)

    def _may_ask(self, port: KnownPort) -> bool:
        """Not a port that belongs to the Fabric Manager: each of its refusals is a line in the kernel log."""
        counters = next((g.directory for g in port.layout.groups if g.directory.endswith("/counters")), "")
        if not counters:
            return True
        probe = f"{counters}/link_downed"
        if self._refusals.skip(probe):
            return False
        try:
            self._files.read(probe)
        except OSError as error:
            if error.errno == errno.EINVAL:
                self._refusals.note(probe)
                return False
        else:
            self._refusals.clear(probe)
        return True

    def _netdev(self, port: KnownPort, netdev: str, table: NicTable, found: _Round) -> Mapping[str, int] | None:
        """The driver's own numbers that count; None where they could not be read."""
        found.asked.add(netdev)
        try:
            bus = self._ethtool.bus_address(netdev).lower()
            if port.layout.slaves or bus in ("", port.device.pci_address):
                values = self._ethtool.statistics(netdev, table.rows)
                return values if table.enabled_only else self._used(netdev, values, table)
            # A recorded tree, or a container: a device of this network namespace has the same name by chance.
            found.foreign.append(Fault(SOURCE, port.subject, "enodev", f"{netdev} is another device here, {bus}"))
        except OSError as error:
            fault = Fault(SOURCE, port.subject, errno_name(error), f"{netdev}: {error.strerror}")
            (found.foreign if error.errno == errno.ENODEV else found.faults).append(fault)
        return None

    def _used(self, netdev: str, values: Mapping[str, int], table: NicTable) -> Mapping[str, int]:
        """Without the priorities of which no counter ever moved."""
        rows = table.rows
        moved = {rows[name].label for name, value in values.items() if value and rows[name].name.startswith("pfc_")}
        used = self._in_use.setdefault(netdev, {ALL_PRIORITIES})
        used |= moved
        return {
            name: value
            for name, value in values.items()
            if not rows[name].name.startswith("pfc_") or rows[name].label in used
        }

    def _say_namespace(self) -> None:
        if not self._said:
            log.info("ethtool: the ports' netdevs are not in this network namespace: a container needs the host's")
            self._said = True


def _one(netdev: str) -> tuple[str, ...]:
    return (netdev,) if netdev else ()


def _merge(read: Iterable[Mapping[str, int]], table: NicTable) -> tuple[Values, Values]:
    """Counters added and gauges' worst, in base units."""
    counters: dict[tuple[str, str], float] = {}
    gauges: dict[tuple[str, str], float] = {}
    for values in read:
        for name, raw in values.items():
            row = table.rows[name]
            value = raw if row.divisor is None else raw / row.divisor
            key = row.name, row.label
            if row.gauge:
                gauges[key] = max(gauges.get(key, 0.0), value)
            else:
                counters[key] = counters.get(key, 0) + value
    return counters, gauges
