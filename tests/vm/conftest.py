"""One guest with soft-RoCE devices for all tests of ports, one with systemd for those of the service."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.vm.guest import Daemon, serving, soft_roce
from tests.vm.machine import ROOT, Machine, missing

NEEDED = ("ib_write_bw", "rdma", "ethtool", "curl", "ss")
CONFIG = """
checks:
  infiniband: {interval: 1s, timeout: 60s}
  roce: {interval: 5s, timeout: 60s}
  host: {timeout: 60s}
  gpu: {timeout: 60s}
  nvlink: {timeout: 60s}
  verbs: {timeout: 60s}
paths: {state: /run/eastwest}
nics: [{match: rxe8, role: storage}]
expect: {storage: {rate: 100Gbit/s}}
"""


@pytest.fixture(scope="session")
def rdma() -> Iterator[Machine]:
    """rxe0 and rxe1 connected; rxe8 on a virtio NIC of 100 Gbit/s."""
    absent = ", ".join(tool for tool in NEEDED if shutil.which(tool) is None)
    if reason := missing() or (f"not on this machine: {absent}" if absent else ""):
        pytest.skip(reason)
    with Machine(nics=1) as guest:
        soft_roce(guest)
        guest.sh("modprobe virtio_net && ip link set eth0 up && rdma link add rxe8 type rxe netdev eth0")
        yield guest


@pytest.fixture(scope="session")
def daemon(rdma: Machine) -> Iterator[Daemon]:
    """`eastwest serve` in that guest."""
    with serving(rdma, CONFIG) as running:
        yield running


@pytest.fixture(scope="session")
def archive() -> Path:
    """What `make dist` made."""
    found = sorted((ROOT / "dist").glob("eastwest-exporter-*.tar.gz"))
    if not found:
        pytest.skip("no archive: make dist")
    return found[-1]


@pytest.fixture(scope="session")
def service(archive: Path) -> Iterator[Machine]:
    """A fresh guest under systemd, with two RDMA devices, in which the archive was installed as the README has it."""
    if reason := missing() or ("" if shutil.which("curl") else "not on this machine: curl"):
        pytest.skip(reason)
    with Machine(systemd=True, memory_mib=1536) as guest:
        soft_roce(guest)
        guest.sh(f"cp {archive} /root/")
        folder = archive.name.removesuffix(".tar.gz")
        guest.sh(f"tar xzf {archive.name}", seconds=300)
        guest.sh(f"./{folder}/install.sh", seconds=400)
        yield guest
