"""NVLink: the links of one node's GPUs, and which node of the fleet to look at."""

from grafana.colours import BAD, FAIR, GOOD, LINES, NEUTRAL, POOR, Json, named, numbered, texts, thresholds
from grafana.frame import dashboard, how_many, link, nodes, variables
from grafana.panels import lines, stat, timeline
from grafana.query import FLEET, LATELY, now, over_time, sel
from grafana.tables import column, matrix, table

UID = "eastwest-nvlink"
JOB = 'job=~"$job"'
"""All nodes, to choose the one from; all that is below is of one node."""
ON_NODE = link("This node", "eastwest-node", node="$node")
GPU = "GPU {{gpu}}"
REASONS = ("power_cap", "sync_boost", "software_thermal", "hardware_thermal", "hardware_power_brake")
CELL = 90


def nvlink() -> Json:
    """The dashboard."""
    return dashboard(
        UID,
        "East-West / NVLink",
        "NVLink inside one node: which link of which GPU is down, slower than its neighbours, or makes errors.",
        variables(nodes(several=False), how_many()),
        [
            ("Which node", [(24, 8, _fleet())]),
            ("This node: $node", [(4, 4, panel) for panel in _numbers()]),
            ("Link by link", [(24, 10, panel) for panel in _matrices()]),
            ("Imbalance and errors", [(12, 9, panel) for panel in _errors()]),
            ("Fabric", [(12, 9, panel) for panel in _fabric()]),
            ("What holds the GPUs down", [(12, 9, panel) for panel in _throttling()]),
        ],
    )


def missing(scope: str) -> str:
    """NVLinks that a GPU should have and has not; all of them where the GPU is lost."""
    links = {state: sel("nvlink_links", scope, f'state="{state}"') for state in ("expected", "active")}
    lost = f"{links['expected']} and on (job, instance, node, gpu) ({sel('gpu_up', scope)} == 0)"
    return f"({lost} or {links['expected']} - ignoring (state) {links['active']})"


def _fleet() -> Json:
    unhealthy = sel("gpu_fabric_unhealthy", JOB)
    held = sel("gpu_throttle_seconds_total", JOB, 'reason=~".*thermal|.*brake"')
    errors = sel("gpu_nvlink_errors_total", JOB)
    some = thresholds((None, GOOD), (1, BAD))
    columns = [
        (f"topk($topn, sum by (node) ({missing(JOB)}))", column("NVLinks missing", "none", some)),
        (f"sum by (node) ({sel('gpu_up', JOB)} == bool 0)", column("GPUs lost", "none", some)),
        (f"sum by (node) (max by (node, gpu) ({unhealthy}))", column("GPUs with fabric trouble", "none", some)),
        (
            f"sum by (node) (increase({errors}{LATELY}))",
            column("NVLink errors in 5 min", "none", thresholds((None, GOOD), (1, POOR)), decimals=0),
        ),
        (
            f"max by (node) (sum by (node, gpu) (rate({held}{LATELY})))",
            column(
                "Worst GPU held by heat or brake", "percentunit", thresholds((None, GOOD), (0.05, POOR)), decimals=0
            ),
        ),
    ]
    return table(
        "Nodes by missing NVLinks",
        "Choose a node: its name sets the node below.",
        columns,
        labels=("node",),
        links={
            "node": [
                link("Show this node's NVLinks", UID, node="${__data.fields.node}"),
                link("This node", "eastwest-node", node="${__data.fields.node}"),
            ]
        },
        by="NVLinks missing",
        leading=True,
    )


