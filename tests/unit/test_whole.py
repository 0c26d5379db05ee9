"""What files are written over, and what is none."""

import os
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from exporter.acks import Acks
from exporter.cli import main
from exporter.release import Release
from exporter.state import State
from exporter.whole import read_whole, write_named, write_whole

Write = Callable[[Path, bytes], None]
METRICS = ["metrics", "--simulate", "bare", "--output"]


def fifo(path: Path) -> None:
    os.mkfifo(path)


def listening(path: Path) -> None:
    """A socket's file, which outlives the socket."""
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))


def device(kind: int, number: tuple[int, int]) -> Callable[[Path], None]:
    """A device's node, far from /dev."""

    def make(path: Path) -> None:
        try:
            os.mknod(path, kind | 0o666, os.makedev(*number))
            path.open("rb").close()
        except OSError as error:
            pytest.skip(f"no device can be made and opened here: {error}")

    return make


def disk(path: Path) -> None:
    """A disk that there is not: 259:4095."""
    try:
        os.mknod(path, stat.S_IFBLK | 0o666, os.makedev(259, 4095))
    except OSError as error:
        pytest.skip(f"no device can be made here: {error}")


NULL = device(stat.S_IFCHR, (1, 3))
FULL = device(stat.S_IFCHR, (1, 7))
Make = Callable[[Path], None]


@pytest.mark.parametrize(
    "make", [fifo, listening, disk, NULL, Path.mkdir], ids=["fifo", "socket", "disk", "null", "dir"]
)
def test_state_replaces_nothing_but_files(tmp_path: Path, make: Make) -> None:
    path = tmp_path / "acks.json"
    make(path)
    before = path.lstat()
    with pytest.raises(OSError, match=r"not a file|Is a directory"):
        write_whole(path, b"new")
    assert os.path.samestat(before, path.lstat())
    assert list(tmp_path.iterdir()) == [path]


def test_state_does_not_follow_links(tmp_path: Path) -> None:
    other = tmp_path / "shadow"
    other.write_text("mine")
    link = tmp_path / "acks.json"
    link.symlink_to(other)
    write_whole(link, b"new")
    assert (other.read_bytes(), link.read_bytes(), link.is_symlink()) == (b"mine", b"new", False)


@pytest.mark.parametrize("write", [write_whole, write_named])
def test_a_write_that_is_ended_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(*_: object) -> None:
        raise SystemExit(143)

    path = tmp_path / "eastwest.prom"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, "fchmod", told)
    with pytest.raises(SystemExit):
        write(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("there", [True, False], ids=["there", "not yet there"])
def test_output_goes_where_a_link_points(tmp_path: Path, there: bool) -> None:
    real = tmp_path / "real/eastwest.prom"
    real.parent.mkdir()
    if there:
        real.write_text("old")
    (tmp_path / "second").symlink_to("real/eastwest.prom")
    link = tmp_path / "first"
    link.symlink_to(tmp_path / "second")
    assert main([*METRICS, str(link)]) == 0
    assert link.is_symlink()
    assert real.read_text().startswith("# HELP eastwest_")
    assert list(real.parent.iterdir()) == [real]


def test_a_reader_of_a_pipe_gets_all_of_it(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    got: list[bytes] = []
    reader = Thread(target=lambda: got.append(path.read_bytes()), daemon=True)
    reader.start()
    assert main([*METRICS, str(path)]) == 0
    reader.join(10)
    assert stat.S_ISFIFO(path.lstat().st_mode)
    assert got[0].startswith(b"# HELP eastwest_")
    assert got[0].endswith(b"\n")


def test_a_null_device_stays_one(tmp_path: Path) -> None:
    path = tmp_path / "null"
    NULL(path)
    assert main([*METRICS, str(path)]) == 0
    assert stat.S_ISCHR(path.lstat().st_mode)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (listening, "not a file, and left as it is"),
        (disk, "not a file, and left as it is"),
        (FULL, "No space left on device"),
        (Path.mkdir, "Is a directory"),
        (lambda path: path.symlink_to(path), "Too many levels of symbolic links"),
    ],
    ids=["socket", "disk", "full", "dir", "loop"],
)
def test_what_can_not_be_written_is_one_line_and_stays(
    tmp_path: Path, make: Make, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "thing"
    make(path)
    before = path.lstat()
    assert main([*METRICS, str(path)]) == 2
    assert capsys.readouterr().err == f"eastwest: --output: {path}: {said}\n"
    assert os.path.samestat(before, path.lstat())
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="no /dev/stdout")
def test_standard_output_by_its_name_is_added_to(tmp_path: Path) -> None:
    """As in `eastwest metrics --output /dev/stdout >> file`, whose file is not another one afterwards."""
    file = tmp_path / "out"
    file.write_text("kept\n")
    with file.open("a") as output:
        command = [sys.executable, "-m", "exporter", *METRICS, "/dev/stdout"]
        assert subprocess.run(command, stdout=output, check=False, timeout=60).returncode == 0
        assert os.path.samestat(os.fstat(output.fileno()), file.stat())
    assert file.read_text().startswith("kept\n# HELP eastwest_")


@pytest.mark.parametrize("make", [fifo, listening, Path.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_file_is_never_waited_for(tmp_path: Path, make: Make) -> None:
    for name in ("acks.json", "release.json", "state.json"):
        make(tmp_path / name)
        with pytest.raises(OSError):  # noqa: PT011 - each kind has its own errno
            read_whole(tmp_path / name)
    assert Acks(tmp_path).current() == ()
    assert not Release(tmp_path).active()
    State(tmp_path, create=True).close()


def test_a_file_without_end_is_refused(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"x" * 10)
    assert read_whole(tmp_path / "big", 10) == b"x" * 10
    with pytest.raises(OSError, match="too large"):
        read_whole(tmp_path / "big", 9)
