"""Our real unit under a real systemd: started, killed, reloaded, stood still, hung, ended.

In this order, on one guest.
"""

import time
from collections.abc import Callable, Mapping

import pytest

from tests.vm.guest import Daemon, Scrape
from tests.vm.machine import GuestError, Machine

pytestmark = pytest.mark.vm
CONFIG = "/etc/eastwest/eastwest.yml"
UNITS = "/etc/systemd/system"
HANG_PORT = 10429
WATCHDOG = 30
OPEN = """
import errno, os
for path in ("/dev/infiniband/uverbs0", "/root/gpu0", "/root/gpu9", "/dev/kmsg", "/dev/mem"):
    try:
        os.close(os.open(path, os.O_RDWR))
        print(path, "opens")
    except OSError as error:
        print(path, errno.errorcode[error.errno])
"""
GATE = """
from pathlib import Path
from exporter.hardware.slurm import SlurmJobs
try:
    print("gate: holders", SlurmJobs(Path("/proc"), Path("/sys/fs/cgroup")).holders(), flush=True)
except Exception as error:
    print("gate:", type(error).__name__, error, flush=True)
"""


def state(guest: Machine, unit: str = "eastwest") -> Mapping[str, str]:
    """What systemd says of a unit."""
    names = "ActiveState,SubState,NRestarts,MainPID,Result,ExecMainStatus,StatusText"
    return dict(line.split("=", 1) for line in guest.sh(f"systemctl show -p {names} {unit}").out.splitlines())


def until(guest: Machine, what: Callable[[Mapping[str, str]], bool], seconds: float, unit: str = "eastwest") -> float:
    """Wait for a state; how long it took."""
    began = time.monotonic()
    while not what(now := state(guest, unit)):
        assert time.monotonic() - began < seconds, (now, journal(guest, unit))
        time.sleep(0.5)
    return time.monotonic() - began


def journal(guest: Machine, unit: str = "eastwest") -> str:
    return guest.sh(f"journalctl -u {unit} -o cat --no-pager").out


def restarted(count: int) -> Callable[[Mapping[str, str]], bool]:
    return lambda now: now["ActiveState"] == "active" and now["NRestarts"] == str(count)


def copied(guest: Machine, name: str, *edits: str) -> None:
    """A second unit, of ours but for these edits by sed."""
    script = " ".join(f"-e '{edit}'" for edit in edits)
    guest.sh(f"sed {script} {UNITS}/eastwest.service > {UNITS}/{name}.service && systemctl daemon-reload")


def test_after_three_commands_it_is_active_and_says_what_is_there(service: Machine) -> None:
    now = state(service)
    assert (now["ActiveState"], now["NRestarts"]) == ("active", "0")
    assert now["StatusText"] == "listening on http://0.0.0.0:10428"
    scrape = Daemon(service).until(lambda page: len(page.all("port_up")) == 2)
    assert set(scrape.all("port_up").values()) == {1.0}
    assert not scrape.all("source_errors_total")
    assert service.sh(f"systemd-analyze verify {UNITS}/eastwest*", seconds=60).err == ""
    complaints = [line for line in journal(service).splitlines() if line.startswith(("WARNING", "ERROR"))]
    assert not complaints


def test_it_has_no_privilege(service: Machine) -> None:
    lines = service.sh(f"cat /proc/{state(service)['MainPID']}/status").out.splitlines()
    status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert "0" not in status["Uid"].split()
    assert service.sh("stat -c '%U %a' /var/lib/eastwest").out == "eastwest 755\n"
    assert "rxe0" in service.sh("cat /var/lib/eastwest/state.json").out


