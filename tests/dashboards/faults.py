"""Which fault is seen where: the table of docs/dashboards.md, and what the query must say for it to be true."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.dashboards.server import Answer

Seen = Callable[[Answer], bool]


@dataclass(frozen=True, slots=True)
class Fault:
    """A node (called after its scenario), a panel, and what one sees there; `query` is the query's number."""

    node: str
    dashboard: str
    panel: str
    says: str
    visible: Seen
    query: int = 0
    whole_fleet: bool = False
    """Whether a panel of a dashboard of one node is about all nodes."""


def value(test: Callable[[float], bool], **labels: str) -> Seen:
    """The series with these labels has a last value of which `test` is true."""

    def seen(answer: Answer) -> bool:
        found = answer.value(**labels)
        return found is not None and test(found)

    return seen


def about(share: float) -> Callable[[float], bool]:
    """Within two points of a hundred."""
    return lambda got: abs(got - share) < 0.02


def ever(test: Callable[[float], bool], **labels: str) -> Seen:
    """As value, of any time in the range."""

    def seen(answer: Answer) -> bool:
        rows = (row for row in answer.series if labels.items() <= row["metric"].items())
        return any(test(float(point[1])) for row in rows for point in row["values"])

    return seen


def alone(test: Callable[[float], bool], device: str) -> Seen:
    """Only this device's series has a last value of which `test` is true, among the node's own."""

    def seen(answer: Answer) -> bool:
        pairs = zip(answer.labels, answer.values(), strict=True)
        return {labels.get("device") for labels, got in pairs if test(got)} == {device}

    return seen


def _port(node: str, device: str, **more: str) -> dict[str, str]:
    return {"node": node, "device": device, **more}


