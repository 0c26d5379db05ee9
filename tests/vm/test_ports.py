"""Real RDMA devices: what the kernel says is what is served, through traffic and every change under the daemon."""

import pytest

from tests.vm.findings import cleared, found
from tests.vm.guest import ONCE, Daemon, Scrape, hw_counter, links, write_bandwidth
from tests.vm.machine import Machine

pytestmark = pytest.mark.vm
FILES = {
    "sent_pkts": "transmit_packets",
    "rcvd_pkts": "receive_packets",
    "link_downed": "link_downed",
    "out_of_seq_request": "out_of_sequence",
    "completer_retry_err": "retransmits",
}
GBIT = 1e9 / 8


def test_one_round_on_a_real_tree(rdma: Machine) -> None:
    done = rdma.sh(ONCE, seconds=200)
    scrape = Scrape(done.out)
    assert done.err == ""
    assert {dict(labels)["device"] for labels in scrape.all("port_up")} == set(links(rdma)) == {"rxe0", "rxe1", "rxe8"}
    for device, netdev in (("rxe0", "v0"), ("rxe1", "v1"), ("rxe8", "eth0")):
        assert scrape.value("port_up", device=device) == 1
        assert scrape.value("port_state_id", device=device) == 4
        assert scrape.value("port_info", device=device, netdev=netdev, link_layer="Ethernet", virtual="true") == 1
        for file, name in FILES.items():
            assert scrape.value(f"port_{name}_total", device=device) == hw_counter(rdma, device, file)
        # rxe counts no bytes: absent, not zero
        assert scrape.value("port_transmit_bytes_total", device=device) is None
    assert scrape.value("port_rate_bytes_per_second", device="rxe0") == 10 * GBIT
    assert scrape.value("port_rate_bytes_per_second", device="rxe8") == 100 * GBIT
    assert not scrape.all("source_errors_total")


def test_packets_times_mtu_is_what_was_moved(rdma: Machine, daemon: Daemon) -> None:
    before = daemon.scrape()
    moved = write_bandwidth(rdma, size=65536, count=1000)
    sent = hw_counter(rdma, "rxe0", "sent_pkts")
    after = daemon.until(lambda scrape: scrape.value("port_transmit_packets_total", device="rxe0") == sent)

    def grown(name: str, device: str) -> float:
        then, now = (page.value(f"port_{name}_packets_total", device=device) for page in (before, after))
        assert then is not None
        assert now is not None
        return now - then

    assert grown("transmit", "rxe0") * moved.mtu == pytest.approx(moved.bytes, rel=0.02)
    assert grown("receive", "rxe1") * moved.mtu == pytest.approx(moved.bytes, rel=0.02)


def at(daemon: Daemon, gbit: float) -> None:
    """Wait until rxe8 has this rate."""
    daemon.until(lambda scrape: scrape.value("port_rate_bytes_per_second", device="rxe8") == gbit * GBIT)


def test_a_speed_changed_live(rdma: Machine, daemon: Daemon) -> None:
    at(daemon, 100)
    for gbit in (25, 10):
        rdma.sh(f"ethtool -s eth0 speed {gbit}000 duplex full")
        at(daemon, gbit)
    # It stays so during the next test: the finding takes 30 s.


def test_a_netdev_taken_down_and_up(rdma: Machine, daemon: Daemon) -> None:
    downed = hw_counter(rdma, "rxe0", "link_downed")
    rdma.sh("ip link set v0 down")
    down = daemon.until(lambda scrape: scrape.value("port_up", device="rxe0") == 0)
    assert down.value("port_state_id", device="rxe0") == 1
    assert down.value("port_physical_state_id", device="rxe0") == 3
    assert down.value("port_rate_bytes_per_second", device="rxe0") is None
    assert down.value("port_link_downed_total", device="rxe0") == downed + 1
    assert "DOWN (Disabled)" in daemon.get("/")
    found(daemon, "netdev down")
    rdma.sh("ip link set v0 up")
    up = daemon.until(lambda scrape: scrape.value("port_up", device="rxe0") == 1)
    assert up.value("port_rate_bytes_per_second", device="rxe0") == 10 * GBIT
    cleared(daemon, "netdev down")


def test_the_lowered_speed_is_found_and_its_end_too(rdma: Machine, daemon: Daemon) -> None:
    rdma.sh("ethtool -s eth0 speed 10000 duplex full")  # as the test before left it, or alone
    found(daemon, "speed lowered")
    rdma.sh("ethtool -s eth0 speed 100000 duplex full")
    at(daemon, 100)
    # It clears while the next test waits.


def test_a_device_removed_and_added(rdma: Machine, daemon: Daemon) -> None:
    rail = daemon.scrape().all("port_up", device="rxe1")
    rdma.sh("rdma link delete rxe1")
    daemon.until(lambda scrape: not scrape.all("port_up", device="rxe1"))
    assert "device=rxe1: gone" in rdma.sh("cat /run/eastwest.log").out
    found(daemon, "device removed")
    rdma.sh("rdma link add rxe1 type rxe netdev v1")
    back = daemon.until(lambda scrape: scrape.value("port_up", device="rxe1") == 1)
    assert back.all("port_up", device="rxe1") == rail  # same role, same rail
    assert back.value("port_transmit_packets_total", device="rxe1") == hw_counter(rdma, "rxe1", "sent_pkts")
    assert back.value("check_success", check="infiniband") == 1
    write_bandwidth(rdma, size=65536, count=20)
    received = hw_counter(rdma, "rxe1", "rcvd_pkts")
    assert received >= 20 * 16
    daemon.until(lambda scrape: scrape.value("port_receive_packets_total", device="rxe1") == received)
    cleared(daemon, "device removed")
    cleared(daemon, "speed lowered")


def test_nothing_was_unreadable_and_nothing_broke(daemon: Daemon) -> None:
    last = daemon.scrape()
    assert not last.all("source_errors_total")
    assert set(last.all("check_success").values()) == {1.0}
    log = daemon.guest.sh("cat /run/eastwest.log").out.splitlines()
    said = [line for line in log if not line.startswith(("INFO", "WARNING finding"))]
    assert set(said) <= {"WARNING device=rxe1: gone"}, said


def test_names_that_the_kernel_allows_and_nobody_expects(rdma: Machine, daemon: Daemon) -> None:
    rdma.sh(
        r"""ip link add 'w"<b>\' type veth peer name 'w{{7}}' && ip link set 'w"<b>\' up && ip link set 'w{{7}}' up"""
    )
    rdma.sh(r"""rdma link add 'rx"<i>\' type rxe netdev 'w"<b>\'""")
    rdma.sh(r"""echo '"><script>' > '/sys/class/infiniband/rx"<i>\/node_desc'""")
    try:
        scrape = daemon.until(lambda page: page.value("port_up", device='rx"<i>\\') is not None)
        assert scrape.value("port_info", device='rx"<i>\\', netdev='w"<b>\\') == 1
        page = daemon.get("/")
        assert "rx&#34;&lt;i&gt;\\" in page
        assert "<i>" not in page
        assert "<script>" not in page
    finally:
        rdma.sh(r"""rdma link delete 'rx"<i>\'; ip link delete 'w"<b>\'""")
