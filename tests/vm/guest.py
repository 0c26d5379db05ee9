"""What the tests do in a guest: soft-RoCE devices, traffic between them, the daemon and what it says."""

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from tests.vm.machine import ROOT, GuestError, Machine

PAIR = """set -e
modprobe -a rdma_rxe veth
sysctl -qw net.ipv4.conf.all.accept_local=1 net.ipv4.conf.all.rp_filter=0
ip -batch - <<BATCH
link set lo up
link add v0 mtu 4200 type veth peer name v1 mtu 4200
addr add 10.9.0.1/24 dev v0
addr add 10.9.0.2/24 dev v1
link set v0 up
link set v1 up
BATCH
rdma link add rxe0 type rxe netdev v0
rdma link add rxe1 type rxe netdev v1
"""
"""Two devices whose packets cross a veth pair, all in the first network namespace: rxe knows no other."""
EASTWEST = f"{ROOT}/.venv/bin/eastwest"
ONCE = f"{EASTWEST} metrics --config /run/once.yml"
BW_PORT = 18515
PATIENT = ", ".join(f"{check}: {{timeout: 60s}}" for check in ("gpu", "host", "infiniband", "nvlink", "roce", "verbs"))
"""Deadlines for an emulated processor beside busy neighbours."""
_ROW = re.compile(r"^\s*(\d+)\s+(\d+)\s+[\d.]+\s+[\d.]+", re.MULTILINE)
_MTU = re.compile(r"Mtu\s*:\s*(\d+)\[B\]")
Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Moved:
    """What perftest says that it moved: bytes in all, and the path MTU in bytes."""

    bytes: int
    mtu: int


def soft_roce(guest: Machine) -> None:
    """rxe0 and rxe1, connected."""
    guest.sh(PAIR)
    guest.sh(f"echo 'checks: {{{PATIENT}}}' > /run/once.yml")


def write_bandwidth(guest: Machine, size: int, count: int) -> Moved:
    """RDMA writes from rxe0 to rxe1: `count` messages of `size` bytes."""
    # -u 20: the default wait for an answer, 67 ms, runs out on an emulated processor, and packets are sent again.
    flags = f"-F -u 20 -s {size} -n {count} -p {BW_PORT}"
    server = guest.start(f"timeout 100 ib_write_bw -d rxe1 {flags}")
    guest.sh(f"until ss -Hltn | grep -q :{BW_PORT}; do sleep 0.05; done")
    client = guest.sh(f"timeout 100 ib_write_bw -d rxe0 {flags} 10.9.0.2", seconds=110)
    assert server.result(110).status == 0, server.result().err
    row, mtu = _ROW.search(client.out), _MTU.search(client.out)
    assert row is not None, client.out
    assert mtu is not None, client.out
    return Moved(int(row[1]) * int(row[2]), int(mtu[1]))


class Scrape:
    """A page of metrics: values by series, and what is asked of them."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._values: dict[tuple[str, Labels], float] = {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def value(self, name: str, **labels: str) -> float | None:
        """The one series of this name whose labels contain these; None where there is none."""
        found = self.all(name, **labels)
        assert len(found) <= 1, found
        return next(iter(found.values()), None)

    def all(self, name: str, **labels: str) -> Mapping[Labels, float]:
        """Every series of this name whose labels contain these."""
        return {
            has: value
            for (of, has), value in self._values.items()
            if of == f"eastwest_{name}" and labels.items() <= dict(has).items()
        }


@dataclass(frozen=True, slots=True)
class Daemon:
    """A daemon in a guest, asked from inside."""

    guest: Machine
    port: int = 10428

    def get(self, path: str) -> str:
        """The body of a page; raises GuestError where it is not answered with 200."""
        return self.guest.sh(f"curl -sf -m 10 http://127.0.0.1:{self.port}{path}").out

    def scrape(self) -> Scrape:
        """/metrics, now."""
        return Scrape(self.get("/metrics"))

    def until(self, what: Callable[[Scrape], bool], seconds: float = 60) -> Scrape:
        """The first scrape for which `what` holds; fails after `seconds`."""
        end = time.monotonic() + seconds
        while not what(scrape := self.scrape()):
            assert time.monotonic() < end, f"not within {seconds} s:\n{scrape.text}"
            time.sleep(0.3)
        return scrape


@contextmanager
def serving(guest: Machine, config: str) -> Iterator[Daemon]:
    """`eastwest serve` with this configuration, ready."""
    guest.sh(f"cat > /run/eastwest.yml <<'YAML'\n{config}\nYAML")
    guest.sh(f"{EASTWEST} serve --config /run/eastwest.yml >/run/eastwest.log 2>&1 & echo $! > /run/eastwest.pid")
    try:
        daemon = Daemon(guest)
        ready = f"curl -sf -m 5 http://127.0.0.1:{daemon.port}/readyz"
        guest.sh(f"until {ready}; do kill -0 $(cat /run/eastwest.pid) || exit 1; sleep 0.5; done", seconds=300)
        yield daemon
    except (AssertionError, GuestError) as error:
        error.add_note(guest.sh("cat /run/eastwest.log", check=False).out)
        raise
    finally:
        guest.sh(
            "kill $(cat /run/eastwest.pid); while [ -e /proc/$(cat /run/eastwest.pid) ]; do sleep 0.1; done",
            check=False,
        )


def hw_counter(guest: Machine, device: str, name: str) -> int:
    """A counter as the kernel has it."""
    return int(guest.sh(f"cat /sys/class/infiniband/{device}/ports/1/hw_counters/{name}").out)


def links(guest: Machine) -> list[str]:
    """The RDMA devices, by iproute2."""
    return [link["ifname"] for link in json.loads(guest.sh("rdma -j link").out)]
