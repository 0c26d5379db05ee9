"""RDMA ports from a sysfs tree: the machine's own `/sys`, or a recorded or simulated one.

Reading never fails as a whole for one bad file: what does not answer is a Fault beside everything that does.
"""

import errno
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from exporter.hardware import parse
from exporter.hardware.affinity import GpuFunctions, nearest
from exporter.hardware.device import CounterFile, CounterGroup, PortLayout, device, optional, port_layout, port_numbers
from exporter.hardware.files import Files
from exporter.hardware.gathered import MAX_VENDOR_SERIES, Absences, Round, Values, errno_name
from exporter.hardware.refusals import Refusals
from exporter.hardware.selection import Selection
from exporter.model import ACTIVE, Device, Port, Ports, SourceError, Unavailable

log = logging.getLogger(__name__)
Parsed = TypeVar("Parsed")
REFRESH_SECONDS = 60.0
MAX_PORTS = 16
"""A switchdev uplink shows a port for each virtual function, hundreds of them."""
GIVE_UP = 3
"""A group whose first files all answer EINVAL is not asked further in this poll."""
LIFESPAN_MARGIN = 0.8


@dataclass(slots=True)
class _Known:
    """A device as last found, and when that was; `netdevs` are those of its ports as found before."""

    identity: tuple[int, int, int]
    device: Device
    found_at: float
    numbers: list[int]
    netdevs: Mapping[int, str]
    layouts: dict[int, PortLayout] = field(default_factory=dict)


