"""The demo, as a newcomer runs it: all three faults are named, and nothing is left behind."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e
DEMO = [sys.executable, "-m", "exporter", "demo"]


def environment(folder: Path) -> dict[str, str]:
    """Temporary folders of this test alone, so that what is left is ours."""
    return {**os.environ, "TMPDIR": str(folder)}


def children(folder: Path) -> str:
    """Daemons that run."""
    found = subprocess.run(["pgrep", "-f", f"serve --config {folder}"], capture_output=True, text=True, check=False)
    return found.stdout


def test_all_three_are_named_with_their_evidence_and_pages(tmp_path: Path) -> None:
    done = subprocess.run(
        [*DEMO, "--seconds", "20"], capture_output=True, text=True, timeout=120, check=False, env=environment(tmp_path)
    )
    assert done.returncode == 0, done.stderr
    last = done.stdout.splitlines()[-1]
    found = re.fullmatch(r"demo: injected (.+); named (.+) after \d+ s", last)
    assert found, last
    assert found[1] == found[2] == "gpu-2 mlx5_5/1, gpu-3 rail 5, gpu-4 gpu2"
    assert "lost 30 % against 7 of 7 partners" in done.stdout
    assert "25% of the 400 Gbit/s" in done.stdout
    assert "16 of 18 NVLinks active" in done.stdout
    assert len(re.findall(r"gpu-\d  http://127.0.0.1:\d+/", done.stdout)) == 4
    assert not children(tmp_path)
    assert not list(tmp_path.iterdir())


def test_ctrl_c_ends_it_and_leaves_nothing(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*DEMO, "--seconds", "300"], stdout=subprocess.PIPE, text=True, env=environment(tmp_path)
    ) as demo:
        for line in demo.stdout or ():
            if "Ctrl-C ends it now" in line:
                break
        demo.send_signal(signal.SIGINT)
        rest = demo.stdout.read() if demo.stdout else ""
        assert demo.wait(timeout=30) == 0
    assert "demo: injected" in rest
    assert not children(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("flags", [["--nodes", "3"], ["--nodes", "x"], ["--seconds", "0"]])
def test_nonsense_is_refused(flags: list[str]) -> None:
    assert subprocess.run([*DEMO, *flags], capture_output=True, check=False).returncode == 2


def left_by(command: list[str], folder: Path, seconds: float, signals: Sequence[int], pause: float) -> tuple[int, str]:
    """Run in a process group of its own, tell all of it after `seconds`; the status and what it said last."""
    folder.mkdir()
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment(folder), process_group=0
    ) as running:
        time.sleep(seconds)
        for number in signals:
            with suppress(ProcessLookupError):
                os.killpg(running.pid, number)
            time.sleep(pause)
        said = running.communicate(timeout=30)[1].decode()
    with pytest.raises(ProcessLookupError):
        os.killpg(running.pid, 0)
    assert not list(folder.iterdir()), (command, seconds, signals)
    return running.returncode, said


MOMENTS = (0.05, 0.3, 0.6, 1.2, 2.5, 4.5, 7.0)
STARTED = 0.5
"""Seconds; what Python says when Ctrl-C meets its own start is Python's."""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_to_all_of_it_at_any_moment_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    """As Ctrl-C does in a terminal, and a second time by who is impatient."""
    status = {-number, 128 + number, 0}  # before Python listens, told, told while it only waits
    for position, seconds in enumerate(MOMENTS):
        signals = [number] * (1 + position % 2)
        command = [*DEMO, "--seconds", "300"]
        ended, said = left_by(command, tmp_path / f"{seconds}", seconds, signals, 0.1)
        if seconds >= STARTED or number != signal.SIGINT:
            assert ended in status, (seconds, said)
            assert "Traceback" not in said
