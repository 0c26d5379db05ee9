"""NVLink: the links of one node's GPUs, and which node of the fleet to look at."""

from grafana.colours import BAD, FAIR, GOOD, NEUTRAL, POOR, Json, texts, thresholds
from grafana.frame import dashboard, how_many, link, nodes, variables
from grafana.nvlink_time import CELL, ON_NODE, errors, fabric, gpu_named, missing, moved, of_median, throttling
from grafana.panels import stat
from grafana.query import FLEET, LATELY, now, sel
from grafana.tables import column, matrix, table

UID = "eastwest-nvlink"
JOB = 'job=~"$job"'
"""All nodes, to choose the one from; all that is below is of one node."""


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
            ("Imbalance and errors", [(12, 9, panel) for panel in errors()]),
            ("Fabric", [(12, 9, panel) for panel in fabric()]),
            ("What holds the GPUs down", [(12, 9, panel) for panel in throttling()]),
        ],
    )


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


def _matrices() -> list[Json]:
    up = gpu_named(f"max by (gpu, link) ({sel('nvlink_up', FLEET)})")
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
            gpu_named(f"max by (gpu, link) ({moved(LATELY)})"),
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
            gpu_named(f"max by (gpu, link) ({of_median(LATELY)})"),
            "gpu",
            "link",
            "percentunit",
            share,
            [ON_NODE],
            first_width=CELL,
        ),
    ]
