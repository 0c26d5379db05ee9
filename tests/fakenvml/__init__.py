"""A fake `libnvidia-ml.so.1`, built here, that the real binding loads; and the file that says what it answers.

Keys (gpu, field, scope, link, counter are numbers; a missing one is NOT_SUPPORTED, or 0 for switches):

    count N · init CODE · session N (another N: the driver was reloaded) · driver.0 TEXT · uuid.G TEXT · name.G TEXT
    lost.G CODE (every call) · err.FUNCTION[.G] CODE · hang.FUNCTION 1 · segv.FUNCTION 1
    fval.G.FIELD.SCOPE TYPE VALUE (d ui ul ull sll si us) · fret.G.FIELD.SCOPE CODE · spoils.FIELD 1 (its batch fails)
    state.G.LINK N · nolink CODE (for links there are not) · ec.G.LINK.COUNTER N · mig.G N
    fabric.G STATE STATUS MASK SUMMARY · fabver N · pcie.G GEN WIDTH MAXGEN MAXWIDTH REPLAYS · xid.N GPU XID
    procs.G PID PID ... · util.G PERCENT · used.G BYTES
"""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("fakenvml.c")
NAME = "libnvidia-ml.so.1"


def build(folder: Path, *flags: str) -> Path:
    """The library, in a folder for LD_LIBRARY_PATH. Skips the test where there is no compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no cc here: the fake NVML library can't be built")
    argv = [compiler, "-Wall", "-Wextra", "-Werror", "-O1", "-fPIC", "-shared", f"-Wl,-soname,{NAME}", *flags]
    subprocess.run([*argv, "-o", str(folder / NAME), str(SOURCE)], check=True, timeout=60)
    return folder


class FakeNvml:
    """What the library answers; change it at any time."""

    def __init__(self, library: Path, folder: Path, content: Mapping[str, object]) -> None:
        self._file = folder / "nvml.txt"
        self._log = folder / "nvml.log"
        self._content: dict[str, object] = {}
        self.environment = {
            **os.environ,
            "LD_LIBRARY_PATH": str(library),
            "FAKE_NVML_FILE": str(self._file),
            "FAKE_NVML_LOG": str(self._log),
        }
        self.set(content)

    def set(self, content: Mapping[str, object], *without: str) -> None:
        """Add or change keys, and leave some out, in one step."""
        self._content |= content
        for key in without:
            del self._content[key]
        beside = self._file.with_suffix(".new")
        beside.write_text("".join(f"{key} {value}\n" for key, value in self._content.items()))
        beside.replace(self._file)

    def calls(self) -> list[str]:
        """Every call so far, as `function gpu`, and each field asked for, as `field id`."""
        return self._log.read_text().splitlines() if self._log.exists() else []


def h100(count: int = 2, links: int = 18) -> dict[str, object]:
    """Healthy H100s: KiB counters that differ by GPU, link and direction; states by field 165."""
    content: dict[str, object] = {"count": count}
    for gpu in range(count):
        content |= {
            f"fval.{gpu}.91.0": f"ui {links}",
            f"fval.{gpu}.74.0": f"ull {(gpu + 1) * 1_500_000_000}",
            f"fval.{gpu}.270.0": "ull 0",
            f"fabric.{gpu}": "3 0 0x11AA 1",
            f"pcie.{gpu}": "5 16 5 16 0",
        }
        for link in range(links):
            content |= {
                f"fval.{gpu}.138.{link}": f"ull {transmit_kib(gpu, link)}",
                f"fval.{gpu}.139.{link}": f"ull {receive_kib(gpu, link)}",
                f"fval.{gpu}.164.{link}": "ui 26562",
                f"fval.{gpu}.165.{link}": "ui 1",
                f"state.{gpu}.{link}": 1,
                **{f"ec.{gpu}.{link}.{counter}": 0 for counter in range(3)},
            }
    return content


def b200() -> dict[str, object]:
    """One B200: 18 links, bytes and errors by field, no links past them (INVALID_ARGUMENT), no old counters."""
    content: dict[str, object] = {"count": 1, "name.0": "NVIDIA B200", "fval.0.91.0": "ui 18", "nolink": 2}
    for link in range(18):
        content |= {
            f"fval.0.202.{link}": f"ull {transmit_kib(0, link)}",
            f"fval.0.204.{link}": f"ull {receive_kib(0, link)}",
            f"fval.0.138.{link}": "ull 1",
            f"fval.0.139.{link}": "ull 2",
            f"fval.0.215.{link}": f"ull {link}",
            f"fval.0.220.{link}": "ui 0x30E",
            f"fval.0.222.{link}": "ui 0xFFF",
            f"state.0.{link}": 1,
        }
    return content


def transmit_kib(gpu: int, link: int) -> int:
    """What field 138 says (past 32 bits)."""
    return 9_000_000_000_000 + gpu * 1000 + link


def receive_kib(gpu: int, link: int) -> int:
    """What field 139 says."""
    return 5_000_000_000_000 + gpu * 1000 + link
