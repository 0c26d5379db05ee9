"""The simulated nodes: what each has, what is wrong with it, and a sentence that says so.

Values are synthetic, of the kind that real nodes show. Time `t` is in seconds; a one-shot command ends at
`END`, a daemon begins there and goes on.
"""

import errno
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from exporter.hardware import gpu_scenarios
from exporter.hardware.gpu_scenarios import GpuNode
from exporter.hardware.scenario_nics import COMPUTE, Nic, dgx, downgraded, efa, held_back, limited, no_pma, roce

END = 900.0
"""Seconds of history that a scenario has before a daemon starts."""
Value = str | int | Callable[[float], str | int]
"""A file's content: fixed, or a function of time."""


@dataclass(frozen=True, slots=True)
class Fail:
    """The read fails with this errno from `since` on."""

    errno: int
    since: float = 0.0


@dataclass(frozen=True, slots=True)
class Hang:
    """The read never comes back from `since` on."""

    since: float = 0.0


@dataclass(frozen=True, slots=True)
class Scenario:
    """A node. `changes` are files that differ from a healthy one's; `failures` are reads that go wrong.

    Paths are relative to `class/infiniband`; a failure whose path ends in `/` stands for everything below. A daemon
    begins at `begins`: before the fault, where the fault is a change. `ethtool` are statistics that differ, by
    `<device>/<name>`. `remarkable` is the port, link or GPU that the scenario is about.
    """

    sentence: str
    nics: tuple[Nic, ...]
    changes: Mapping[str, Value] = field(default_factory=dict)
    failures: Mapping[str, Fail | Hang] = field(default_factory=dict)
    remarkable: str = ""
    ethtool: Mapping[str, Value] = field(default_factory=dict)
    gpus: GpuNode = gpu_scenarios.DGX_H100
    begins: float = END


def _port(device: str, file: str) -> str:
    return f"{device}/ports/1/{file}"


def _linear(base: int, per_second: float) -> Callable[[float], int]:
    return lambda t: base + int(t * per_second)


def _down_for(seconds: float, every: float) -> Callable[[float], bool]:
    return lambda t: t % every < seconds and t >= every


