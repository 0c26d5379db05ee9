"""The Makefile's set-up, on a stub of the project: what was interrupted, moved or broken is made anew, what is whole is
left alone.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e
ROOT = Path(__file__).parents[2]
PROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "eastwest-exporter"
version = "0"
"""
BACKEND = """
import pathlib, zipfile
def build_editable(folder, settings=None, metadata=None):
    info = "eastwest_exporter-0.dist-info"
    with zipfile.ZipFile(f"{folder}/eastwest_exporter-0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("eastwest.pth", str(pathlib.Path.cwd()))
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\\nName: eastwest-exporter\\nVersion: 0\\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{info}/entry_points.txt", "[console_scripts]\\neastwest = stub:main\\n")
        wheel.writestr(f"{info}/RECORD", "")
    return "eastwest_exporter-0-py3-none-any.whl"
"""
Damage = Callable[[Path], object]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Makefile, and as little as it can install; set up once."""
    folder = tmp_path_factory.mktemp("make") / "a checkout, (mine)"
    folder.mkdir()
    shutil.copy(ROOT / "Makefile", folder)
    (folder / "pyproject.toml").write_text(PROJECT)
    (folder / "backend.py").write_text(BACKEND)
    (folder / "stub.py").write_text("import os\ndef main(): print(os.path.dirname(__file__))\n")
    (folder / "requirements.lock").write_text("")
    (folder / "requirements-dev.lock").write_text("")
    assert (done := make(folder)).returncode == 0, done.stderr
    return folder


def make(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "VIRTUAL_ENV"))}
    return subprocess.run(
        ["make", *(arguments or ("install",))],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**environment, "PIP_NO_INDEX": "1"},
    )


def works(folder: Path) -> bool:
    done = subprocess.run([folder / ".venv/bin/eastwest"], capture_output=True, text=True, check=False)
    return done.stdout == f"{folder}\n"


def without_pip(folder: Path) -> None:
    """As Ctrl-C leaves it while ensurepip runs, and Debian without python3-venv."""
    shutil.rmtree(folder / ".venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / ".venv"], check=True)


def without_python(folder: Path) -> None:
    """As an upgrade of the distribution leaves it."""
    for path in (folder / ".venv/bin").glob("python*"):
        path.unlink()
        path.symlink_to("/nowhere/python3")


def without_stamp(folder: Path) -> None:
    """As Ctrl-C leaves it while pip installs."""
    (folder / ".venv/.installed").unlink()
    (folder / ".venv/bin/eastwest").write_text("half")


def test_what_is_whole_is_left_alone(project: Path) -> None:
    assert works(project)
    done = make(project)
    assert (done.returncode, done.stderr) == (0, "")
    assert "making" not in done.stdout
    assert "installing" not in done.stdout


@pytest.mark.parametrize("damage", [without_pip, without_python, without_stamp], ids=lambda damage: damage.__name__)
def test_what_is_half_made_is_made_anew(project: Path, damage: Damage) -> None:
    damage(project)
    done = make(project)
    assert done.returncode == 0, done.stderr
    assert "making .venv" in done.stdout
    assert works(project)


@pytest.mark.parametrize("seconds", [0.5, 3.0])
def test_ctrl_c_at_any_moment_is_repaired_by_the_next_make(project: Path, seconds: float) -> None:
    shutil.rmtree(project / ".venv")
    with subprocess.Popen(
        ["make", "install"], cwd=project, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, process_group=0
    ) as running:
        time.sleep(seconds)
        os.killpg(running.pid, signal.SIGINT)
        running.wait(timeout=60)
    done = make(project)
    assert done.returncode == 0, done.stderr
    assert works(project)


def test_a_folder_that_was_moved_is_set_up_where_it_is_now(project: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere"
    shutil.copytree(project, moved, symlinks=True)
    assert not works(moved)
    assert (done := make(moved)).returncode == 0, done.stderr
    assert works(moved)


def test_a_python_without_venv_is_said_with_what_to_install(project: Path, tmp_path: Path) -> None:
    """Debian's python3 without python3-venv."""
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copy(project / name, tmp_path)
    python = tmp_path / "python3"
    python.write_text(f'#!/bin/sh\ncase "$*" in *ensurepip*|*venv*) exit 1;; esac\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    done = make(tmp_path, "install", f"PYTHON={python}")
    assert done.returncode == 2
    assert f"make: {python} has no venv module: apt install python3-venv" in done.stderr
    assert not (tmp_path / ".venv").exists()


def test_a_venv_that_can_not_be_made_leaves_no_half(project: Path, tmp_path: Path) -> None:
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copy(project / name, tmp_path)
    (tmp_path / "python3").write_text(
        '#!/bin/sh\nif [ "$1" = -m ]; then mkdir -p .venv/bin; ln -s /bin/true .venv/bin/python; exit 1; fi\n'
        'case "$2" in *_base_executable*) echo "$0";; esac\n'
    )
    (tmp_path / "python3").chmod(0o755)
    done = make(tmp_path, "install", f"PYTHON={tmp_path / 'python3'}")
    assert done.returncode == 2
    assert not (tmp_path / ".venv").exists()
