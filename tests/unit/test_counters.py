"""The table of counter files: each driver's own names, scales and ceilings, on real files."""

from pathlib import Path

import pytest

from exporter.checks.infiniband import InfinibandCheck, Settings
from exporter.checks.port_metrics import BYTES, COUNTERS
from exporter.hardware.counters import GROUPS, WRAP_32, drivers, moduli, table
from tests.trees import ACTIVE, plant, reader

HW = "ports/1/hw_counters/"
PMA = "ports/1/counters/"
CASES = [
    ("mlx5_core", {PMA + "port_rcv_data": "2221223609"}, {"receive_bytes": 8884894436}),
    ("hfi1", {PMA + "port_rcv_data": "345091702026"}, {"receive_bytes": 2760733616208}),
    ("mlx4_core", {PMA + "port_xmit_data": "5", HW + "sq_num_to": "7"}, {"transmit_bytes": 20, "ack_timeouts": 7}),
    ("efa", {HW + "tx_bytes": "900", HW + "retrans_pkts": "4"}, {"transmit_bytes": 900, "retransmits": 4}),
    (
        "irdma",
        {HW + "ip4InOctets": "10", HW + "ip6InOctets": "7", HW + "cnpSent": "2"},
        {"receive_bytes": 17, "cnp_sent": 2},
    ),
    ("ionic", {HW + "rx_rdma_ucast_bytes": "30", HW + "rx_rdma_mcast_bytes": "3"}, {"receive_bytes": 33}),
    ("ionic", {HW + "resp_rx_outouf_seq": "6"}, {"out_of_sequence": 6}),
    ("bnxt_en", {HW + "rx_bytes": "8", HW + "to_retransmits": "5"}, {"receive_bytes": 8, "ack_timeouts": 5}),
    ("bnxt_en", {HW + "to_retransmits": "5", HW + "local_ack_timeout_err": "5"}, {"ack_timeouts": 5}),
    ("bnxt_en", {HW + "recoverable_errors": "5", HW + "active_qps": "9"}, {}),
    ("mana", {HW + "received_cnps": "1", "hw_counters/sent_cnps": "12"}, {"cnp_handled": 1, "cnp_sent": 12}),
    ("hns3", {HW + "rx_pkt": "3"}, {"receive_packets": 3}),
    ("rdma_rxe", {HW + "sent_pkts": "3", HW + "link_downed": "1"}, {"transmit_packets": 3, "link_downed": 1}),
    ("siw", {HW + "rx_bytes": "1"}, {}),
    ("mlx5_core", {HW + "np_cnp_sent": "1", HW + "rp_cnp_handled": "2"}, {"cnp_sent": 1, "cnp_handled": 2}),
    (
        "mlx5_core",
        {PMA + "port_rcv_data": "4294967295", "ports/1/counters_ext/port_rcv_data_64": "9"},
        {"receive_bytes": 36},
    ),
    ("irdma", {PMA + "port_rcv_data": "N/A (no PMA)", HW + "ip4InOctets": "10"}, {"receive_bytes": 10}),
    ("mlx5_core", {PMA + "port_rcv_data": "6", HW + "rx_bytes": "1"}, {"receive_bytes": 24}),
    ("never_seen", {HW + "rx_bytes": "11", HW + "np_cnp_sent": "2"}, {"receive_bytes": 11, "cnp_sent": 2}),
]


@pytest.mark.parametrize(("driver", "files", "expected"), CASES)
def test_driver_files_become_canonical_values(
    tmp_path: Path, driver: str, files: dict[str, str], expected: dict[str, int]
) -> None:
    plant(tmp_path, {"any_name": {**ACTIVE, **files}}, driver)
    (port,) = reader(tmp_path).read().ports
    assert port.counters == expected
    assert port.device.driver == driver


def test_device_level_counters_of_a_device_with_two_ports_are_nobodys(tmp_path: Path) -> None:
    files = {**ACTIVE, "ports/2/state": "4: ACTIVE", "hw_counters/sent_cnps": "12"}
    plant(tmp_path, {"mana_0": files}, "mana")
    assert [port.counters for port in reader(tmp_path).read().ports] == [{}, {}]


@pytest.mark.parametrize(
    ("file", "ceiling"),
    [
        ("symbol_error", 65535),
        ("link_downed", 255),
        ("link_error_recovery", 255),
        ("port_rcv_errors", 65535),
        ("port_xmit_discards", 65535),
        ("local_link_integrity_errors", 15),
        ("excessive_buffer_overrun_errors", 15),
        ("port_xmit_wait", 4294967295),
        ("port_rcv_data", 4294967295),
    ],
)
@pytest.mark.parametrize("below", [0, 1])
def test_a_counter_at_its_ceiling_is_flagged_and_one_below_is_not(
    tmp_path: Path, file: str, ceiling: int, below: int
) -> None:
    plant(tmp_path, {"mlx5_0": {**ACTIVE, PMA + file: str(ceiling - below)}})
    (port,) = reader(tmp_path).read().ports
    assert port.saturated == (() if below else (file,))


def test_every_name_of_the_table_has_a_metric() -> None:
    names = {row.name for driver in drivers() for group in table(driver).values() for row in group.values()}
    assert names == {*BYTES, *COUNTERS}
    assert {group for driver in drivers() for group in table(driver)} <= set(GROUPS)


def test_only_the_32_bit_registers_of_their_own_driver_wrap() -> None:
    assert set(moduli("mlx5_core")) == {
        "out_of_buffer",
        "out_of_sequence",
        "packet_sequence_errors",
        "ack_timeouts",
        "rnr_nak_retries",
        "retransmits",
    }
    assert moduli("mlx5_ib") == moduli("mlx5_core")
    assert set(moduli("mlx4_core")) == {
        "out_of_sequence",
        "packet_sequence_errors",
        "rnr_nak_retries",
        "ack_timeouts",
    }
    assert {WRAP_32} == set(moduli("mlx5_core").values()) | set(moduli("mlx4_core").values())
    assert [driver for driver in drivers() if moduli(driver)] == ["mlx4_core", "mlx5_core"]


def test_of_an_unknown_driver_only_what_wraps_with_every_driver_wraps() -> None:
    """bnxt_re has files of these names too, of 64 bits."""
    unknown = moduli("")
    assert {"out_of_sequence", "ack_timeouts"}.isdisjoint(unknown)
    assert unknown.keys() <= moduli("mlx5_core").keys()


@pytest.mark.parametrize(("driver", "moved"), [("mlx5_core", 7), ("efa", None)])
def test_a_reset_of_a_64_bit_counter_is_no_wrap(tmp_path: Path, driver: str, moved: int | None) -> None:
    file = {"mlx5_core": "roce_adp_retrans", "efa": "retrans_pkts"}[driver]
    base = plant(tmp_path, {"any_name": {**ACTIVE, HW + file: str(WRAP_32 - 3)}}, driver)
    check = InfinibandCheck(reader(tmp_path), Settings(), {}, lambda _memory: None)
    check.run(0.0)
    (base / "any_name" / HW / file).write_text("4\n")
    (row,) = check.run(5.0).links()
    assert dict(row.moved).get("retransmits") == moved
