"""Commands on simulated nodes, told to end at odd moments and more than once: their folders go, their status stays."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.e2e.daemon import command

pytestmark = pytest.mark.e2e
SERVE = ("serve", "--listen", "127.0.0.1:0", "--simulate", "healthy")
CHECK = ("check", "--simulate", "healthy")


def told(arguments: tuple[str, ...], folder: Path, moments: tuple[float, ...], number: int) -> tuple[int, str]:
    """Run it and signal it at these moments, counted from when its folder is there; the status and what it said."""
    environment = {**os.environ, "TMPDIR": str(folder)}
    with subprocess.Popen(
        command(*arguments), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment
    ) as running:
        while not list(folder.iterdir()):
            assert running.poll() is None
            time.sleep(0.001)
        began = time.monotonic()
        for moment in moments:
            time.sleep(max(0.0, began + moment - time.monotonic()))
            running.send_signal(number)
        said = running.communicate(timeout=30)[1]
    assert not list(folder.iterdir()), moments
    return running.returncode, said


@pytest.mark.parametrize("first", [0.0, 0.02, 0.1, 0.3, 1.0, 3.0])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_a_daemon_told_again_and_again_ends_as_if_told_once(tmp_path: Path, first: float, number: int) -> None:
    again = tuple(first + 0.05 * count for count in range(20))
    status, said = told(SERVE, tmp_path, again, number)
    assert status == 0, said
    assert "Traceback" not in said


@pytest.mark.parametrize("pause", [0.0, 0.05, 0.1, 0.2, 0.3])
def test_the_second_sigterm_changes_nothing(tmp_path: Path, pause: float) -> None:
    assert told(SERVE, tmp_path, (2.0, 2.0 + pause), signal.SIGTERM)[0] == 0


@pytest.mark.parametrize("first", [0.0, 0.05, 0.3])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda number: number.name)
def test_a_check_that_is_ended_says_nothing_and_leaves_nothing(tmp_path: Path, first: float, number: int) -> None:
    assert told(CHECK, tmp_path, (first, first + 0.01), number) == (128 + number, "")


@pytest.mark.parametrize("arguments", [SERVE, CHECK, ("--help",)], ids=lambda arguments: arguments[0])
def test_ctrl_c_while_it_loads_is_quiet(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """From the first line of ours on; before it, Python's own start is Python's."""
    script = (
        "import sys, runpy, signal, importlib.abc\n"
        "class Interrupted(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == late: signal.raise_signal(signal.SIGINT)\n"
        "late, sys.argv = sys.argv[1], ['eastwest', *sys.argv[2:]]\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "runpy.run_module('exporter', run_name='__main__')\n"
    )
    done = subprocess.run(
        [*command()[:1], "-c", script, "exporter.model", *arguments],
        capture_output=True, text=True, check=False, timeout=60, env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
    assert not list(tmp_path.iterdir())
