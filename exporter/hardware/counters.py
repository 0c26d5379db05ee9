"""Which counter file of which driver is which fact: one table, from the drivers' sources.

A row says: in this directory (`group`) of a port, this file holds this canonical name, times `scale` in base
units. `ceiling` is where the register sticks (IBTA counters saturate, they don't wrap); `modulus` is where it
wraps. Several files may feed one name: those marked `part` are added (IPv4 + IPv6, unicast + multicast), of
others the first in the table wins, as does the first group of GROUPS: nothing is counted twice.

Sources: drivers/infiniband in Linux (core/sysfs.c and hw/*/), the out-of-tree EFA and Broadcom drivers, IBTA
volume 1 section 16.1.3 for the widths. What this table does not name can be had by `vendor_counters`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

Group = Literal["counters_ext", "counters", "hw_counters", "device"]

GROUPS: tuple[Group, ...] = ("counters_ext", "counters", "hw_counters", "device")
"""By preference. `device` is `<device>/hw_counters`, used where the device has a single port."""

BITS_4, BITS_8, BITS_16, BITS_32 = 15, 255, 65_535, 4_294_967_295
WRAP_32 = 1 << 32


@dataclass(frozen=True, slots=True)
class Row:
    """One file's meaning; see the module's docstring."""

    name: str
    scale: int = 1
    ceiling: int | None = None
    modulus: int | None = None
    part: bool = False


_Table = Mapping[Group, Mapping[str, Row]]


def _data(scale: int) -> Mapping[str, Row]:
    """`port_{rcv,xmit}_data`: words of `scale` bytes. At exactly 2^32-1 it is a legacy 32-bit register, stuck."""
    return {
        "port_rcv_data": Row("receive_bytes", scale, ceiling=BITS_32),
        "port_xmit_data": Row("transmit_bytes", scale, ceiling=BITS_32),
    }


# https://docs.kernel.org/admin-guide/abi-stable.html (infiniband): octets divided by 4, whatever the lane count.
_PMA: Mapping[str, Row] = {
    **_data(4),
    "port_rcv_packets": Row("receive_packets", ceiling=BITS_32),
    "port_xmit_packets": Row("transmit_packets", ceiling=BITS_32),
    "symbol_error": Row("symbol_errors", ceiling=BITS_16),
    "link_error_recovery": Row("link_error_recovery", ceiling=BITS_8),
    "link_downed": Row("link_downed", ceiling=BITS_8),
    "port_rcv_errors": Row("receive_errors", ceiling=BITS_16),
    "port_rcv_remote_physical_errors": Row("receive_remote_physical_errors", ceiling=BITS_16),
    "port_rcv_switch_relay_errors": Row("receive_switch_relay_errors", ceiling=BITS_16),
    "port_xmit_discards": Row("transmit_discards", ceiling=BITS_16),
    "port_xmit_constraint_errors": Row("transmit_constraint_errors", ceiling=BITS_8),
    "port_rcv_constraint_errors": Row("receive_constraint_errors", ceiling=BITS_8),
    "local_link_integrity_errors": Row("local_link_integrity_errors", ceiling=BITS_4),
    "excessive_buffer_overrun_errors": Row("excessive_buffer_overrun_errors", ceiling=BITS_4),
    "VL15_dropped": Row("vl15_dropped", ceiling=BITS_16),
    "port_xmit_wait": Row("transmit_wait_ticks", ceiling=BITS_32),
}

# Kernels before 4.5 keep the 64-bit values apart, and what `counters` then has are 32-bit registers that stick.
_PMA_EXT: Mapping[str, Row] = {
    "port_rcv_data_64": Row("receive_bytes", 4),
    "port_xmit_data_64": Row("transmit_bytes", 4),
    "port_rcv_packets_64": Row("receive_packets"),
    "port_xmit_packets_64": Row("transmit_packets"),
}


def _rows(names: Mapping[str, str], modulus: int | None = None, part: bool = False) -> dict[str, Row]:
    return {file: Row(name, modulus=modulus, part=part) for file, name in names.items()}


_MLX5 = _rows(  # hw/mlx5/counters.c: Q counters are 32 bits wide and wrap, congestion and PPCNT ones 64
    {
        "out_of_buffer": "out_of_buffer",
        "out_of_sequence": "out_of_sequence",
        "packet_seq_err": "packet_sequence_errors",
        "local_ack_timeout_err": "ack_timeouts",
        "rnr_nak_retry_err": "rnr_nak_retries",
        "roce_adp_retrans": "retransmits",
    },
    WRAP_32,
) | _rows(
    {
        "np_ecn_marked_roce_packets": "ecn_marked_packets",
        "np_cnp_sent": "cnp_sent",
        "rp_cnp_handled": "cnp_handled",
        "rp_cnp_ignored": "cnp_ignored",
        "rx_icrc_encapsulated": "icrc_errors",
    }
)

_MLX4 = _rows(  # hw/mlx4/main.c, diag_basic and diag_ext
    {
        "rq_num_oos": "out_of_sequence",
        "sq_num_oos": "packet_sequence_errors",
        "sq_num_rnr": "rnr_nak_retries",
        "sq_num_to": "ack_timeouts",
    },
    WRAP_32,
)

_BNXT_RE = _rows(  # hw/bnxt_re/hw_counters.c, and the names of Broadcom's own driver
    {
        "rx_bytes": "receive_bytes",
        "tx_bytes": "transmit_bytes",
        "rx_pkts": "receive_packets",
        "tx_pkts": "transmit_packets",
        "to_retransmits": "ack_timeouts",
        "local_ack_timeout_err": "ack_timeouts",
        "seq_err_naks_rcvd": "packet_sequence_errors",
        "rnr_naks_rcvd": "rnr_nak_retries",
        "oos_drop_count": "out_of_sequence",
        "res_oos_drop_count": "out_of_sequence",
        "out_of_sequence": "out_of_sequence",
        "rx_out_of_buffer": "out_of_buffer",
        "rx_ecn_marked_pkts": "ecn_marked_packets",
        "np_ecn_marked_roce_packets": "ecn_marked_packets",
        "np_cnp_sent": "cnp_sent",
        "rp_cnp_handled": "cnp_handled",
        "rx_cnp_pkts": "cnp_handled",
        "rp_cnp_ignored": "cnp_ignored",
        "tx_roce_discards": "transmit_discards",
        "rx_roce_errors": "receive_errors",
    }
)

_EFA = _rows(  # amzn-drivers, kernel/linux/efa: EFA has no PMA at all
    {
        "rx_bytes": "receive_bytes",
        "tx_bytes": "transmit_bytes",
        "rx_pkts": "receive_packets",
        "tx_pkts": "transmit_packets",
        "rx_drops": "out_of_buffer",
        "retrans_pkts": "retransmits",
        "retrans_timeout_events": "ack_timeouts",
    }
)

_IRDMA = _rows(  # hw/irdma/verbs.c
    {
        "ip4InOctets": "receive_bytes",
        "ip6InOctets": "receive_bytes",
        "ip4OutOctets": "transmit_bytes",
        "ip6OutOctets": "transmit_bytes",
        "ip4InPkts": "receive_packets",
        "ip6InPkts": "receive_packets",
        "ip4OutPkts": "transmit_packets",
        "ip6OutPkts": "transmit_packets",
    },
    part=True,
) | _rows(
    {
        "RxECNMrkd": "ecn_marked_packets",
        "cnpSent": "cnp_sent",
        "cnpHandled": "cnp_handled",
        "cnpIgnored": "cnp_ignored",
        "RetransSegs": "retransmits",
        "tcpRetransSegs": "retransmits",
    }
)

_IONIC = _rows(  # AMD Pensando; resp_rx_outouf_seq is spelt so in the driver
    {
        "rx_rdma_ucast_bytes": "receive_bytes",
        "rx_rdma_mcast_bytes": "receive_bytes",
        "tx_rdma_ucast_bytes": "transmit_bytes",
        "tx_rdma_mcast_bytes": "transmit_bytes",
        "rx_rdma_ucast_pkts": "receive_packets",
        "rx_rdma_mcast_pkts": "receive_packets",
        "tx_rdma_ucast_pkts": "transmit_packets",
        "tx_rdma_mcast_pkts": "transmit_packets",
    },
    part=True,
) | _rows(
    {
        "rx_rdma_ecn_pkts": "ecn_marked_packets",
        "tx_rdma_cnp_pkts": "cnp_sent",
        "rx_rdma_cnp_pkts": "cnp_handled",
        "tx_rdma_retx_pkts": "retransmits",
        "tx_rdma_ack_timeout": "ack_timeouts",
        "req_rx_pkt_seq_err": "packet_sequence_errors",
        "req_rx_rnr_retry_err": "rnr_nak_retries",
        "resp_rx_outouf_seq": "out_of_sequence",
        "resp_rx_outof_buf": "out_of_buffer",
    }
)

_MANA = _rows(  # hw/mana/counters.c, the port's
    {
        "rx_bytes": "receive_bytes",
        "tx_bytes": "transmit_bytes",
        "rx_packets": "receive_packets",
        "tx_packets": "transmit_packets",
        "requester_timeout": "ack_timeouts",
        "requester_oos_nak": "packet_sequence_errors",
        "requester_rnr_nak": "rnr_nak_retries",
        "responder_oos": "out_of_sequence",
        "received_cnps": "cnp_handled",
    }
)
_MANA_DEVICE = _rows({"received_ecns": "ecn_marked_packets", "sent_cnps": "cnp_sent"})

_HNS = _rows(  # hw/hns/hns_roce_main.c; the names behind the enumeration are inferred, not seen on hardware
    {
        "rx_pkt": "receive_packets",
        "tx_pkt": "transmit_packets",
        "rx_cnp_pkt": "cnp_handled",
        "tx_cnp_pkt": "cnp_sent",
    }
)

_RXE = _rows(  # sw/rxe/rxe_hw_counters.c: packets only, and link_downed lives here
    {
        "rcvd_pkts": "receive_packets",
        "sent_pkts": "transmit_packets",
        "out_of_seq_request": "out_of_sequence",
        "rcvd_seq_err": "packet_sequence_errors",
        "rcvd_rnr_err": "rnr_nak_retries",
        "completer_retry_err": "retransmits",
        "link_downed": "link_downed",
    }
)

_COMMON: _Table = {"counters": _PMA, "counters_ext": _PMA_EXT}
_BY_DRIVER: Mapping[str, _Table] = {
    "mlx5_core": {"hw_counters": _MLX5},
    "mlx4_core": {"hw_counters": _MLX4},
    "bnxt_en": {"hw_counters": _BNXT_RE},
    "efa": {"hw_counters": _EFA},
    "irdma": {"hw_counters": _IRDMA},
    "ionic": {"hw_counters": _IONIC},
    "mana": {"hw_counters": _MANA, "device": _MANA_DEVICE},
    "hns3": {"hw_counters": _HNS},
    # Omni-Path hands out 8-byte flits where the others hand out 4-byte words (hw/hfi1/mad.c).
    "hfi1": {"counters": {**_PMA, **_data(8)}},
    "rdma_rxe": {"hw_counters": _RXE},
    "siw": {},
}
# The name in device/uevent is the PCI driver's; these share another's table.
_ALIASES: Mapping[str, str] = {
    "mlx5_ib": "mlx5_core",
    "mlx4_ib": "mlx4_core",
    "bnxt_re": "bnxt_en",
    "ice": "irdma",
    "i40e": "irdma",
    "idpf": "irdma",
    "i40iw": "irdma",
    "ionic_rdma": "ionic",
    "mana_ib": "mana",
    "hns_roce_hw_v2": "hns3",
    "rxe": "rdma_rxe",
}


def table(driver: str) -> _Table:
    """Every counter this project names for `driver` (DRIVER= in uevent), by group and file.

    Where the driver is not known (a software device, a recorded tree without `device`), a hw_counters file
    counts if every driver that has it means the same by it, and wraps if it does so with all of them.
    """
    own = _BY_DRIVER.get(_ALIASES.get(driver, driver))
    return {**_COMMON, **(_agreed() if own is None else own)}


def _agreed() -> _Table:
    rows: dict[str, Row] = {}
    disputed: set[str] = set()
    for known in _BY_DRIVER.values():
        for file, row in known.get("hw_counters", {}).items():
            if rows.setdefault(file, row).name != row.name:
                disputed.add(file)
            if rows[file].modulus != row.modulus:
                rows[file] = replace(row, modulus=None)
    return {"hw_counters": {file: row for file, row in rows.items() if file not in disputed}}


def drivers() -> tuple[str, ...]:
    """The drivers that the table knows by name."""
    return tuple(sorted(_BY_DRIVER))


@cache
def moduli(driver: str) -> Mapping[str, int]:
    """Where the registers behind a driver's canonical names wrap, for `history.delta`; the others are not in it.

    A name belongs to it only where every file of this driver that feeds it wraps: a fall of a counter of 64 bits is
    a reset, and to take it for a wrap would invent up to 2^32 events.
    """
    rows = [row for group in table(driver).values() for row in group.values()]
    straight = {row.name for row in rows if row.modulus is None}
    return {row.name: row.modulus for row in rows if row.modulus and row.name not in straight}
