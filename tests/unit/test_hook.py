"""A scheduler's hook: status 0 whatever happens to it, within its deadline whatever hangs."""

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter import probe
from exporter.probes.prober import Prober, Round
from tests import fakenvml
from tests.e2e.daemon import command, eventually
from tests.trees import empty_machine

pytestmark = pytest.mark.e2e  # processes with deadlines: it waits more than it works


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return empty_machine(tmp_path)


@pytest.fixture
def hanging(config: Path) -> Iterator[fakenvml.FakeNvml]:
    """Beside it an NVML that never answers, and its environment."""
    nvml = fakenvml.FakeNvml(fakenvml.build(config.parent), config.parent, {"count": 1})
    nvml.set({"hang.nvmlInit_v2": 1, "hang.nvmlInitWithFlags": 1, "hang.nvmlDeviceGetCount_v2": 1})
    yield nvml
    for stat in Path("/proc").glob("[0-9]*/environ"):
        try:
            if str(config.parent).encode() in stat.read_bytes():
                os.kill(int(stat.parent.name), signal.SIGKILL)
        except OSError:
            continue


def hook(*arguments: str, how: str = "") -> "subprocess.CompletedProcess[str]":
    """A hook by a shell, which may do something with its streams."""
    line = f"exec {shlex.join(command('probe', *arguments))} {how}"
    return subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--hook", "nonsense"],
        ["--hook"],
        ["--hoo", "nonsense"],
        ["-hook", "epilog"],
        ["\u2013\u2013hook", "epilog"],
        ["--hoo", "epilog"],
        ["--hook", "epilog", "--no"],
        ["--hook=epilog", "--deadline", "zz"],
        ["--hook=epilog", "--deadline", "-1h"],
        ["--hook", "epilog", "--engine", "rdma"],
        ["--hook", "epilog", "--for", "1h"],
        ["--hook", "prolog", "pause"],
        ["--hook", "epilog", "--config", "/nonexistent.yml"],
    ],
    ids=" ".join,
)
def test_a_mistake_is_said_and_drains_no_node(arguments: list[str]) -> None:
    done = hook(*arguments)
    assert done.returncode == 0
    assert done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("how", [">/dev/full", "2>/dev/full", ">/dev/full 2>&1", ">&- 2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("arguments", [["--deadline", "25s"], ["--config", "/nonexistent.yml"], ["--no"]], ids=" ".join)
def test_streams_that_are_full_or_closed(config: Path, arguments: list[str], how: str) -> None:
    given = [] if "--config" in arguments else ["--config", str(config)]
    done = hook("--hook", "epilog", *arguments, *given, how=how)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


def test_without_a_configuration_it_says_which_is_missing() -> None:
    assert hook("--hook", "epilog").stdout == "probes are off (no --config was given)\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_ends_it_well_and_soon(config: Path, hanging: fakenvml.FakeNvml, number: signal.Signals) -> None:
    argv = command("probe", "--hook", "epilog", "--deadline", "50s", "--config", str(config))
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=hanging.environment) as process:
        eventually(hanging.calls)  # it looks at the node
        process.send_signal(number)
        began = time.monotonic()
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
        assert time.monotonic() - began < 6
    assert process.returncode == 0
    assert number.name.encode() in out + err
    assert b"Traceback" not in err


def by_hand(config: Path, nvml: fakenvml.FakeNvml, number: int = 0) -> tuple[int, str, float]:
    """Status, what was said, and how long it took after the signal, if any, until its end.

    Not until the end of its output: an NVML worker that hangs holds that for some seconds more.
    """
    said = config.with_name("said")
    with said.open("w") as out:
        argv = command("probe", "intra", "--config", str(config))
        process = subprocess.Popen(argv, stdout=out, stderr=out, env=nvml.environment)
    began = time.monotonic()
    if number:
        eventually(nvml.calls)
        began = time.monotonic()
        process.send_signal(number)
    status = process.wait(40)
    return status, said.read_text(), time.monotonic() - began


def test_by_hand_a_signal_shows_in_the_status(config: Path, hanging: fakenvml.FakeNvml) -> None:
    status, said, took = by_hand(config, hanging, signal.SIGTERM)
    assert (status, said) == (143, "not measured: stopped (SIGTERM)\n")
    assert took < 5


@pytest.mark.parametrize("deadline", [6, 20])
def test_it_is_over_by_its_deadline_where_nvml_hangs(config: Path, hanging: fakenvml.FakeNvml, deadline: int) -> None:
    argv = command("probe", "--hook", "epilog", "--deadline", f"{deadline}s", "--config", str(config))
    began = time.monotonic()
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True, env=hanging.environment)
    assert time.monotonic() - began < deadline + 1
    assert "not measured: nvml_unreadable (" in done.stdout


def test_by_hand_it_is_bounded_too(config: Path, hanging: fakenvml.FakeNvml) -> None:
    status, said, took = by_hand(config, hanging)
    assert (status, said) == (0, "not measured: nvml_unreadable (NVML does not answer)\n")
    assert took < 17


def test_it_is_over_by_its_deadline_where_a_file_hangs(config: Path) -> None:
    """A file system that hangs: nothing of ours has a deadline there but the last resort."""
    (random := config.parent / "proc" / "sys" / "kernel" / "random").mkdir(parents=True)
    os.mkfifo(random / "boot_id")
    began = time.monotonic()
    done = hook("--hook", "epilog", "--deadline", "5s", "--config", str(config))
    assert 5 <= time.monotonic() - began < 7
    assert (done.returncode, done.stderr) == (0, "eastwest: not done within 5s, given up\n")


def test_no_phase_of_its_probe_may_take_longer_than_the_scheduler_waits(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds: list[tuple[Prober, float]] = []

    def seen(prober: Prober, _: object, until: float) -> Round:
        rounds.append((prober, until - time.monotonic()))
        return Round()

    monkeypatch.setattr(Prober, "round", seen)
    monkeypatch.setattr(probe, "_age", lambda: 0.0)
    monkeypatch.setattr(probe, "_timer", lambda *_: pytest.MonkeyPatch)
    monkeypatch.setattr(pytest.MonkeyPatch, "cancel", lambda: None, raising=False)
    assert probe.hook(config, "25s") == 0
    ((prober, left),) = rounds
    deadlines = prober.settings.deadlines
    assert (deadlines.start, deadlines.init, deadlines.connect, deadlines.run) == (20, 20, 20, 10)
    assert 20 < left < 22.01
