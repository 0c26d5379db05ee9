"""The units as systemd's own checker sees them."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UNITS = ROOT / "deploy/systemd"
SERVICES = ("eastwest.service", "eastwest-textfile.service")
ANALYZE = shutil.which("systemd-analyze")
needs_systemd = pytest.mark.skipif(ANALYZE is None, reason="no systemd-analyze on this machine")
PIN = re.compile(r"^([a-z0-9-]+==\S+)", re.MULTILINE)
HARDENING = "CapabilityBoundingSet="


def run(*argv: str | Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        argv, capture_output=True, text=True, timeout=60, check=False, env={"PATH": "/usr/bin:/bin", **environment}
    )


def planted(tmp_path: Path) -> list[Path]:
    """The units, with a command that is there."""
    command = tmp_path / "bin/eastwest"
    command.parent.mkdir()
    command.write_text("#!/bin/sh\n")
    command.chmod(0o755)
    found = []
    for unit in sorted(UNITS.glob("eastwest*.[st][ei][rm]*")):
        target = tmp_path / unit.name
        target.write_text(unit.read_text().replace("/opt/eastwest", str(tmp_path)))
        found.append(target)
    return found


@needs_systemd
def test_systemd_has_nothing_to_say_about_the_units(tmp_path: Path) -> None:
    units = planted(tmp_path)
    assert len(units) == 3
    done = run("systemd-analyze", "verify", *units)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@needs_systemd
@pytest.mark.parametrize("service", SERVICES)
def test_exposure_is_below_2(service: str, tmp_path: Path) -> None:
    planted(tmp_path)
    done = run("systemd-analyze", "security", "--offline=true", "--threshold=20", tmp_path / service)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("service", SERVICES)
def test_nothing_takes_away_what_is_read(service: str) -> None:
    """PrivateDevices hides NVML's nodes, ProcSubset=pid the driver's, PrivateNetwork the ports' netdevs."""
    text = (UNITS / service).read_text()
    for taken in ("PrivateDevices=yes", "ProcSubset=pid", "PrivateNetwork=yes", "NoExecPaths=", "RootDirectory="):
        assert f"\n{taken}" not in text
    for minor in (*range(8), 255):
        assert f"\nDeviceAllow=/dev/char/195:{minor} rw\n" in text


def test_both_services_are_hardened_alike() -> None:
    def hardening(service: str) -> set[str]:
        text = (UNITS / service).read_text()
        lines = text[text.index(HARDENING) :].partition("[Install]")[0].splitlines()
        return {line for line in lines if line and not line.startswith("#")}

    # the timer never probes
    assert hardening(SERVICES[1]) - hardening(SERVICES[0]) == {"IPAddressDeny=any", "ProtectProc=invisible"}
    assert hardening(SERVICES[0]) - hardening(SERVICES[1]) == {
        "ProtectProc=default",
        "SystemCallFilter=sched_setaffinity mbind set_mempolicy",
    }


def setting(service: str, name: str) -> str:
    """The one value of a setting."""
    (found,) = re.findall(rf"^{name}=(.*)$", (UNITS / service).read_text(), re.MULTILINE)
    return str(found)


def test_the_daemons_unit_is_fit_for_probes_of_sixteen_gpus() -> None:
    """One line of the configuration turns them on: the unit must not be what stops them (ADR 81)."""
    service = SERVICES[0]
    assert setting(service, "ProtectProc") == "default", "root's slurmstepd is seen"
    assert int(setting(service, "TasksMax")) >= 16 * 40
    assert int(setting(service, "MemoryMax").removesuffix("G")) >= 8
    assert setting(service, "LimitMEMLOCK") == "infinity"
    assert setting(service, "OOMPolicy") == "continue"


def test_who_only_watches_finds_in_the_document_what_the_unit_was_before() -> None:
    """The drop-in of docs/security.md has the small caps of the timer, which never probes."""
    text = (ROOT / "docs/security.md").read_text()
    (drop_in,) = re.findall(r"```ini\n(\[Service\]\n.*?)```", text, re.DOTALL)
    told = dict(line.split("=", 1) for line in drop_in.splitlines()[1:] if line)
    assert told == {
        "MemoryMax": setting(SERVICES[1], "MemoryMax"),
        "TasksMax": setting(SERVICES[1], "TasksMax"),
        "LimitMEMLOCK": "8M",
        "OOMPolicy": "stop",
        "ProtectProc": "invisible",
        "SystemCallFilter": "~@resources",
    }


def test_what_is_shipped_is_pinned_as_it_was_tested() -> None:
    shipped = set(PIN.findall((ROOT / "requirements-run.lock").read_text()))
    tested = set(PIN.findall((ROOT / "requirements.lock").read_text()))
    assert shipped <= tested
    assert not {pin for pin in shipped if pin.startswith(("hatchling", "pytest"))}
