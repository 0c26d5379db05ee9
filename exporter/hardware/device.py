"""What stands still about an RDMA device and its ports: read when it appears, and once a minute."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from exporter.hardware import parse
from exporter.hardware.counters import GROUPS, Group, Row, table
from exporter.hardware.files import Files
from exporter.model import Device

NDEV_SLOTS = 8
"""GID slots tried for a netdev: the first is in use wherever any is, and an empty one answers EINVAL."""
PRIMER = "rx_write_requests"
"""mlx5 renews its cached hw_counters only when the first of them is read (hw/mlx5/counters.c, since 5.16)."""
DEFAULT_LIFESPAN = 0.010
_PORT = re.compile(r"0|[1-9][0-9]{0,8}")
GAUGES = frozenset(
    {
        "active_pds",
        "active_ahs",
        "active_qps",
        "active_srqs",
        "active_cqs",
        "active_mrs",
        "active_mws",
        "num_qps_congested",
        "current_rate",
        "lifespan",
    }
)
"""hw_counters files that are not counters (bnxt_re, mana, the core)."""


@dataclass(frozen=True, slots=True)
class CounterFile:
    """A file to read at every poll; `row` is None for one chosen by `vendor_counters`."""

    group: Group
    name: str
    path: str
    row: Row | None


@dataclass(frozen=True, slots=True)
class CounterGroup:
    """The files of one directory, in reading order, and the canonical names they give.

    `primer` is the file that renews the driver's cache ('' where there is none), and `lifespan` how long that
    cache is good, in seconds.
    """

    directory: str
    files: tuple[CounterFile, ...]
    names: frozenset[str]
    primer: str
    lifespan: float


@dataclass(frozen=True, slots=True)
class PortLayout:
    """Where a port's values are; `slaves` are the netdevs under a bond.

    `unlisted` are folders of counters that are there and can't be listed.
    """

    path: str
    link_layer: str
    netdev: str
    slaves: tuple[str, ...]
    netdev_speed: str
    groups: tuple[CounterGroup, ...]
    unlisted: tuple[tuple[str, OSError], ...]


def optional(files: Files, path: str) -> bytes:
    """The content of a file that need not exist or answer: b'' then."""
    try:
        return files.read(path)
    except OSError:
        return b""


def names(files: Files, path: str) -> tuple[str, ...]:
    """The entries of a directory that need not exist."""
    try:
        return tuple(files.names(path))
    except OSError:
        return ()


def device(files: Files, path: str) -> Device:
    """The facts of one device; see model.Device for the source of each."""
    link = f"{path}/device"
    resolved = os.path.realpath(link)
    present = os.path.lexists(link)
    return Device(
        name=parse.name(Path(path).name),
        driver=parse.uevent(optional(files, f"{link}/uevent"), "DRIVER"),
        pci_address=parse.pci_address(resolved) if present else "",
        numa_node=parse.small_integer(optional(files, f"{link}/numa_node")),
        board_id=parse.text(optional(files, f"{path}/board_id")),
        hca_type=parse.text(optional(files, f"{path}/hca_type")),
        firmware_version=parse.text(optional(files, f"{path}/fw_ver")),
        node_guid=parse.text(optional(files, f"{path}/node_guid")),
        virtual=os.path.lexists(f"{link}/physfn") or os.path.lexists(f"{path}/parent"),
    )


def port_numbers(files: Files, path: str) -> list[int]:
    """The ports of the device at `path`, in order. Raises OSError where they can't be listed."""
    entries = files.names(f"{path}/ports")
    return sorted(int(entry) for entry in entries if _PORT.fullmatch(entry))


def port_layout(  # noqa: PLR0913 - one call site; each is a different fact
    files: Files,
    sysfs: str,
    path: str,
    number: int,
    known: Device,
    alone: bool,
    vendor: Callable[[str], bool],
) -> PortLayout:
    """Find what a port has; `path` is the device's, `alone` whether it is the device's only port."""
    port = f"{path}/ports/{number}"
    netdev = _netdev(files, path, port, number)
    directories: dict[Group, str] = {group: f"{port}/{group}" for group in GROUPS if group != "device"}
    if alone:
        directories["device"] = f"{path}/hw_counters"
    rows = table(known.driver)
    groups = []
    unlisted = []
    for group, directory in directories.items():
        try:
            present = set(files.names(directory)) if os.path.lexists(directory) else set()
        except OSError as error:
            unlisted.append((directory, error))
        else:
            groups.append(_counter_group(files, group, directory, present, rows.get(group, {}), vendor))
    return PortLayout(
        path=port,
        link_layer=parse.text(optional(files, f"{port}/link_layer")),
        netdev=parse.name(netdev),
        slaves=_slaves(files, sysfs, netdev),
        netdev_speed=f"{sysfs}/class/net/{netdev}/speed" if netdev else "",
        groups=tuple(group for group in groups if group.files),
        unlisted=tuple(unlisted),
    )


def _counter_group(  # noqa: PLR0913 - as above
    files: Files,
    group: Group,
    directory: str,
    present: set[str],
    rows: Mapping[str, Row],
    vendor: Callable[[str], bool],
) -> CounterGroup:
    """What of a directory is read: of files that say the same, the first; then what `vendor` chooses."""
    taken: dict[str, Row] = {}
    for name, row in rows.items():
        if name in present and (row.part or row.name not in {other.name for other in taken.values()}):
            taken[name] = row
    chosen = [name for name in sorted(present - rows.keys() - GAUGES) if vendor(name)]
    lifespan = parse.number(optional(files, f"{directory}/lifespan")) if "lifespan" in present else None
    return CounterGroup(
        directory=directory,
        files=tuple(CounterFile(group, name, f"{directory}/{name}", rows.get(name)) for name in [*taken, *chosen]),
        names=frozenset(row.name for row in taken.values()),
        primer=f"{directory}/{PRIMER}" if PRIMER in present else "",
        lifespan=lifespan / 1000 if lifespan else DEFAULT_LIFESPAN,
    )


def _netdev(files: Files, path: str, port: str, number: int) -> str:
    """The netdev of a RoCE port by its GID table, else the one under the device with `dev_port` N-1."""
    for slot in range(NDEV_SLOTS):
        if found := parse.text(optional(files, f"{port}/gid_attrs/ndevs/{slot}")):
            return found if "/" not in found else ""
    candidates = names(files, f"{path}/device/net")
    for candidate in candidates:
        if parse.number(optional(files, f"{path}/device/net/{candidate}/dev_port")) == number - 1:
            return candidate
    return candidates[0] if len(candidates) == 1 and number == 1 else ""


def _slaves(files: Files, sysfs: str, netdev: str) -> tuple[str, ...]:
    entries = names(files, f"{sysfs}/class/net/{netdev}") if netdev else ()
    below = (entry.removeprefix("lower_") for entry in entries if entry.startswith("lower_"))
    return tuple(parse.name(slave) for slave in below) if "bonding" in entries else ()