FLEET, PORTS, NVLINK, NODE = (f"eastwest-{name}" for name in ("fleet", "ports", "nvlink", "node"))
RAILS = "Node × rail: speed as a share of what is expected"
IMBALANCE = "Imbalance: each link as a share of its GPU's median link"
STATE = "State: GPU × link"
CONDITIONS = "Conditions that the driver reports: GPU × condition"
FAULTS: Sequence[Fault] = (
    Fault("slow-port", FLEET, RAILS, "rail 3 at 25 %, orange", value(lambda v: v == 0.25, node="slow-port", rail="3")),
    Fault(
        "slow-port",
        PORTS,
        "Worst ports",
        "mlx5_5 `slow`, 25 % of expected",
        value(lambda v: v == 0.25, **_port("slow-port", "mlx5_5")),
        2,
    ),
    Fault(
        "slow-port",
        PORTS,
        "Utilisation: port × time",
        "one row brighter than its rails: it moves as much at a quarter of the rate",
        value(lambda v: v > 0.4, **_port("slow-port", "mlx5_5")),
    ),
    Fault("slow-port", NODE, "Ports", "mlx5_5 at 25 % of expected", alone(lambda v: v < 0.99, "mlx5_5"), 2),
    Fault(
        "flapping",
        PORTS,
        "State of the ports that were worst in the range",
        "stretches of DOWN in mlx5_4's row",
        ever(lambda v: v == 1, **_port("flapping", "mlx5_4")),
    ),
    Fault(
        "flapping",
        PORTS,
        "Speed as a share of what is expected",
        "mlx5_4 falls to 0 again and again",
        ever(lambda v: v == 0, **_port("flapping", "mlx5_4")),
    ),
    Fault(
        "flapping",
        PORTS,
        "Worst ports",
        "mlx5_4 `went down`, and as many flaps as its state fell: 6 in 20 minutes",
        value(lambda v: v == 6, **_port("flapping", "mlx5_4")),
        5,
    ),
    Fault("flapping", NODE, "State of the ports", "the same row", ever(lambda v: v == 1, device="mlx5_4")),
    Fault(
        "symbol-errors",
        PORTS,
        "Worst ports",
        "`errors`, and how many in an hour",
        value(lambda v: v > 1000, **_port("symbol-errors", "mlx5_9")),
        4,
    ),
    Fault(
        "symbol-errors",
        PORTS,
        "Errors per second by kind, of the nodes shown",
        "symbol errors above zero",
        value(lambda v: v > 3, kind="symbol errors"),
    ),
    Fault(
        "symbol-errors",
        NODE,
        "Errors per second, by port",
        "mlx5_9 above zero, the others at it",
        alone(lambda v: v > 0, "mlx5_9"),
    ),
    Fault(
        "saturated",
        PORTS,
        "Counters stuck at their ceiling",
        "17 counters of the node",
        lambda answer: sum(row["node"] == "saturated" for row in answer.labels) == 17,
    ),
    Fault(
        "congested",
        PORTS,
        "Congestion signals per second by kind (RoCE)",
        "marked packets and CNPs by the ten thousand",
        value(lambda v: v > 10_000, kind="ecn marked packets"),
    ),
    Fault(
        "congested",
        NODE,
        "Congestion signals and discards per second, by kind",
        "the same, of one node",
        value(lambda v: v > 10_000, kind="cnp sent"),
    ),
    Fault(
        "einval",
        NODE,
        "What could not be read, per second; the host's stolen and interrupt time",
        "infiniband einval above zero",
        ever(lambda v: v > 0, source="infiniband", reason="einval"),
    ),
    Fault(
        "hang",
        FLEET,
        "Checks failing now",
        "hang, infiniband",
        value(lambda v: v == 0, node="hang", check="infiniband"),
    ),
    Fault(
        "hang",
        FLEET,
        "Node × check: seconds since the last run ended",
        "infiniband above 300 s, vermillion",
        value(lambda v: v > 300, node="hang", check="infiniband"),
    ),
    Fault("hang", NODE, "Checks", "infiniband: NO, and its age grows", value(lambda v: v == 0, check="infiniband")),
    Fault("silent", FLEET, "Nodes not answering", "1", value(lambda v: v == 1)),
    Fault(
        "pcie-downgrade",
        PORTS,
        "PCIe as a share of what it can be",
        "mlx5_5 at 50 %",
        value(lambda v: v == 0.5, **_port("pcie-downgrade", "mlx5_5")),
    ),
    Fault("pcie-downgrade", NODE, "Ports", "mlx5_5: PCIe at 50 % of its best", alone(lambda v: v == 0.5, "mlx5_5"), 6),
    Fault(
        "pfc-storm",
        PORTS,
        "Time that ports pause the network",
        "mlx5_6 at 90 %",
        value(lambda v: v > 0.8, **_port("pfc-storm", "mlx5_6")),
    ),
    Fault(
        "pfc-storm", PORTS, "PCIe stalls", "mlx5_6 at 85 %", value(lambda v: v > 0.8, **_port("pfc-storm", "mlx5_6"))
    ),
    Fault("nvlink-down", FLEET, "NVLinks missing", "more than none", value(lambda v: v >= 2)),
    Fault(
        "nvlink-down",
        NVLINK,
        "Nodes by missing NVLinks",
        "nvlink-down: 2",
        value(lambda v: v == 2, node="nvlink-down"),
        whole_fleet=True,
    ),
    Fault(
        "nvlink-down", NVLINK, STATE, "links 07 and 08 of GPU 2 DOWN", value(lambda v: v == 0, gpu="GPU 2", link="07")
    ),
    Fault("nvlink-down", NVLINK, IMBALANCE, "the same two at 0 %", value(lambda v: v == 0, gpu="GPU 2", link="08")),
    Fault(
        "nvlink-errors",
        NVLINK,
        "NVLink errors per second, by GPU and type",
        "GPU 4 above zero",
        value(lambda v: v > 100, gpu="4", type="crc_flit"),
    ),
    Fault(
        "nvlink-errors",
        NVLINK,
        "Errors per second by link (per_link: all)",
        "GPU 4 link 11",
        value(lambda v: v > 100, gpu="4", link="11"),
    ),
    Fault("gpu-lost", FLEET, "GPUs lost", "1", value(lambda v: v == 1)),
    Fault("gpu-lost", NVLINK, "GPUs that answer", "GPU 5 LOST from a moment on", value(lambda v: v == 0, gpu="5")),
    Fault("gpu-lost", NODE, "GPUs", "GPU 5 LOST, 18 NVLinks missing", value(lambda v: v == 18, gpu="5"), 2),
    Fault(
        "fabric-unhealthy",
        NVLINK,
        CONDITIONS,
        "GPU 1: route_unhealthy YES",
        value(lambda v: v == 1, gpu="GPU 1", condition="route_unhealthy"),
    ),
    Fault(
        "fabric-unhealthy", NVLINK, "Joining the fabric", "GPU 6 in progress for ever", value(lambda v: v == 2, gpu="6")
    ),
    Fault("throttled", NVLINK, "Clocks held down, by GPU", "GPU 3 at 40 %", value(about(0.4), gpu="3")),
    Fault("throttled", NODE, "GPUs", "GPU 3 held down 40 % of the time", value(about(0.4), gpu="3"), 6),
)


def markdown() -> str:
    """The table of docs/dashboards.md."""
    titles = {FLEET: "Fleet health", PORTS: "Ports", NVLINK: "NVLink", NODE: "Node"}
    rows = (f"| `{fault.node}` | {titles[fault.dashboard]} | {fault.panel} | {fault.says} |" for fault in FAULTS)
    return "\n".join(("| fault | dashboard | panel | what you see |", "|---|---|---|---|", *rows)) + "\n"
