"""Text of the kernel to values. Pure: bytes in, a value or None out; None is "this says no such thing"."""

import os
import re
from dataclasses import dataclass

U64_MAX = (1 << 64) - 1
BYTES_PER_GIGABIT = 125_000_000
BYTES_PER_MEGABIT = 125_000
_STATE = re.compile(rb"\s*(\d{1,3}):")
# One kernel prints "0 GB/sec" for an unpopulated port, and old ones no name for SDR: "10 Gb/sec (4X)". Behind a tail
# that a later kernel makes up, the number still counts.
_RATE = re.compile(
    rb"\s*(\d{1,6}(?:\.\d{1,3})?)\s+G[bB]/sec(?:\s+\((\d{1,2})X(?:\s+([A-Za-z0-9]{1,8}))?\))?(?:\s.*)?", re.DOTALL
)
_PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_LABEL_LIMIT = 128


@dataclass(frozen=True, slots=True)
class Rate:
    """A negotiated rate in bytes/s (None for 0), lanes, and the signalling name."""

    bytes_per_second: float | None
    width: int | None
    speed: str


def number(raw: bytes) -> int | None:
    """A counter: decimal ASCII digits, at most 64 bits. `N/A (no PMA)`, signs and fractions are no number."""
    digits = raw.strip()
    if digits.isdigit() and len(digits) <= 20 and (value := int(digits)) <= U64_MAX:
        return value
    return None


def state(raw: bytes) -> int | None:
    """`4: ACTIVE` is 4; the number counts, since names differ between kernels."""
    match = _STATE.match(raw)
    return int(match[1]) if match else None


def rate(raw: bytes) -> Rate | None:
    """`400 Gb/sec (4X NDR)`: the number is taken, not derived from width and name.

    800 Gb/s is both 8X NDR and 4X XDR, and a kernel older than the speed calls it SDR.
    """
    match = _RATE.fullmatch(raw)
    if not match:
        return None
    gigabits = float(match[1])
    return Rate(
        gigabits * BYTES_PER_GIGABIT if gigabits > 0 else None,
        int(match[2]) if match[2] else None,
        match[3].decode("ascii") if match[3] else "",
    )


def netdev_rate(raw: bytes) -> float | None:
    """`/sys/class/net/<netdev>/speed` in Mbit/s, as bytes/s; None for -1 (unknown) and 0."""
    value = number(raw)
    return value * BYTES_PER_MEGABIT if value and value < 100_000_000 else None


def small_integer(raw: bytes) -> int | None:
    """A signed integer such as `numa_node`; None below 0, where the kernel means "unknown"."""
    value = number(raw)
    return value if value is not None and value < 1 << 31 else None


def text(raw: bytes) -> str:
    """One line fit for a label: printable characters only, at most 128, bad UTF-8 replaced."""
    line = raw.decode("utf-8", "replace").strip()
    return "".join(c if c.isprintable() else "?" for c in line)[:_LABEL_LIMIT]


def name(entry: str) -> str:
    """An entry of a directory as a label: Python keeps bytes that are no UTF-8 as lone surrogates (PEP 383)."""
    return text(os.fsencode(entry))


def uevent(raw: bytes, key: str) -> str:
    """The value of one KEY=value line of an uevent file, or ''."""
    for line in raw.splitlines():
        name, _, value = line.partition(b"=")
        if name == key.encode():
            return text(value)
    return ""


def pci_address(resolved: str) -> str:
    """The PCI function in a resolved sysfs path: its last component that looks like one, or ''."""
    found = [part for part in resolved.lower().split("/") if _PCI.fullmatch(part)]
    return found[-1] if found else ""


def route_netdevs(raw: bytes) -> frozenset[str]:
    """The netdevs of IPv4 default routes in `/proc/net/route` (destination and mask 0)."""
    rows = [line.split() for line in raw.splitlines()[1:]]
    return frozenset(text(row[0]) for row in rows if len(row) >= 8 and row[1] == b"00000000" and row[7] == b"00000000")


def route6_netdevs(raw: bytes) -> frozenset[str]:
    """The netdevs of IPv6 default routes in `/proc/net/ipv6_route` (::/0, but not the unreachable one on lo)."""
    rows = [line.split() for line in raw.splitlines()]
    return frozenset(
        text(row[9]) for row in rows if len(row) >= 10 and row[0] == b"0" * 32 and row[1] == b"00" and row[9] != b"lo"
    )
