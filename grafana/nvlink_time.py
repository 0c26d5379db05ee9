"""NVLink over time: imbalance, errors, fabric, throttling."""

from grafana.colours import BAD, FAIR, GOOD, LINES, NEUTRAL, POOR, Json, named, numbered, texts, thresholds
from grafana.frame import link
from grafana.panels import lines, timeline
from grafana.query import FLEET, LATELY, over_time, sel
from grafana.tables import matrix

ON_NODE = link("This node", "eastwest-node", node="$node")
GPU = "GPU {{gpu}}"
REASONS = ("power_cap", "sync_boost", "software_thermal", "hardware_thermal", "hardware_power_brake")
CELL = 90


def missing(scope: str) -> str:
    """NVLinks that a GPU should have and has not; all of them where the GPU is lost."""
    links = {state: sel("nvlink_links", scope, f'state="{state}"') for state in ("expected", "active")}
    lost = f"{links['expected']} and on (job, instance, node, gpu) ({sel('gpu_up', scope)} == 0)"
    return f"({lost} or {links['expected']} - ignoring (state) {links['active']})"


def moved(window: str, by: str = "node, gpu, link") -> str:
    """Bytes a second of both directions."""
    sides = (f"rate({sel(f'nvlink_{side}_bytes_total', FLEET)}{window})" for side in ("receive", "transmit"))
    return f"sum by ({by}) ({' + '.join(sides)})"


def of_median(window: str) -> str:
    """Each link's bytes as a share of its GPU's median link; nothing while the GPU is idle."""
    each = moved(window)
    return f"{each} / on (node, gpu) group_left () (quantile by (node, gpu) (0.5, {each}) > 0)"


def gpu_named(expr: str) -> str:
    """`GPU 0` for `0`: a bare number in a matrix's first column would be shown by the cells' value mappings."""
    return f'label_replace({expr}, "gpu", "GPU $1", "gpu", "(.+)")'


def errors() -> list[Json]:
    """Imbalance and errors."""
    least = f"min by (gpu) ({of_median('[$__rate_interval]')})"
    rates = f"sum by (gpu, type) (rate({sel('gpu_nvlink_errors_total', FLEET)}[$__rate_interval]))"
    most = f"sum by (gpu, type) (rate({sel('gpu_nvlink_errors_total', FLEET)}[$__range] @ end()))"
    per_link = sel("nvlink_errors_total", FLEET)
    ratio = sel("nvlink_bit_error_ratio", FLEET)
    return [
        lines(
            "Least used link of each GPU, as a share of the GPU's median link",
            "All near 100 % is the sound state; 0 is a link that is down.",
            [over_time(least, GPU)],
            "percentunit",
            numbered(),
        ),
        lines(
            "NVLink errors per second, by GPU and type",
            "Replays and recoveries cost time; CRC errors are mended by replays.",
            [
                over_time(
                    f"{rates} and topk($topn, {most})",
                    "{{type}} GPU {{gpu}}",
                )
            ],
            "cps",
            numbered(),
        ),
        lines(
            "Errors per second by link (per_link: all)",
            "The ten links with the most errors in the range.",
            [
                over_time(
                    f"sum by (gpu, link) (rate({per_link}[$__rate_interval])) "
                    f"and topk(10, sum by (gpu, link) (rate({per_link}[$__range] @ end())))",
                    "GPU {{gpu}} link {{link}}",
                )
            ],
            "cps",
            numbered(),
        ),
        lines(
            "Bit error ratio by link (Blackwell, per_link: all)",
            "The ten worst links; effective is what is left after correction.",
            [over_time(f"{ratio} and topk(10, {ratio} @ end())", "{{type}} GPU {{gpu}} link {{link}}")],
            "sci",
            numbered(),
        ),
    ]


def fabric() -> list[Json]:
    """The fabric, and GPUs that left it."""
    states = texts({"1": ("not started", POOR), "2": ("in progress", FAIR), "3": ("completed", GOOD)})
    unhealthy = sel("gpu_fabric_unhealthy", FLEET)
    return [
        timeline(
            "Joining the fabric", "How far each GPU has got.", over_time(sel("gpu_fabric_state", FLEET), GPU), [states]
        ),
        matrix(
            "Conditions that the driver reports: GPU × condition",
            "yes is trouble; a dash is what the driver does not say.",
            gpu_named(f"max by (gpu, condition) ({unhealthy})"),
            "gpu",
            "condition",
            "none",
            thresholds((None, NEUTRAL)),
            [ON_NODE],
            mappings=[texts({"0": ("no", GOOD), "1": ("YES", BAD)})],
            first_width=CELL,
        ),
        timeline(
            "GPUs that answer",
            "0 was there before and does not answer: off the bus, or in need of a reset.",
            over_time(sel("gpu_up", FLEET), GPU),
            [texts({"0": ("LOST", BAD), "1": ("up", GOOD)})],
        ),
        lines(
            "Xid errors in 5 minutes",
            "74 is NVLink, 79 is off the bus.",
            [
                over_time(
                    f"sum by (gpu, xid) (increase({sel('gpu_xid_errors_total', FLEET)}{LATELY}))",
                    "Xid {{xid}} GPU {{gpu}}",
                )
            ],
            "none",
            numbered(),
        ),
    ]


def throttling() -> list[Json]:
    """What holds clocks down."""
    held = sel("gpu_throttle_seconds_total", FLEET)
    return [
        lines(
            "Clocks held down, by GPU",
            "Share of time, the worst reason of each GPU: a slow GPU looks like a slow link.",
            [over_time(f"max by (gpu) (rate({held}[$__rate_interval]))", GPU)],
            "percentunit",
            numbered(),
            top=1.0,
        ),
        lines(
            "Clocks held down, by reason",
            "Share of time, the worst GPU of each reason. The power cap is normal under load.",
            [over_time(f"max by (reason) (rate({held}[$__rate_interval]))", "{{reason}}")],
            "percentunit",
            named(dict(zip(REASONS, LINES, strict=False))),
            top=1.0,
        ),
    ]
