"""Xid errors in the kernel's log, which alone says of an NVLink's whether it was fatal. From /dev/kmsg.

Each read gives one record: `priority,sequence,microseconds,flags;text` and continuation lines
(Documentation/ABI/testing/dev-kmsg). Where kernel.dmesg_restrict is 1 it needs CAP_SYSLOG; without it nothing is
known here, and NVML's events still are. Form of the lines: gpud#1160, gpud#1174, NVIDIA's Xid documentation.
"""

import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path

from exporter.model_gpu import XidLine

RECORD_BYTES = 8192
MOST_RECORDS = 50_000
"""A read ends there at the latest; the kernel's ring is far shorter."""
_RECORD = re.compile(rb"\d+,\d+,(\d+),[^;]*;([^\n]*)")
_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)\): (\d{1,4}),?\s*(.*)", re.ASCII)
_LINK = re.compile(r"\blink (\d{1,2})\b", re.ASCII | re.IGNORECASE)
_FATAL = re.compile(r"\b(non-?)?fatal\b", re.IGNORECASE)
log = logging.getLogger(__name__)


class KernelLog:
    """Reads on from where it last ended; the first time from the beginning of the ring."""

    def __init__(self, path: Path = Path("/dev/kmsg")) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._refused = False

    def read(self) -> tuple[XidLine, ...]:
        """See hardware.base.XidSource."""
        if self._descriptor is None and not self._open():
            return ()
        return tuple(found for record in self._records() if (found := parse(record)) is not None)

    def close(self) -> None:
        """Give the descriptor back."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _open(self) -> bool:
        if self._refused:
            return False
        try:
            self._descriptor = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            log.info("%s: %s; whether an NVLink error was fatal is not known", self._path, error.strerror)
            self._refused = True
            return False
        return True

    def _records(self) -> Iterator[bytes]:
        """The records that came since; one that was overwritten before it was read (EPIPE) is lost."""
        for _ in range(MOST_RECORDS):
            try:
                record = os.read(self._descriptor or 0, RECORD_BYTES)
            except BlockingIOError:
                return
            except BrokenPipeError:
                continue
            except OSError as error:
                log.info("%s: %s; not read any more", self._path, error.strerror)
                self.close()
                self._refused = True
                return
            if not record:
                return
            yield record


def parse(record: bytes) -> XidLine | None:
    """The Xid in a record, None where there is none."""
    found = _RECORD.match(record)
    if found is None or b"Xid" not in found[2]:
        return None
    line = _XID.search(found[2].decode("utf-8", "replace"))
    if line is None:
        return None
    address, xid, text = line[1].lower(), int(line[2]), line[3]
    link, fatal = _LINK.search(text), _FATAL.search(text)
    return XidLine(
        at=int(found[1]) / 1e6,
        pci_address=address if address.count(":") == 2 else f"0000:{address}",
        xid=xid,
        fatal=None if fatal is None else not fatal[1],
        link=None if link is None else int(link[1]),
    )
