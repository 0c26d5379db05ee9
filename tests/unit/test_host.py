"""The host's processors: what a /proc/stat can say, and what no /proc/stat says."""

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from exporter.board import Board, Timing
from exporter.checks.host import HostCheck
from exporter.clock import Clock
from exporter.hardware.host import PsutilHost
from exporter.model import SourceError
from exporter.runner import run_check

WHOLE = "cpu  100 0 200 5000 0 0 50 25 10 5\n"


@pytest.fixture(autouse=True)
def _procfs() -> Iterator[None]:
    """psutil knows procfs by an attribute of its module: put it back."""
    before = psutil.PROCFS_PATH
    yield
    psutil.PROCFS_PATH = before


def test_guest_time_is_not_counted_twice(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text(WHOLE)
    times = PsutilHost(tmp_path).cpu_times()
    ticks = 5375 / times.total
    assert (times.steal * ticks, times.softirq * ticks) == pytest.approx((25, 50))


@pytest.mark.parametrize("content", ["", "\n", "cpu\n", "cpu  1 2 3\n", "cpu  1 2 3 x 5 6 7 8 9 10\n", "\0"])
def test_what_makes_no_sense_is_an_error_of_the_source_and_no_bug(
    tmp_path: Path, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "stat").write_text(content)
    source = PsutilHost(tmp_path)
    with pytest.raises(SourceError) as caught:
        source.cpu_times()
    assert caught.value.reason == "unreadable"
    clock = Clock(lambda: 0.0, lambda: 0.0)
    board = Board({"host": Timing(15, 5)}, clock)
    run_check("host", HostCheck(source), board, clock, required=False)
    assert [view.success for view in board.snapshot().checks] == [False]
    assert not [record for record in caplog.records if "bug" in record.getMessage()]
