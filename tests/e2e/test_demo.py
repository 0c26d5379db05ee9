"""The demo, as a newcomer runs it: all three faults are named, and nothing is left behind."""

import os
import re
import signal
import subprocess
import sys
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
