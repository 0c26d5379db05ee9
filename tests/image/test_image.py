"""The image as it is deployed: another user than root, nothing to write to, no capability; and it ends when told."""

import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

pytestmark = pytest.mark.image
TAG = "localhost/eastwest:test"
CONFINED = ["--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"]  # noqa: S108
SETTINGS = {
    "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
    "CONTAINERS_CONF": str(Path(__file__).with_name("containers.conf")),
}


def podman(*arguments: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run(
        ["podman", *arguments], capture_output=True, text=True, timeout=120, check=False, env=SETTINGS
    )
    assert not check or done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module", autouse=True)
def image() -> None:
    if shutil.which("podman") is None:
        pytest.skip("no podman on this machine")
    if podman("image", "exists", TAG, check=False).returncode:
        pytest.skip(f"no image {TAG}: make image-test builds it")


@pytest.fixture
def container() -> Iterator[str]:
    """`serve --simulate slow-port`, confined."""
    argv = ["serve", "--simulate", "slow-port", "--listen", "127.0.0.1:0"]
    name = podman("run", "-d", "--no-healthcheck", "--network", "host", *CONFINED, TAG, *argv).stdout.strip()
    try:
        yield name
    finally:
        podman("rm", "-f", "-t", "1", name, check=False)


def url(container: str) -> str:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        logs = podman("logs", container)
        if match := re.search(r"listening on (http\S+)", logs.stdout + logs.stderr):
            return match[1]
        time.sleep(0.2)
    raise AssertionError(logs.stdout + logs.stderr)


def test_the_slow_port_is_served_by_a_user_without_rights_who_can_write_nothing(container: str) -> None:
    where = url(container)
    end = time.monotonic() + 30
    while "eastwest_port_up" not in (text := httpx.get(f"{where}/metrics", timeout=5).text):
        assert time.monotonic() < end
        time.sleep(0.2)
    rates = re.findall(r'^eastwest_port_rate_bytes_per_second{device="mlx5_5",.*} (\S+)$', text, re.MULTILINE)
    assert [float(rate) for rate in rates] == [12.5e9]
    assert podman("exec", container, "id", "-u").stdout == "10428\n"
    status = podman("exec", container, "cat", "/proc/1/status").stdout
    assert re.search(r"^CapEff:\s+0+$", status, re.MULTILINE)
    for path in ("/opt/eastwest/x", "/var/lib/eastwest/x", "/etc/x"):
        assert podman("exec", container, "touch", path, check=False).returncode != 0


def test_as_process_1_it_ends_by_sigterm_with_status_0_within_5_seconds(container: str) -> None:
    url(container)
    began = time.monotonic()
    podman("stop", "-t", "20", container)
    assert time.monotonic() - began < 5
    assert podman("inspect", "--format", "{{.State.ExitCode}}", container).stdout == "0\n"


@pytest.mark.parametrize(("arguments", "status"), [(["serve", "--listen", "nonsense"], 2), (["--version"], 0)])
def test_exit_statuses_reach_the_outside(arguments: list[str], status: int) -> None:
    done = podman("run", "--rm", "--no-healthcheck", "--network", "host", *CONFINED, TAG, *arguments, check=False)
    assert done.returncode == status
    assert len((done.stdout + done.stderr).splitlines()) == 1


def test_the_health_check_tells_a_daemon_that_answers_from_one_that_is_not_there(container: str) -> None:
    """The command of HEALTHCHECK, as the image has it, at the port that this daemon has."""
    config = json.loads(podman("image", "inspect", TAG).stdout)[0]
    kind, *command = config["Healthcheck"]["Test"]
    assert kind == "CMD"
    port = url(container).rpartition(":")[2]
    asked = [part.replace("10428", port) for part in command]
    assert podman("exec", container, *asked).returncode == 0
    assert podman("exec", container, *(part.replace("10428", "1") for part in command), check=False).returncode == 1
    assert config["User"] == "10428:10428"


def test_pyverbs_and_perftest_are_there_for_the_python_that_asks() -> None:
    run = ["run", "--rm", "--no-healthcheck", "--network", "none", *CONFINED, "--entrypoint"]
    ask = (
        "from exporter.hardware.verbs_client import command; import subprocess; print(command()[0], flush=True); "
        "subprocess.run(command(), input=b'[]\\n', check=True)"
    )
    done = podman(*run, "/opt/eastwest/bin/python3", TAG, "-c", ask)
    assert done.stdout.splitlines() == ["/usr/bin/python3", "{}"]
    assert "Usage" in podman(*run, "ib_write_bw", TAG, "--help", check=False).stdout