def _flapping(device: str) -> Mapping[str, Value]:
    """Down for 20 s of every 3 minutes."""
    down = _down_for(20, 180)
    return {
        _port(device, "state"): lambda t: "1: DOWN" if down(t) else "4: ACTIVE",
        _port(device, "phys_state"): lambda t: "2: Polling" if down(t) else "5: LinkUp",
        _port(device, "rate"): lambda t: "10 Gb/sec (4X SDR)" if down(t) else "400 Gb/sec (4X NDR)",
        _port(device, "counters/link_downed"): lambda t: int(t // 180),
    }


def _down_since(since: float, *devices: str) -> Mapping[str, Value]:
    """No light any more."""
    gone: dict[str, Value] = {}
    for device in devices:
        gone[_port(device, "state")] = lambda t: "1: DOWN" if t >= since else "4: ACTIVE"
        gone[_port(device, "phys_state")] = lambda t: "2: Polling" if t >= since else "5: LinkUp"
        gone[_port(device, "rate")] = lambda t: "10 Gb/sec (4X SDR)" if t >= since else "400 Gb/sec (4X NDR)"
        gone[_port(device, "counters/link_downed")] = lambda t: int(t >= since)
    return gone


def _saturated() -> Mapping[str, Value]:
    """What a node looks like that nobody has cleared since it was built."""
    stuck: dict[str, Value] = {_port("mlx5_3", "counters/link_downed"): 255}
    for device in COMPUTE:
        stuck[_port(device, "counters/excessive_buffer_overrun_errors")] = 15
        stuck[_port(device, "counters/port_xmit_wait")] = 4_294_967_295
    return stuck


def _congested() -> Mapping[str, Value]:
    """An incast: this node's rails receive marked packets and are asked to slow down."""
    grown: dict[str, Value] = {}
    for index, device in enumerate(COMPUTE):
        hot = 1 + index % 3
        grown[_port(device, "hw_counters/np_ecn_marked_roce_packets")] = _linear(7_000_000, 9_000 * hot)
        grown[_port(device, "hw_counters/np_cnp_sent")] = _linear(6_000_000, 4_000 * hot)
        grown[_port(device, "hw_counters/rp_cnp_handled")] = _linear(5_000_000, 3_500 * hot)
        grown[_port(device, "hw_counters/out_of_sequence")] = _linear(800, 2 * hot)
    return grown


def _pausing(device: str) -> Mapping[str, Value]:
    """A NIC that can't hand on what it receives: it pauses the network nine tenths of the time."""
    return {
        f"{device}/tx_prio3_pause": _linear(2_000_000, 30_000),
        f"{device}/tx_prio3_pause_duration": _linear(40_000_000, 900_000),
        f"{device}/tx_pause_storm_warning_events ": _linear(3, 0.05),
        f"{device}/tx_pause_storm_error_events": _linear(0, 0.01),
        f"{device}/rx_discards_phy": _linear(12_000, 400),
        f"{device}/outbound_pci_stalled_wr": 85,
    }


def traffic(base: int, per_second: float, phase: float) -> Callable[[float], int]:
    """A counter of training traffic: it rises at `per_second` on average, in waves of half a minute."""
    turn = 2 * math.pi / 30
    return lambda t: base + int(per_second * (t + 0.6 / turn * math.sin(turn * t + phase)))


SCENARIOS: Mapping[str, Scenario] = {
    "healthy": Scenario("a DGX-like node of 11 ports with nothing wrong", dgx()),
    "slow-port": Scenario(
        "a 400 Gbit/s InfiniBand port that trained one lane of four: 100 Gbit/s, and no error counted",
        held_back(0.15),
        {_port("mlx5_5", "rate"): "100 Gb/sec (1X NDR)"},
        remarkable="mlx5_5/1",
    ),
    "flapping": Scenario(
        "a port that is down for 20 s of every 3 minutes", dgx(), _flapping("mlx5_4"), remarkable="mlx5_4/1"
    ),
    "port-down": Scenario(
        "a port that lost its link five minutes ago",
        dgx(),
        _down_since(600, "mlx5_6"),
        remarkable="mlx5_6/1",
        begins=570.0,
    ),
    "leaf-down": Scenario(
        "eight compute ports that lost their links at once: what they share is down, not eight cables",
        dgx(),
        _down_since(600, *COMPUTE),
        begins=570.0,
    ),
    "symbol-errors": Scenario(
        "a port with a bad cable: symbol errors and retrainings, the rate unharmed",
        dgx(),
        {
            _port("mlx5_9", "counters/symbol_error"): _linear(310, 4.0),
            _port("mlx5_9", "counters/link_error_recovery"): _linear(2, 0.02),
            _port("mlx5_9", "counters/port_rcv_errors"): _linear(40, 0.5),
        },
        remarkable="mlx5_9/1",
    ),
    "saturated": Scenario(
        "counters stuck at their ceilings long ago; one port alone has had trouble, when is not known",
        dgx(),
        _saturated(),
    ),
    "congested": Scenario("a RoCE node in an incast: ECN marks and CNPs on every rail, no fault", roce(), _congested()),
    "no-pma": Scenario(
        "an old iWARP device whose counters say `N/A (no PMA)`, beside healthy ports",
        no_pma(),
        {_port("i40iw0", "counters/"): "N/A (no PMA)"},
    ),
    "einval": Scenario(
        "a port whose rate and counters can't be read (EINVAL), beside healthy ones",
        dgx(),
        failures={
            _port("mlx5_6", "rate"): Fail(errno.EINVAL),
            _port("mlx5_6", "counters/"): Fail(errno.EINVAL),
            _port("mlx5_6", "hw_counters/"): Fail(errno.EINVAL),
        },
        remarkable="mlx5_6/1",
    ),
    "hang": Scenario(
        "a driver that hangs in a read: the port check never comes back",
        dgx(),
        failures={_port("mlx5_6", "state"): Hang(since=END - 20)},
        remarkable="mlx5_6/1",
    ),
    "roce": Scenario("a node with eight 400 Gbit/s RoCE ports, nothing wrong", roce()),
    "efa": Scenario(
        "a cloud node with EFA devices: no PMA, bytes in hw_counters, nothing wrong",
        efa(),
        gpus=gpu_scenarios.CLOUD_A100,
    ),
    "limited-pf": Scenario(
        "four ports that belong to the Fabric Manager and refuse every counter, beside healthy ones",
        limited(),
        failures={
            _port(f"mlx5_{n}", f"{group}/"): Fail(errno.EINVAL)
            for n in range(12, 16)
            for group in ("counters", "hw_counters")
        },
    ),
    "pcie-downgrade": Scenario(
        "a NIC whose PCIe link trained 8 lanes of 16: its port says 400 Gbit/s and can be fed with 252",
        downgraded("mlx5_5"),
        remarkable="mlx5_5/1",
    ),
    "pfc-storm": Scenario(
        "a RoCE NIC that pauses the network nine tenths of the time, since its PCIe is stalled",
        roce(),
        ethtool=_pausing("mlx5_6"),
        remarkable="mlx5_6/1",
    ),
    "nvlink-down": Scenario(
        "a GPU with two of its 18 NVLinks down", dgx(), gpus=gpu_scenarios.NVLINK_DOWN, remarkable="gpu2/link07"
    ),
    "nvlink-errors": Scenario(
        "an NVLink that replays and has CRC errors", dgx(), gpus=gpu_scenarios.NVLINK_ERRORS, remarkable="gpu4/link11"
    ),
    "gpu-lost": Scenario(
        "a GPU that falls off the bus after ten minutes",
        dgx(),
        gpus=gpu_scenarios.GPU_LOST,
        remarkable="gpu5",
        begins=570.0,
    ),
    "fabric-unhealthy": Scenario(
        "a GPU with unhealthy NVLink routes, and one that never got into the fabric",
        dgx(),
        gpus=gpu_scenarios.FABRIC_UNHEALTHY,
        remarkable="gpu1",
    ),
    "throttled": Scenario(
        "a GPU whose clocks heat holds down 40 % of the time", dgx(), gpus=gpu_scenarios.THROTTLED, remarkable="gpu3"
    ),
    "b200": Scenario(
        "a node of B200s: 18 NVLinks where the library allows 36, nothing wrong", dgx(), gpus=gpu_scenarios.B200_NODE
    ),
    "a100-pcie": Scenario(
        "A100 PCIe cards without bridges: every NVLink is inactive, nothing wrong",
        dgx(),
        gpus=gpu_scenarios.A100_PCIE_NODE,
    ),
    "v100": Scenario(
        "a node of V100s: NVLinks without byte counters, nothing wrong", dgx(), gpus=gpu_scenarios.V100_NODE
    ),
    "mig": Scenario(
        "two GPUs in MIG mode, of which the driver calls every NVLink down, nothing wrong",
        dgx(),
        gpus=gpu_scenarios.MIG_NODE,
    ),
    "bare": Scenario("a machine with no such hardware at all", (), gpus=gpu_scenarios.NO_GPUS),
}
