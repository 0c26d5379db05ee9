"""One guest with soft-RoCE devices for all tests of ports, one with systemd for those of the service."""

import shutil
from collections.abc import Iterator

import pytest

from tests.vm.guest import Daemon, serving, soft_roce
from tests.vm.machine import Machine, missing

NEEDED = ("ib_write_bw", "rdma", "ethtool", "curl", "ss")
CONFIG = """
checks: {infiniband: {interval: 1s}, roce: {interval: 5s}}
paths: {state: /run/eastwest}
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
