"""The installer, on a root of its own and, where that is allowed, on this machine's in a namespace of mounts."""

import os
import platform
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UNITS = ROOT / "deploy/systemd"
PYTHONS = f"{Path(sys.base_prefix) / 'bin'}:/usr/sbin:/usr/bin:/sbin:/bin"
MADE = ("opt", "opt/eastwest", "etc/eastwest", "etc/systemd/system", "etc/sysusers.d")


def run(*argv: str | Path, umask: int = 0o022, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        argv,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PATH": "/usr/bin:/bin", **environment},
        umask=umask,
    )


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """An unpacked archive of a program that says its arguments."""
    folder = tmp_path / "archive"
    (folder / "lib/exporter").mkdir(parents=True)
    (folder / "lib/exporter/__init__.py").write_text("")
    (folder / "lib/exporter/__main__.py").write_text("import sys\ndef run(): print(sys.argv[1:]); sys.exit(3)\n")
    shutil.copytree(UNITS, folder / "systemd")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    text = (UNITS / "install.sh").read_text().replace("@PYTHON@", version).replace("@MACHINE@", platform.machine())
    (folder / "install.sh").write_text(text)
    return folder


def install(archive: Path, root: Path, *arguments: str, umask: int = 0o022) -> "subprocess.CompletedProcess[str]":
    return run("sh", archive / "install.sh", *arguments, umask=umask, DESTDIR=str(root), PATH=PYTHONS)


def on_this_machine(archive: Path, *commands: str) -> "subprocess.CompletedProcess[str]":
    """Shell commands where /etc, /opt and /run are empty but for what they hold of users, and nothing of it is kept."""
    script = "\n".join(
        [
            "set -e",
            "mkdir /tmp/etc.$$ && cp -a /etc/passwd /etc/group /etc/shadow /etc/ld.so.cache /tmp/etc.$$/",
            "mount -t tmpfs none /etc && cp -a /tmp/etc.$$/. /etc/ && rm -r /tmp/etc.$$",
            "mount -t tmpfs none /opt && mount -t tmpfs none /run && mount -t tmpfs none /var/lib",
            *commands,
        ]
    )
    if os.geteuid() or run("unshare", "-m", "mount", "-t", "tmpfs", "none", "/opt").returncode:
        pytest.skip("no namespace of mounts can be had here")
    return run("unshare", "-m", "sh", "-c", script, INSTALL=str(archive / "install.sh"), PATH=PYTHONS)