def test_the_devices_of_nvml_and_verbs_open_and_no_others(service: Machine) -> None:
    """A GPU's node without a driver answers ENXIO where systemd lets it through, EPERM where not: rules by number."""
    service.sh("mknod -m 666 /root/gpu0 c 195 0; mknod -m 666 /root/gpu9 c 195 9; chmod 755 /root")
    service.sh(f"cat > /run/open.py <<'PY'{OPEN}PY")
    copied(
        service,
        "eastwest-devices",
        "s#^ExecStart=.*#ExecStart=/opt/eastwest/bin/python3 /run/open.py#",
        "s#^Type=.*#Type=oneshot#",
        "s#^ProtectHome=.*#ProtectHome=no#",
        "/^Watchdog/d;/^Restart/d;/^StateDirectory/d",
    )
    service.sh("systemctl start eastwest-devices", seconds=200)
    said = dict(line.split() for line in journal(service, "eastwest-devices").splitlines() if line.startswith("/"))
    assert said.pop("/dev/mem") in ("EPERM", "EACCES")
    assert said == {
        "/dev/infiniband/uverbs0": "opens",
        "/root/gpu0": "ENXIO",
        "/root/gpu9": "EPERM",
        "/dev/kmsg": "EACCES",
    }


def test_the_slurm_gate_sees_roots_daemons_from_inside_the_unit(service: Machine) -> None:
    """And with processes hidden, as a site may have it, it does not take that for a node without Slurm."""
    service.sh(f"cat > /run/gate.py <<'PY'{GATE}PY")
    service.sh("cp $(readlink -f $(command -v sleep)) /run/slurmd; cp /run/slurmd /run/slurmstepd")
    script = "s#^ExecStart=.*#ExecStart=/opt/eastwest/bin/python3 /run/gate.py#"
    once = ("s#^Type=.*#Type=oneshot#", "/^Watchdog/d;/^Restart/d;/^StateDirectory/d")
    copied(service, "eastwest-gate", script, *once)
    copied(service, "eastwest-gate-hidden", script, "s#^ProtectProc=.*#ProtectProc=invisible#", *once)

    def said(unit: str) -> str:
        service.sh(f"systemctl start {unit}", seconds=200)
        return [line for line in journal(service, unit).splitlines() if line.startswith("gate: ")][-1]

    assert said("eastwest-gate") == "gate: Unavailable no slurmd runs here"
    assert said("eastwest-gate-hidden").startswith("gate: SourceError the host's processes can't be seen")
    service.sh("systemd-run --unit=fake-slurmd /run/slurmd 3600")
    assert said("eastwest-gate") == "gate: holders ()"
    service.sh("systemd-run --unit=fake-step bash -c 'exec -a \"slurmstepd: [43.batch]\" /run/slurmstepd 3600'")
    assert said("eastwest-gate") == "gate: holders ('job 43',)"
    assert said("eastwest-gate-hidden").startswith("gate: SourceError")
    service.sh("systemctl stop fake-slurmd fake-step")


def test_the_unit_gives_probes_what_they_need(service: Machine) -> None:
    """As systemd has taken it, not as the file says it."""
    names = "OOMPolicy,TasksMax,MemoryMax,LimitMEMLOCK,ProtectProc"
    shown = service.sh(f"systemctl show -p {names} eastwest").out.splitlines()
    assert dict(line.split("=", 1) for line in shown) == {
        "OOMPolicy": "continue",
        "TasksMax": "1024",
        "MemoryMax": str(8 << 30),
        "LimitMEMLOCK": "infinity",
        "ProtectProc": "default",
    }


def test_killed_it_is_started_again(service: Machine) -> None:
    # The one that hangs in a check begins here: it must outlive the watchdog's time several times over.
    copied(
        service,
        "eastwest-hang",
        f"s#^ExecStart=.*#ExecStart=/opt/eastwest/bin/eastwest serve --simulate hang --listen 127.0.0.1:{HANG_PORT}#",
        "/^StateDirectory/d",
    )
    before = state(service)["MainPID"]
    service.sh("systemctl kill -s KILL eastwest")
    until(service, restarted(1), 300)
    assert state(service)["MainPID"] != before
    Daemon(service).until(lambda page: len(page.all("port_up")) == 2)
    service.sh("systemctl start eastwest-hang", seconds=300)


