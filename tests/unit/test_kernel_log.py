"""Xids in the kernel's log: the lines that drivers write, and what is fatal."""

import logging
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.hardware.kernel_log import KernelLog, parse
from exporter.model_gpu import XidLine


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "NVRM: Xid (PCI:0000:D8:00): 74, pid='<unknown>', NVLink: fatal error detected on link 14(0x1, 0x0)",
            XidLine(12.5, "0000:d8:00", 74, True, 14),
        ),
        (
            "NVRM: Xid (PCI:0018:01:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x00000001 0x0)",
            XidLine(12.5, "0018:01:00", 149, True, 8),
        ),
        (
            "NVRM: Xid (PCI:0000:18:00): 145, RLW_CTRL Nonfatal XC1 i0 Link 03 (0x4)",
            XidLine(12.5, "0000:18:00", 145, False, 3),
        ),
        ("NVRM: Xid (18:00): 79, GPU has fallen off the bus.", XidLine(12.5, "0000:18:00", 79)),
        ("NVRM: Xid (PCI:0000:18:00): 31, pid=1, Ch 00000010", XidLine(12.5, "0000:18:00", 31)),
        ("NVRM: GPU 0000:18:00.0: GPU has fallen off the bus.", None),
        ("mlx5_core 0000:18:00.0: Xid is no word of mine", None),
        ("NVRM: Xid (PCI:0000:18:00): many, words", None),
        ("", None),
    ],
)
def test_the_lines_that_drivers_write(text: str, expected: XidLine | None) -> None:
    assert parse(f"4,1234,12500000,-;{text}\n SUBSYSTEM=pci\n".encode()) == expected


@given(st.binary(max_size=300))
def test_no_bytes_break_it(content: bytes) -> None:
    parse(content)
    parse(b"4,1,2,-;NVRM: Xid " + content)


def test_it_reads_on_where_it_ended(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    os.mkfifo(path)
    log = KernelLog(path)
    with path.open("rb+", buffering=0) as pipe:
        assert log.read() == ()
        pipe.write(b"4,1,1000000,-;NVRM: Xid (PCI:0000:18:00): 79, lost\n")
        assert [line.xid for line in log.read()] == [79]
        assert log.read() == ()
    log.close()


def test_a_log_that_may_not_be_read_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    log = KernelLog(tmp_path / "none")
    assert log.read() == log.read() == ()
    assert len(caplog.records) == 1