def _numbers() -> list[Json]:
    bad = thresholds((None, GOOD), (1, BAD))
    off = thresholds((None, GOOD), (1, POOR))
    links = {state: sel("nvlink_links", FLEET, f'state="{state}"') for state in ("expected", "active")}
    xids = sel("gpu_xid_errors_total", FLEET)
    return [
        stat(
            "GPUs lost",
            "GPUs that were there and do not answer.",
            now(f"sum({sel('gpu_up', FLEET)} == bool 0)"),
            thresholds=bad,
        ),
        stat("NVLinks active", "Of all GPUs.", now(f"sum({links['active']})")),
        stat(
            "NVLinks missing",
            "Expected and not active; all of a lost GPU.",
            now(f"sum({missing(FLEET)})"),
            thresholds=bad,
        ),
        stat(
            "GPUs with fabric trouble",
            "GPUs of which the driver reports a condition of the NVLink fabric.",
            now(f"sum(max by (node, gpu) ({sel('gpu_fabric_unhealthy', FLEET)}))"),
            thresholds=bad,
        ),
        stat(
            "NVLink errors in 5 min",
            "Of all types and GPUs.",
            now(f"sum(increase({sel('gpu_nvlink_errors_total', FLEET)}{LATELY}))"),
            thresholds=off,
            decimals=0,
        ),
        stat("Xid errors", "In the time range.", now(f"sum(increase({xids}[$__range]))"), thresholds=off, decimals=0),
    ]


def _moved(window: str, by: str = "node, gpu, link") -> str:
    sides = (f"rate({sel(f'nvlink_{side}_bytes_total', FLEET)}{window})" for side in ("receive", "transmit"))
    return f"sum by ({by}) ({' + '.join(sides)})"


def _of_median(window: str) -> str:
    """Each link's bytes as a share of its GPU's median link; nothing while the GPU is idle."""
    moved = _moved(window)
    return f"{moved} / on (node, gpu) group_left () (quantile by (node, gpu) (0.5, {moved}) > 0)"


def _gpu_named(expr: str) -> str:
    """`GPU 0` for `0`: a bare number in a matrix's first column would be shown by the cells' value mappings."""
    return f'label_replace({expr}, "gpu", "GPU $1", "gpu", "(.+)")'


def _matrices() -> list[Json]:
    up = _gpu_named(f"max by (gpu, link) ({sel('nvlink_up', FLEET)})")
    share = thresholds((None, BAD), (0.3, POOR), (0.7, FAIR), (0.9, GOOD), (1.1, FAIR), (1.5, POOR))
    states = texts({"0": ("DOWN", BAD), "1": ("up", GOOD)})
    return [
        matrix(
            "State: GPU × link",
            "Up is active or asleep. A GPU that is not listed does not answer, has no NVLink, or is in MIG mode.",
            up,
            "gpu",
            "link",
            "none",
            thresholds((None, NEUTRAL)),
            [ON_NODE],
            mappings=[states],
            first_width=CELL,
        ),
        matrix(
            "Throughput: GPU × link (bytes/s, both directions, last 5 minutes)",
            "0 is an idle or dead link; a dash is no counter (V100, or per_link: none).",
            _gpu_named(f"max by (gpu, link) ({_moved(LATELY)})"),
            "gpu",
            "link",
            "Bps",
            thresholds((None, NEUTRAL), (1, GOOD)),
            [ON_NODE],
            decimals=1,
            first_width=CELL,
        ),
        matrix(
            "Imbalance: each link as a share of its GPU's median link",
            "Through NVSwitch all links of a GPU move alike. Nothing is shown while a GPU is idle.",
            _gpu_named(f"max by (gpu, link) ({_of_median(LATELY)})"),
            "gpu",
            "link",
            "percentunit",
            share,
            [ON_NODE],
            first_width=CELL,
        ),
    ]


def _errors() -> list[Json]:
    least = f"min by (gpu) ({_of_median('[$__rate_interval]')})"
    errors = f"sum by (gpu, type) (rate({sel('gpu_nvlink_errors_total', FLEET)}[$__rate_interval]))"
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
                    f"{errors} and topk($topn, {most})",
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


def _fabric() -> list[Json]:
    states = texts({"1": ("not started", POOR), "2": ("in progress", FAIR), "3": ("completed", GOOD)})
    unhealthy = sel("gpu_fabric_unhealthy", FLEET)
    return [
        timeline(
            "Joining the fabric", "How far each GPU has got.", over_time(sel("gpu_fabric_state", FLEET), GPU), [states]
        ),
        matrix(
            "Conditions that the driver reports: GPU × condition",
            "yes is trouble; a dash is what the driver does not say.",
            _gpu_named(f"max by (gpu, condition) ({unhealthy})"),
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


def _throttling() -> list[Json]:
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