def test_a_reload_is_used_and_a_bad_one_is_not(service: Machine) -> None:
    daemon = Daemon(service)
    service.sh(f"echo 'node: {{name: renamed}}' > {CONFIG}; systemctl reload eastwest")
    daemon.until(lambda page: page.value("node_info", node="renamed") == 1)
    service.sh(f"echo 'node: {{nam: typo}}' > {CONFIG}; systemctl reload eastwest")
    page = daemon.until(lambda page: page.value("config_last_reload_successful") == 0)
    assert page.value("node_info", node="renamed") == 1
    assert "nam" in journal(service)
    service.sh(f"echo 'node: {{name: renamed}}' > {CONFIG}; systemctl reload eastwest")
    daemon.until(lambda page: page.value("config_last_reload_successful") == 1)
    assert (state(service)["ActiveState"], state(service)["NRestarts"]) == ("active", "1")


def test_standing_still_it_is_restarted_by_the_watchdog(service: Machine) -> None:
    service.sh("systemctl kill -s STOP eastwest")
    took = until(service, lambda now: now["NRestarts"] == "2", 3 * WATCHDOG)
    assert took > WATCHDOG / 2
    assert "Watchdog timeout" in journal(service)
    assert "most recent call first" in journal(service)  # where its threads stood
    until(service, restarted(2), 300)
    Daemon(service).until(lambda page: len(page.all("port_up")) == 2)


def test_a_check_that_hangs_is_shown_and_starves_no_watchdog(service: Machine) -> None:
    daemon = Daemon(service, HANG_PORT)
    daemon.until(lambda page: page.value("check_success", check="infiniband") == 0, seconds=60)
    age = "ps -o etimes= -p $(systemctl show -P MainPID eastwest-hang)"
    while int(service.sh(age).out) < 2 * WATCHDOG:
        time.sleep(1)
    now = state(service, "eastwest-hang")
    assert (now["ActiveState"], now["NRestarts"]) == ("active", "0")
    assert daemon.scrape().value("check_success", check="host") == 1
    assert "hangs for" in daemon.get("/")
    assert stop(service, "eastwest-hang") < 5


def stop(guest: Machine, unit: str) -> float:
    """Stop it; seconds by the guest's own clock."""
    out = guest.sh(f"a=$(date +%s%N); systemctl stop {unit}; b=$(date +%s%N); echo $((b - a))").out
    now = state(guest, unit)
    assert (now["ActiveState"], now["Result"], now["ExecMainStatus"]) == ("inactive", "success", "0")
    return int(out) / 1e9


def test_it_ends_within_five_seconds(service: Machine) -> None:
    assert stop(service, "eastwest") < 5


def test_a_mistake_in_the_configuration_is_a_failure_and_not_tried_again(service: Machine) -> None:
    service.sh(f"echo 'node: {{nam: typo}}' > {CONFIG}")
    service.sh("systemctl reset-failed eastwest; systemctl start eastwest", seconds=300, check=False)
    now = state(service)
    assert (now["ActiveState"], now["ExecMainStatus"], now["NRestarts"]) == ("failed", "2", "0")
    service.sh(f"echo > {CONFIG}")


def test_the_textfile_collector_gets_its_file(service: Machine) -> None:
    service.sh("systemctl start eastwest-textfile.timer")
    service.sh("until [ -s /run/eastwest-textfile/eastwest.prom ]; do sleep 0.5; done", seconds=90)
    scrape = Scrape(service.sh("cat /run/eastwest-textfile/eastwest.prom").out)
    assert set(scrape.all("port_up").values()) == {1.0}
    assert service.sh("stat -c '%U %a' /run/eastwest-textfile/eastwest.prom").out == "eastwest 644\n"
    until(service, lambda now: now["ActiveState"] == "inactive", 30, "eastwest-textfile")
    assert state(service, "eastwest-textfile")["Result"] == "success"
    service.sh("systemctl stop eastwest-textfile.timer")


def test_removed_it_leaves_configuration_and_state(service: Machine) -> None:
    service.sh("./eastwest-exporter-*/install.sh --remove", seconds=60)
    left = service.sh(
        "ls -d /opt/eastwest /etc/systemd/system/eastwest.service /etc/eastwest/eastwest.yml "
        "/var/lib/eastwest/state.json",
        check=False,
    ).out
    assert left.split() == ["/etc/eastwest/eastwest.yml", "/var/lib/eastwest/state.json"]
    with pytest.raises(GuestError):
        Daemon(service).get("/metrics")