class SysfsPorts:
    """Reads `<root>/class/infiniband`; `proc` is for the default routes. `clock` is monotonic seconds."""

    def __init__(
        self,
        root: Path,
        proc: Path,
        selection: Selection | None = None,
        files: Files | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._root = str(root)
        self._proc = str(proc)
        self._gpus = GpuFunctions(root)
        self._selection = selection or Selection()
        self._files = files or Files()
        self._clock = clock
        self._refusals = Refusals(clock)
        self._absences = Absences()
        self._known: dict[str, _Known] = {}
        self._route: tuple[float, frozenset[str]] = (-REFRESH_SECONDS, frozenset())

    def read(self) -> Ports:
        """See hardware.base.PortSource."""
        base = f"{self._root}/class/infiniband"
        try:
            names = [name for name in self._files.names(base) if self._selection.device(name)]
        except (FileNotFoundError, NotADirectoryError):
            names = []
        except OSError as error:
            raise SourceError(errno_name(error), f"{base}: {error.strerror}") from error
        for gone in sorted(self._known.keys() - set(names)):
            log.warning("device=%s: gone", parse.name(gone))
            self._forget(f"{base}/{gone}", gone)
        if not names and not Path(self._root).is_dir():
            raise SourceError("enoent", f"paths.sysfs: {self._root} is no directory")
        if not names:
            raise Unavailable(f"{base}: no RDMA device")
        found = Round()
        ports = tuple(port for name in names for port in self._device(name, f"{base}/{name}", found))
        if found.vendor_series > MAX_VENDOR_SERIES:
            found.fault("node", "too_many_series", f"{found.vendor_series} chosen by vendor_counters")
        return Ports(ports, self._absences.settled(found.faults), self._default_route())

    def _device(self, name: str, path: str, found: Round) -> Iterator[Port]:
        label = parse.name(name)
        try:
            known = self._find(name, path)
        except OSError as error:
            found.failed(label, error, error.filename or path)
            return
        if len(known.numbers) > MAX_PORTS:
            found.fault(label, "too_many_ports", f"{len(known.numbers)} ports; the first {MAX_PORTS} are read")
        for number in known.numbers[:MAX_PORTS]:
            layout = known.layouts.get(number)
            if layout is None:
                layout = port_layout(
                    self._files,
                    self._root,
                    path,
                    number,
                    known.device,
                    len(known.numbers) == 1,
                    self._selection.vendor,
                )
                known.layouts[number] = layout
                self._forget_speeds((layout,))
                if known.netdevs.get(number, layout.netdev) != layout.netdev:
                    self._doubt()
            yield self._port(known.device, number, layout, found)

    def _find(self, name: str, path: str) -> _Known:
        """The device under this name; found anew if it is another one, and once a minute, descriptors and all."""
        identity = self._files.identity(path)
        known = self._known.get(name)
        if known is not None and known.identity != identity:
            self._forget(path, name)
            known = None
        if known is None or self._clock() - known.found_at >= REFRESH_SECONDS:
            self._files.forget(path)
            layouts = known.layouts if known else {}
            self._forget_speeds(layouts.values())
            numbers = port_numbers(self._files, path)
            near = nearest(os.path.realpath(f"{path}/device"), self._gpus.paths())
            found = replace(device(self._files, path), near_gpus=near)
            netdevs = {number: layout.netdev for number, layout in layouts.items()}
            known = _Known(identity, found, self._clock(), numbers, netdevs)
            self._known[name] = known
        return known

    def _forget(self, path: str, name: str) -> None:
        self._files.forget(path)
        self._refusals.forget(path)
        known = self._known.pop(name, None)
        self._forget_speeds(known.layouts.values() if known else ())

    def _doubt(self) -> None:
        """A netdev was renamed: others were too, if names were swapped. Every device is found anew."""
        for known in self._known.values():
            known.found_at = -REFRESH_SECONDS

    def _forget_speeds(self, layouts: Iterable[PortLayout]) -> None:
        """Close the speeds of the ports' netdevs, which lie outside of the device's folder.

        An open one goes on answering for the netdev that bore the name when it was opened.
        """
        for layout in layouts:
            self._files.release(layout.netdev_speed)

    def _port(self, owner: Device, number: int, layout: PortLayout, found: Round) -> Port:
        subject = f"{owner.name}/{number}"
        state = self._value(f"{layout.path}/state", parse.state, subject, found)
        physical = self._value(f"{layout.path}/phys_state", parse.state, subject, found)
        rate = self._value(f"{layout.path}/rate", parse.rate, subject, found) if state == ACTIVE else None
        negotiated = rate.bytes_per_second if rate else None
        if state == ACTIVE and layout.link_layer == "Ethernet" and layout.netdev_speed:
            negotiated = self._netdev_rate(layout.netdev_speed) or negotiated
        for path, error in layout.unlisted:
            found.failed(subject, error, path)
        values = Values(subject)
        for group in layout.groups:
            self._group(group, values, found)
        return Port(
            device=owner,
            number=number,
            link_layer=layout.link_layer,
            state=state,
            physical_state=physical,
            rate=negotiated,
            width=rate.width if rate else None,
            speed=rate.speed if rate else "",
            netdev=layout.netdev,
            slaves=layout.slaves,
            counters=values.counters,
            saturated=tuple(values.saturated),
            vendor=tuple(values.vendor),
        )

    def _value(self, path: str, parser: Callable[[bytes], Parsed | None], subject: str, found: Round) -> Parsed | None:
        """One attribute of a port; None, and a fault, where it does not answer or makes no sense."""
        if self._refusals and self._refusals.skip(path):
            return None
        try:
            raw = self._files.read(path)
        except OSError as error:
            self._unread(error, path, subject, found)
            return None
        self._answered(path)
        value = parser(raw)
        if value is None:
            found.fault(subject, "not_a_number", f"{path}: {parse.text(raw)!r}")
        return value

    def _unread(self, error: OSError, path: str, subject: str, found: Round) -> None:
        if error.errno == errno.EINVAL:
            self._refusals.note(path)
        found.failed(subject, error, path)

    def _answered(self, path: str) -> None:
        """Only refusals in a row are refusals for good."""
        if self._refusals:
            self._refusals.clear(path)

    def _netdev_rate(self, path: str) -> float | None:
        """EINVAL while the netdev is down and -1 where the driver can't tell are both normal."""
        try:
            return parse.netdev_rate(self._files.read(path))
        except OSError:
            return None

    def _default_route(self) -> frozenset[str]:
        """The netdevs of the default routes, looked up once a minute."""
        if self._clock() - self._route[0] >= REFRESH_SECONDS:
            self._route = self._clock(), self._read_route()
        return self._route[1]

    def _read_route(self) -> frozenset[str]:
        ipv4 = optional(self._files, f"{self._proc}/net/route")
        return parse.route_netdevs(ipv4) | parse.route6_netdevs(optional(self._files, f"{self._proc}/net/ipv6_route"))

    def _wanted(self, group: CounterGroup, values: Values) -> Iterable[CounterFile]:
        """The files of a directory without those whose name an earlier group gave, and those left alone for now."""
        files: Iterable[CounterFile] = group.files
        if not values.counters.keys().isdisjoint(group.names):
            earlier = frozenset(values.counters)
            files = [file for file in files if file.row is None or file.row.name not in earlier]
        if not self._refusals:
            return files
        if self._refusals.skip(group.directory):
            return ()
        return [file for file in files if not self._refusals.skip(file.path)]

    def _group(self, group: CounterGroup, values: Values, found: Round) -> None:
        """Read one directory's files; a name that an earlier group gave is not read again."""
        refused = 0
        answered = False
        refusals = self._refusals or None
        for file, raw in self._contents(self._wanted(group, values), group):
            if isinstance(raw, OSError):
                self._unread(raw, file.path, values.subject, found)
                refused += raw.errno == errno.EINVAL
                if refused == GIVE_UP and not answered:
                    self._refusals.note(group.directory)
                    return
                continue
            answered = True
            value = parse.number(raw)
            row = file.row
            if value is None:
                self._no_number(file.path, raw, values.subject, found)
                continue
            if refusals is not None:
                refusals.clear(file.path)
            if row is None:
                values.take_vendor(file, value, found)
            else:
                if value == row.ceiling:
                    values.saturated.append(file.name)
                values.counters[row.name] = values.counters.get(row.name, 0) + value * row.scale
        if answered:
            self._answered(group.directory)

    def _contents(
        self, files: Iterable[CounterFile], group: CounterGroup
    ) -> Iterator[tuple[CounterFile, bytes | OSError]]:
        """Read file after file, renewing the driver's cache before it grows old."""
        read = self._files.read
        primer, good_for = group.primer, group.lifespan * LIFESPAN_MARGIN
        primed = -good_for
        for file in files:
            if primer and time.monotonic() - primed > good_for:
                optional(self._files, primer)
                primed = time.monotonic()
            try:
                yield file, read(file.path)
            except OSError as error:
                yield file, error

    def _no_number(self, path: str, raw: bytes, subject: str, found: Round) -> None:
        """`N/A (no PMA)`, as kernels before 4.20 say it, is a refusal like EINVAL; anything else is a fault."""
        if raw.startswith(b"N/A"):
            self._refusals.note(path)
        found.fault(subject, "not_a_number", f"{path}: {parse.text(raw)!r}")
