"""Which ethtool statistic of which driver is which fact: one table, from the drivers' sources.

A row gives the canonical name (with the value of its one further label, a priority or a severity) and what the
driver's number is divided by to be in base units. What a driver does not name is absent. Directions: *received* pauses
are what the network asked of this node (it can't absorb the traffic), *transmitted* ones what this node asked of
the network (it, its PCIe or its memory is the slow one).

Sources: Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst and mlx5/core/en_stats.c;
broadcom/bnxt/bnxt_ethtool.c; pensando/ionic/ionic_stats.c.
"""

from collections.abc import Mapping
from dataclasses import dataclass

MICROSECONDS = 1_000_000
PERCENT = 100
PRIORITIES = range(8)
ALL_PRIORITIES = "all"


@dataclass(frozen=True, slots=True)
class NicRow:
    """One statistic's meaning; see the module's docstring. `gauge`: the number is a state, not a count."""

    name: str
    label: str = ""
    divisor: int | None = None
    gauge: bool = False


@dataclass(frozen=True, slots=True)
class NicTable:
    """A driver's statistics. `enabled_only`: it names only the priorities for which PFC is enabled.

    Otherwise it names all eight, and a priority counts as in use from the first time one of its counters moved.
    """

    rows: Mapping[str, NicRow]
    enabled_only: bool


def _by_priority(frames: Mapping[str, str], microseconds: Mapping[str, str]) -> dict[str, NicRow]:
    """Rows of each priority: the driver's name with `%d`, and the direction."""
    rows: dict[str, NicRow] = {}
    for priority in PRIORITIES:
        for pattern, direction in frames.items():
            rows[pattern % priority] = NicRow(f"pfc_pause_{direction}_frames", str(priority))
        for pattern, direction in microseconds.items():
            rows[pattern % priority] = NicRow(f"pfc_pause_{direction}_seconds", str(priority), MICROSECONDS)
    return rows


_MLX5 = NicTable(
    {
        **_by_priority(
            {"rx_prio%d_pause": "received", "tx_prio%d_pause": "transmitted"},
            {"rx_prio%d_pause_duration": "received", "tx_prio%d_pause_duration": "transmitted"},
        ),
        "rx_pause_ctrl_phy": NicRow("pause_received_frames"),
        "tx_pause_ctrl_phy": NicRow("pause_transmitted_frames"),
        "rx_global_pause_duration": NicRow("pause_received_seconds", divisor=MICROSECONDS),
        "tx_global_pause_duration": NicRow("pause_transmitted_seconds", divisor=MICROSECONDS),
        "tx_pause_storm_warning_events": NicRow("pause_storm_events", "warning"),
        "tx_pause_storm_error_events": NicRow("pause_storm_events", "error"),
        "rx_bits_phy": NicRow("phy_bits"),
        "rx_corrected_bits_phy": NicRow("phy_corrected_bits"),
        "rx_pcs_symbol_err_phy": NicRow("phy_symbol_errors"),
        "link_down_events_phy": NicRow("phy_link_down_events"),
        "rx_discards_phy": NicRow("netdev_receive_discards"),
        "tx_discards_phy": NicRow("netdev_transmit_discards"),
        "rx_out_of_buffer": NicRow("netdev_out_of_buffer"),
        "outbound_pci_stalled_rd": NicRow("pcie_read_stalled", divisor=PERCENT, gauge=True),
        "outbound_pci_stalled_wr": NicRow("pcie_write_stalled", divisor=PERCENT, gauge=True),
    },
    enabled_only=True,
)

_BNXT = NicTable(
    {
        **_by_priority(
            {"rx_pfc_ena_frames_pri%d": "received", "tx_pfc_ena_frames_pri%d": "transmitted"},
            {"pfc_pri%d_rx_duration_us": "received", "pfc_pri%d_tx_duration_us": "transmitted"},
        ),
        "rx_pause_frames": NicRow("pause_received_frames"),
        "tx_pause_frames": NicRow("pause_transmitted_frames"),
        "rx_bits": NicRow("phy_bits"),
        "rx_corrected_bits": NicRow("phy_corrected_bits"),
        "rx_pcs_symbol_err": NicRow("phy_symbol_errors"),
        "link_down_events": NicRow("phy_link_down_events"),
        "rx_stat_discard": NicRow("netdev_receive_discards"),
        "tx_stat_discard": NicRow("netdev_transmit_discards"),
    },
    enabled_only=False,
)

# frames_{rx,tx}_pri_N stand beside the frame sizes and VLAN frames in ionic_if.h: they count the traffic of a
# priority, so that taking them for pauses would call every busy node paused.
_IONIC = NicTable(
    {
        **_by_priority(
            {},
            {"rx_pripause_%d_1us_count": "received", "tx_pripause_%d_1us_count": "transmitted"},
        ),
        "frames_rx_pripause": NicRow("pfc_pause_received_frames", ALL_PRIORITIES),
        "frames_tx_pripause": NicRow("pfc_pause_transmitted_frames", ALL_PRIORITIES),
        "frames_rx_pause": NicRow("pause_received_frames"),
        "frames_tx_pause": NicRow("pause_transmitted_frames"),
        "rx_pause_1us_count": NicRow("pause_received_seconds", divisor=MICROSECONDS),
        "hw_rx_dropped": NicRow("netdev_receive_discards"),
        "hw_tx_dropped": NicRow("netdev_transmit_discards"),
        "hw_rx_over_errors": NicRow("netdev_out_of_buffer"),
    },
    enabled_only=False,
)

_TABLES: Mapping[str, NicTable] = {
    "mlx5_core": _MLX5,
    "mlx5_ib": _MLX5,
    "bnxt_en": _BNXT,
    "bnxt_re": _BNXT,
    "ionic": _IONIC,
    "ionic_rdma": _IONIC,
}


def nic_table(driver: str) -> NicTable | None:
    """The statistics that this project names for a driver (DRIVER= in uevent), or None."""
    return _TABLES.get(driver)


def nic_rows() -> tuple[NicRow, ...]:
    """Every row of every driver."""
    return tuple(row for table in _TABLES.values() for row in table.rows.values())
