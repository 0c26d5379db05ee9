"""User-space RDMA in the guest: the distribution's pyverbs on real devices, through the daemon's own way to it."""

import json

import pytest

from tests.vm.guest import ONCE, Scrape
from tests.vm.machine import ROOT, Machine

pytestmark = pytest.mark.vm
PYVERBS = "/usr/lib/python3/dist-packages/pyverbs"


@pytest.fixture
def verbs(rdma: Machine) -> Machine:
    """A guest whose distribution has pyverbs."""
    if rdma.sh(f"test -d {PYVERBS}", check=False).status:
        pytest.skip("not on this machine: python3-pyverbs")
    return rdma


def test_what_programs_see_is_what_sysfs_says(verbs: Machine) -> None:
    ask = f"/usr/bin/python3 -I {ROOT}/exporter/hardware/verbs.py"
    told = json.loads(verbs.sh(f"""echo '["rxe0", "rxe8", "mlx5_0"]' | {ask}""", seconds=90).out)
    assert set(told) == {"rxe0", "rxe8"}  # rxe1 was not asked for, mlx5_0 is not there
    guid = verbs.sh("cat /sys/class/infiniband/rxe0/node_guid").out.strip()
    assert told["rxe0"]["guid"] == guid.replace(":", "")
    port = told["rxe0"]["ports"]["1"]
    assert (port["state"], port["active_mtu"], port["max_mtu"]) == (4, 5, 5)  # the netdev has room for 4096
    assert (port["width"], port["speed"]) == (1, 8)  # 10 Gb/sec (1X FDR10)
    assert told["rxe8"]["ports"]["1"]["active_mtu"] == 3  # 1024 under an MTU of 1500


def test_metrics_and_a_device_that_may_not_be_opened(verbs: Machine) -> None:
    scrape = Scrape(verbs.sh(ONCE, seconds=200).out)
    assert {dict(labels)["device"]: mtu for labels, mtu in scrape.all("port_active_mtu_bytes").items()} == {
        "rxe0": 4096,
        "rxe1": 4096,
        "rxe8": 1024,
    }
    assert set(scrape.all("nic_user_space_usable").values()) == {1.0}
    assert scrape.value("rdma_namespaces_exclusive") == 0
    verbs.sh("mv /dev/infiniband/uverbs1 /dev/infiniband/hidden")
    try:
        hidden = Scrape(verbs.sh(ONCE, seconds=200).out)
    finally:
        verbs.sh("mv /dev/infiniband/hidden /dev/infiniband/uverbs1")
    assert sorted(hidden.all("nic_user_space_usable").values()) == [0.0, 1.0, 1.0]
    assert hidden.value("check_success", check="verbs") == 1


def test_the_namespace_mode_is_followed(verbs: Machine) -> None:
    verbs.sh("rdma system set netns exclusive")
    try:
        assert Scrape(verbs.sh(ONCE, seconds=200).out).value("rdma_namespaces_exclusive") == 1
    finally:
        verbs.sh("rdma system set netns shared")


def test_without_pyverbs_nothing_is_said(verbs: Machine) -> None:
    verbs.sh(f"mount -t tmpfs none {PYVERBS}")
    try:
        done = verbs.sh(ONCE, seconds=200)
    finally:
        verbs.sh(f"umount {PYVERBS}")
    scrape = Scrape(done.out)
    assert not scrape.all("nic_user_space_usable")
    assert scrape.value("check_success", check="verbs") == 1
    assert "verbs" not in done.err