def test_install_upgrade_and_remove_leave_the_configuration_alone(archive: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    config = root / "etc/eastwest/eastwest.yml"
    assert (done := install(archive, root)).returncode == 0, done.stderr
    config.write_text("node: {name: mine}\n")
    (archive / "lib/exporter/new.py").write_text("")
    assert install(archive, root).returncode == 0
    assert config.read_text() == "node: {name: mine}\n"
    assert list((root / "opt/eastwest").glob("lib/python*/site-packages/exporter/new.py"))
    assert sorted(path.name for path in (root / "opt").iterdir()) == ["eastwest"]
    launcher = root / "opt/eastwest/bin/eastwest"
    assert launcher.read_text().startswith("#!/opt/eastwest/bin/python3 ")
    done = run(root / "opt/eastwest/bin/python3", launcher, "serve")
    assert (done.returncode, done.stdout) == (3, "['serve']\n")
    textfile = root / "run/eastwest-textfile/eastwest.prom"
    textfile.parent.mkdir(parents=True)
    textfile.write_text("stale")
    assert install(archive, root, "--remove").returncode == 0
    assert [path.relative_to(root) for path in root.rglob("*") if path.is_file()] == [Path("etc/eastwest/eastwest.yml")]


def test_a_python_for_which_nothing_was_built_is_refused(archive: Path, tmp_path: Path) -> None:
    script = archive / "install.sh"
    script.write_text(re.sub(r"^wanted=.*$", "wanted=3.99", script.read_text(), flags=re.MULTILINE))
    done = install(archive, tmp_path / "root")
    assert done.returncode == 1
    assert "Python 3.99 is needed" in done.stderr
    assert not (tmp_path / "root/opt/eastwest").exists()


@pytest.mark.parametrize("umask", [0o022, 0o027, 0o077], ids=oct)
def test_any_user_can_read_it_whatever_roots_umask_is(archive: Path, tmp_path: Path, umask: int) -> None:
    root = tmp_path / "root"
    assert (done := install(archive, root, umask=umask)).returncode == 0, done.stderr
    for path in [root, *root.rglob("*")]:
        mode = path.lstat().st_mode
        wanted = 0o755 if stat.S_ISDIR(mode) else 0o444
        assert stat.S_ISLNK(mode) or stat.S_IMODE(mode) & wanted == wanted, path
        assert stat.S_ISLNK(mode) or not stat.S_IMODE(mode) & 0o022, path
    assert {str(path.relative_to(root)) for path in root.rglob("*") if path.is_dir()} >= set(MADE)


@pytest.mark.parametrize("flags", [("--no-start", "--remove"), ("--remove", "--no-start")])
def test_to_remove_is_to_remove_whatever_else_is_said(archive: Path, tmp_path: Path, flags: tuple[str, str]) -> None:
    root = tmp_path / "root"
    assert install(archive, root).returncode == 0
    assert install(archive, root, *flags).returncode == 0
    assert not (root / "opt/eastwest").exists()
    assert not (root / "etc/systemd/system/eastwest.service").exists()


@pytest.mark.parametrize("flags", [("--nope",), ("--no-start", "--nope"), ("--remove", "x")])
def test_a_typo_does_nothing(archive: Path, tmp_path: Path, flags: tuple[str, ...]) -> None:
    done = install(archive, tmp_path / "root", *flags)
    assert (done.returncode, done.stdout) == (1, "")
    assert "usage: install.sh" in done.stderr
    assert not (tmp_path / "root").exists()


@pytest.mark.parametrize("flags", [("--help",), ("--no-start", "-h")])
def test_help_is_for_anybody(archive: Path, flags: tuple[str, ...]) -> None:
    # By a shell that is not root where the tests are: what it is told of itself is all it asks.
    script = archive / "install.sh"
    script.write_text(script.read_text().replace("$(id -u)", "1000"))
    shown = run("sh", script, *flags)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.startswith("Installs eastwest")
    assert {"--no-start", "--remove", "--help", "DESTDIR"} <= set(re.findall(r"--[a-z-]+|DESTDIR", shown.stdout))
    assert "set -eu" not in shown.stdout
    assert "root is needed" in run("sh", script).stderr


@pytest.mark.parametrize("umask", ["022", "027", "077"])
def test_without_systemd_it_says_what_was_not_done_and_the_user_can_read(archive: Path, umask: str) -> None:
    read = "setpriv --reuid eastwest --regid eastwest --clear-groups"
    done = on_this_machine(
        archive,
        f"umask {umask}",
        'sh "$INSTALL"',
        "id -u eastwest >/dev/null 2>&1 || { echo no user; exit; }",
        f"{read} cat /etc/eastwest/eastwest.yml >/dev/null",
        f"{read} /opt/eastwest/bin/eastwest serve || echo status $?",
    )
    assert done.returncode == 0, done.stderr
    assert "eastwest runs" not in done.stdout
    assert "not enabled or started: systemd does not run here" in done.stdout
    if shutil.which("systemd-sysusers"):
        assert done.stdout.endswith("['serve']\nstatus 3\n")
        assert "can't read" not in done.stderr
    else:
        assert "was not made" in done.stdout


def test_a_folder_that_the_user_can_not_enter_is_said(archive: Path) -> None:
    if shutil.which("systemd-sysusers") is None:
        pytest.skip("no systemd-sysusers on this machine")
    done = on_this_machine(archive, "mkdir -m 750 /etc/eastwest", 'sh "$INSTALL"', "stat -c %a /etc/eastwest")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("750\n")
    assert "the user eastwest can't read /etc/eastwest/eastwest.yml" in done.stderr


def test_removed_from_this_machine_it_leaves_no_stale_textfile(archive: Path) -> None:
    done = on_this_machine(
        archive,
        'sh "$INSTALL" --no-start',
        "mkdir /run/eastwest-textfile && echo > /run/eastwest-textfile/eastwest.prom",
        'sh "$INSTALL" --remove',
        "ls -d /opt/* /run/east* /etc/eastwest/* /etc/systemd/system/* 2>/dev/null || true",
    )
    assert done.returncode == 0, done.stderr
    assert "/etc/eastwest, /var/lib/eastwest and the user eastwest stay" in done.stdout
    assert done.stdout.endswith("stay\n/etc/eastwest/eastwest.yml\n")
