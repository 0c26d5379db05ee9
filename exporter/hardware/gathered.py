"""What one poll of sysfs gathers beside its ports, and what one port's counter files gave."""

import errno
from collections.abc import Sequence
from dataclasses import dataclass, field

from exporter.hardware import parse
from exporter.hardware.device import CounterFile
from exporter.model import Fault, VendorCounter

SOURCE = "infiniband"
MAX_VENDOR_SERIES = 2000
_NOT_THERE = frozenset({"enoent", "enodev"})


@dataclass(slots=True)
class Round:
    """What one poll gathers besides the ports."""

    faults: list[Fault] = field(default_factory=list)
    vendor_series: int = 0

    def fault(self, subject: str, reason: str, detail: str) -> None:
        """Something should have answered and did not."""
        self.faults.append(Fault(SOURCE, subject, reason, detail))

    def failed(self, subject: str, error: OSError, path: str) -> None:
        """A read of `path` failed."""
        self.fault(subject, errno_name(error), path)


def errno_name(error: OSError) -> str:
    """`einval` for OSError(EINVAL): the reason label of a fault."""
    return errno.errorcode.get(error.errno or 0, "oserror").lower()


class Absences:
    """Which files were not there, from one round to the next.

    The kernel takes a device's files away one after the other, and puts them there so: a round that meets a driver
    reload half-way finds files missing of a device that nothing is wrong with. So what is not there is a fault from
    the second round in a row on; in the very first, with nothing to compare it with, at once.
    """

    def __init__(self) -> None:
        self._before: frozenset[Fault] | None = None

    def settled(self, faults: Sequence[Fault]) -> tuple[Fault, ...]:
        """The faults of this round without those of things that were there a round ago."""
        missing = frozenset(fault for fault in faults if fault.reason in _NOT_THERE)
        before, self._before = self._before, missing
        return tuple(fault for fault in faults if before is None or fault not in missing or fault in before)


@dataclass(slots=True)
class Values:
    """What one port's counter files gave."""

    subject: str
    counters: dict[str, int] = field(default_factory=dict)
    saturated: list[str] = field(default_factory=list)
    vendor: list[VendorCounter] = field(default_factory=list)

    def take_vendor(self, file: CounterFile, value: int, found: Round) -> None:
        """A counter outside the table; those beyond the limit are only counted."""
        found.vendor_series += 1
        if found.vendor_series <= MAX_VENDOR_SERIES:
            self.vendor.append(VendorCounter(file.group, parse.name(file.name), value))
