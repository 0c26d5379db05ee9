"""What the estimator was accepted for, as an operator meets it: recorded measurements, odd input, a terminal."""

import contextlib
import json
import os
import pty
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from exporter.model import UserError
from tests.fleet.run import HEADER, locate, rounds, table

NCCL_TESTS_106 = (
    "0,644,699,0,49.36",
    "60,632,641,0,88.36",
    "120,284,678,0,49.28",
    "180,641,644,0,49.30",
    "240,404,699,0,86.81",
)
"""GB/s between two nodes, from https://github.com/NVIDIA/nccl-tests/issues/106: "node 644 has a problem"."""
FOUR = ("a", "b", "c", "d")


def answer_of(capsys: pytest.CaptureFixture[str], *args: str | Path) -> tuple[int, dict[str, Any]]:
    status = locate("--pairs", *args, "--format", "json")
    return status, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("order", [1, -1])
def test_nccl_tests_106(order: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Five measurements by hand: one node named, four cleared, and the two that met nobody else left open."""
    path = table(tmp_path / "p.csv", NCCL_TESTS_106[::order], "time,src,dst,rail,gbyte_per_second")
    status, answer = answer_of(capsys, path)
    assert status == 1
    assert [link["node"] for link in answer["links"]] == ["644"]
    assert answer["healthy"] == 4
    assert {one["node"] for one in answer["undetermined"]} == {"284", "678"}
    for one in answer["undetermined"]:
        assert any(f"against {cleared}," in one["next"] for cleared in ("641", "699", "404", "632")), one["next"]


def test_one_bad_nic_in_four_nodes_on_one_rail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, answer = answer_of(capsys, table(tmp_path / "p.csv", rounds(FOUR, {"c": 0.7}, 3)))
    assert status == 1
    assert [(link["node"], link["rail"]) for link in answer["links"]] == [("c", "0")]
    assert answer["healthy"] == 3


def test_one_node_alone_is_no_measurement(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="src and dst are the same node"):
        locate("--pairs", table(tmp_path / "p.csv", ["0,a,a,0,390", "1,a,a,1,390"]))


def test_odd_names_come_back_as_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ["rack 1 gpu 2", "gpu,3", 'the "old" one', "日本"]
    quoted = ['"' + name.replace('"', '""') + '"' for name in names]
    status, answer = answer_of(capsys, table(tmp_path / "p.csv", rounds(quoted, {quoted[2]: 0.6}, 3)))
    assert status == 1
    assert [link["node"] for link in answer["links"]] == [names[2]]
    assert answer["healthy"] == 3


@pytest.mark.parametrize("wrong", ["-86400", "86400", "1e12", "2031-01-01T00:00:00Z"])
def test_a_clock_that_is_off_blames_nobody_else(wrong: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All that node `d` wrote down has the wrong time: its probes count as the oldest or newest, no more."""
    rows = [wrong + row[row.index(",") :] if ",d," in row else row for row in rounds(FOUR, {"b": 0.6}, 4)]
    status, answer = answer_of(capsys, table(tmp_path / "p.csv", rows))
    assert status == 1
    assert [link["node"] for link in answer["links"]] == ["b"]
    assert answer["healthy"] == 3


def test_three_rounds_in_a_burst_leave_the_leaf_undetermined(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Leaf l0 is slow across leaves, but its nodes met only one other node each up there: it may have been a burst."""
    nodes = [f"n{at}" for at in range(96)]
    leaf = {name: at // 32 for at, name in enumerate(nodes)}
    rows = []
    for turn in range(4):
        for at, src in enumerate(nodes):
            near = nodes[(at // 32) * 32 + (at + turn + 1) % 32]
            far = nodes[(at + 32 + turn) % 96]
            rows.append(f"{2 * turn},{src},{near},0,{390 + 0.01 * at + turn:.2f}")
            if turn == 0:
                slow = 0 in {leaf[src], leaf[far]}
                rows.append(f"{2 * turn + 1},{src},{far},0,{(200 if slow else 390) + 0.01 * at:.2f}")
    places = table(tmp_path / "t.csv", [f"{name},l{at}" for name, at in leaf.items()], "node,leaf")
    status, answer = answer_of(capsys, table(tmp_path / "p.csv", rows), "--topology", places)
    assert status == 3
    assert answer["leaves"] == answer["links"] == []
    assert any("leaf l0" in one["why"] and "different times" in one["next"] for one in answer["undetermined"])


RUN = """
import argparse, sys
from exporter.fleet import answer, command
answer.LONG = 1000
parser = argparse.ArgumentParser()
command.locate_flags(parser)
sys.exit(command.run_locate(parser.parse_args(sys.argv[1:])))
"""


def on_a_terminal(args: Sequence[str]) -> tuple[int, str]:
    """Run with standard error on a terminal of its own; the exit status, and what the terminal got."""
    ours, theirs = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", RUN, *args], stdout=subprocess.DEVNULL, stderr=theirs) as child:
        os.close(theirs)
        seen = b""
        with contextlib.suppress(OSError):  # EIO: the other end was closed
            while part := os.read(ours, 65536):
                seen += part
    os.close(ours)
    return child.returncode, seen.decode()


def test_progress_on_a_terminal_and_nowhere_else(tmp_path: Path) -> None:
    path = table(tmp_path / "long.csv", rounds(FOUR, {}, 30))
    status, seen = on_a_terminal(["--pairs", str(path)])
    assert status == 0
    assert "long.csv" in seen
    assert "100%" in seen
    piped = subprocess.run([sys.executable, "-c", RUN, "--pairs", str(path)], check=True, capture_output=True)
    assert piped.stderr == b""


def test_no_progress_for_a_short_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "RUN", RUN.replace("answer.LONG = 1000\n", ""))
    assert on_a_terminal(["--pairs", str(table(tmp_path / "short.csv", rounds(FOUR, {})))]) == (0, "")


def test_the_node_daemon_never_loads_numpy() -> None:
    """A poll of every check and the whole of what `serve` imports, in a process of its own."""
    code = (
        "import sys, exporter.app, exporter.server, exporter.web\n"
        "from exporter import cli\n"
        "status = cli.main(['metrics', '--simulate', 'healthy'])\n"
        "sys.exit(status or 'numpy' in sys.modules or 'exporter.fleet.answer' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_the_header_of_these_tests_is_the_documented_one() -> None:
    assert HEADER in (Path(__file__).parents[2] / "docs" / "locate.md").read_text()
