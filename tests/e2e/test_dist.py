"""The archive and the source distribution as they are made: complete, consistent, and the same bytes from anywhere."""

import base64
import csv
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e
ROOT = Path(__file__).parents[2]
UNTRACKED = shutil.ignore_patterns(
    ".*cache*", ".venv", ".git", "build", "dist", "node_modules", "__pycache__", ".hypo*"
)
UNREACHABLE = ("No matching distribution", "Could not find a version", "Connection", "Temporary failure")
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
KEPT_OUT = re.compile(r"^(\.ci|\.gitignore|\.dockerignore)")


def copied(folder: Path) -> Path:
    """What is tracked; all but what is made where git does not know."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        shutil.copytree(ROOT, folder, ignore=UNTRACKED)
        return folder
    for name in filter(None, listed.stdout.split("\0")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, folder / name)
        (folder / name).chmod((ROOT / name).stat().st_mode & 0o700)
    return folder


def built(folder: Path, umask: int) -> Path:
    environment = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    done = subprocess.run(
        ["bash", folder / "deploy/systemd/dist.sh", sys.executable],
        capture_output=True,
        text=True,
        check=False,
        umask=umask,
        env={**environment, "PYTHONPATH": str(folder), "TZ": f"X{umask % 12}"},
    )
    if done.returncode and any(word in done.stderr for word in UNREACHABLE):
        pytest.skip(f"the libraries can't be had: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    return next((folder / "dist").glob("*.tar.gz"))


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two, made at different times, at paths of different lengths, under different masks of modes."""
    first = copied(tmp_path_factory.mktemp("one") / "checkout")
    second = copied(tmp_path_factory.mktemp("another") / "a longer/path")
    with ThreadPoolExecutor() as pool:
        one = pool.submit(built, first, 0o022)
        time.sleep(2.1)  # a zip file knows two seconds apart
        two = pool.submit(built, second, 0o077)
        return one.result(), two.result()


@pytest.fixture(scope="module")
def unpacked(archives: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unpacked")
    subprocess.run(["tar", "-xzf", archives[0], "-C", folder], check=True)
    return next(folder.iterdir())


def contents(archive: Path) -> dict[str, tuple[int, str]]:
    """Modes and sums by name."""
    with tarfile.open(archive) as opened:
        return {
            member.name: (member.mode, hashlib.sha256(file.read()).hexdigest() if file else member.linkname)
            for member in opened
            for file in [opened.extractfile(member)]
        }


def test_two_builds_are_the_same_bytes(archives: tuple[Path, Path]) -> None:
    first, second = map(contents, archives)
    assert {name for name in first.keys() | second.keys() if first.get(name) != second.get(name)} == set()
    assert archives[0].read_bytes() == archives[1].read_bytes()
    assert archives[0].with_name(f"{archives[0].name}.sha256").read_text().split()[1] == archives[0].name


def test_each_record_says_what_is_there(unpacked: Path) -> None:
    lib = unpacked / "lib"
    records = list(lib.glob("*.dist-info/RECORD"))
    assert len(records) == len(list(lib.glob("*.dist-info"))) > 10
    recorded = set()
    for record in records:
        for name, digest, size in csv.reader(record.read_text().splitlines()):
            content = (lib / name).read_bytes()
            recorded.add(name)
            if digest:
                sha256 = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
                assert (digest, size) == (f"sha256={sha256}", str(len(content))), (record, name)
    there = {str(path.relative_to(lib)) for path in lib.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    assert there == recorded
    assert not list(lib.rglob("direct_url.json"))


def test_no_package_brings_what_is_none_of_it(unpacked: Path) -> None:
    names = {path.name for path in (unpacked / "lib").iterdir()}
    assert not names & {"bin", "example.py", "tests", "test", "docs", "examples", "setup.py"}
    assert {"exporter", "pynvml.py", "numpy"} <= names


def test_what_its_documents_point_to_is_in_it(unpacked: Path) -> None:
    documents = [*unpacked.glob("*.md"), *unpacked.glob("docs/**/*.md")]
    links = [(page, link) for page in documents for link in LINK.findall(page.read_text()) if "://" not in link]
    assert len(links) > 60
    assert [(str(page), link) for page, link in links if not (page.parent / link).exists()] == []


def test_the_source_distribution_holds_all_that_its_tests_and_make_need(tmp_path: Path) -> None:
    source = copied(tmp_path / "source")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", tmp_path / "dist"], cwd=source, check=True
    )
    with tarfile.open(next((tmp_path / "dist").glob("*.tar.gz"))) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {str(path.relative_to(source)) for path in source.rglob("*") if path.is_file()}
    assert {name for name in wanted - packed if not KEPT_OUT.match(name)} == set()
    assert {"Makefile", "requirements.lock", "requirements-dev.lock", "tests/unit/test_cli.py"} <= packed
