"""An operator's pause: what can't be read of it holds, and the same command ends it."""

import json
import logging
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.model import UserError
from exporter.probes.launch import Stop
from exporter.probes.pause import FILE, Pause, pause
from tests.probes.lab import Lab
from tests.props import few, junk

NOW = 1_700_000_000.0
BAD = [
    b"xx",
    b"",
    b"[]",
    b"{}",
    b"\xff",
    b"[" * 100_000,
    b'{"until": ' + b"[" * 100_000,
    b'{"until": 1' + b"0" * 400 + b"}",
    b'{"until": 1' + b"0" * 5000 + b"}",
    b'{"until": 1e999}',
    b'{"until": NaN}',
    b'{"until": -5}',
    b'{"until": "tomorrow"}',
    b'{"until": true}',
    b'{"until": 99999999999}',
]


def test_none_holds_nothing_off(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (None, tmp_path, tmp_path / "missing", tmp_path / "file"):
        found = Pause(folder)
        assert (found.holds(NOW), found.trouble) == (False, "")


def test_one_holds_until_its_end(tmp_path: Path) -> None:
    assert pause(tmp_path, 3600, NOW) == NOW + 3600
    found = Pause(tmp_path)
    assert [found.holds(NOW + seconds) for seconds in (0, 3599, 3601)] == [True, True, False]
    assert found.trouble == ""


@pytest.mark.parametrize("content", BAD)
def test_one_that_cannot_be_read_holds_and_says_once_what_ends_it(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FILE).write_bytes(content)
    lab, stop = Lab(tmp_path), Stop()
    prober = lab.prober()
    for by_hand in (False, True, False):
        (refusal,) = prober.round(stop, by_hand=by_hand).refusals
        assert refusal.reason == "paused"
        assert str(tmp_path / FILE) in refusal.detail
        assert "`eastwest probe pause --for 0s` ends it" in refusal.detail
    stop.close()
    assert lab.launched == []
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    pause(tmp_path, 0, NOW)
    assert not Pause(tmp_path).holds(NOW)


def test_a_folder_of_that_name_is_one_too(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    found = Pause(tmp_path)
    assert found.holds(NOW)
    assert "directory" in found.trouble
    pause(tmp_path, 0, NOW)
    assert not found.holds(NOW)
    (tmp_path / FILE).mkdir()
    pause(tmp_path, 60, NOW)
    assert [found.holds(NOW), found.holds(NOW + 61)] == [True, False]


def test_a_pipe_of_that_name_is_one_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / FILE)
    found = Pause(tmp_path)
    assert found.holds(NOW)
    assert "no regular file" in found.trouble
    pause(tmp_path, 0, NOW)
    assert not found.holds(NOW)


def test_a_folder_with_something_in_it_is_left_and_named(tmp_path: Path) -> None:
    (tmp_path / FILE / "kept").mkdir(parents=True)
    with pytest.raises(UserError, match=FILE):
        pause(tmp_path, 0, NOW)
    assert Pause(tmp_path).holds(NOW)


@given(content=st.one_of(junk, st.floats().map(lambda until: json.dumps({"until": until}).encode())))
@few
def test_nothing_in_it_stops_anything(content: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("state", numbered=True)
    (folder / FILE).write_bytes(content)
    found = Pause(folder)
    holds = found.holds(NOW)
    try:
        until = json.loads(content)["until"]
    except (ValueError, TypeError, KeyError):
        until = None
    assert holds or (isinstance(until, int | float) and 0 <= until <= NOW)
