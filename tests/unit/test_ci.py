"""What .ci/run says of tests that were skipped: a run in which they all were must not look like one that passed."""

import subprocess
from pathlib import Path

import pytest

RUN = Path(__file__).parents[2] / ".ci/run"
SKIPPED = "SKIPPED [9] tests/vm/conftest.py:30: no qemu-system-x86_64 on this machine"


@pytest.mark.skipif(not RUN.exists(), reason="not in the source distribution")
@pytest.mark.parametrize("status", [0, 2, 124])
@pytest.mark.parametrize("form", ["told {}", "again() {{ told {}; }}; again"])
def test_skips_are_said_with_their_reason_and_the_status_stays(status: int, form: str) -> None:
    functions = RUN.read_text().partition('\nstep "')[0]
    command = f"sh -c 'echo \"{SKIPPED}\"; echo no guest can be made without: cpio; echo 9 skipped; exit {status}'"
    script = f"{functions}\nended=0\n{form.format(command)} || ended=$?\necho ended $ended"
    done = subprocess.run(
        ["bash", "-c", script, str(RUN)], cwd=RUN.parent, capture_output=True, text=True, check=False, timeout=30
    )
    lines = [line for line in done.stdout.splitlines() if line]
    assert lines[:3] == [SKIPPED, "no guest can be made without: cpio", "9 skipped"]
    assert lines[3:] == [
        "-- skipped: 9 of the tests: tests/vm/conftest.py:30: no qemu-system-x86_64 on this machine",
        "-- skipped: no guest can be made without: cpio",
        f"ended {status}",
    ]
