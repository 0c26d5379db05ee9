"""One grammar of quantities, for the configuration and for the command line."""

import subprocess
import sys

import pytest

from exporter import written


@pytest.mark.parametrize(("text", "value"), [("500MB", 5e8), ("64MiB", 2.0**26), ("1.5 GB", 1.5e9), ("8B", 8.0)])
def test_sizes(text: str, value: float) -> None:
    assert written.size(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["500", "MB", "-1MB", "0MB", "500Mb", "1e3MB", "nanMB", " 5MB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is needed, such as"):
        written.size(text)


def test_microseconds_to_days() -> None:
    assert [written.duration(text) for text in ("5us", "2d")] == pytest.approx([5e-6, 172_800.0])


def test_the_estimate_loads_no_pydantic() -> None:
    code = "import sys, exporter.fleet.command; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
