"""Fleet health: how many nodes are well, what is found, and where to look next."""

from grafana.colours import BAD, FAIR, GOOD, NEUTRAL, POOR, SEVERITY, STATUS, UNKNOWN, Json, named, texts, thresholds
from grafana.frame import ALERTS, dashboard, how_many, link, nodes, variables, worst
from grafana.nvlink_time import missing
from grafana.panels import lines, stat, timeline
from grafana.query import FLEET, PORT, WORST, expected_share, health, now, over_time, sel, verdicts
from grafana.tables import column, matrix, table

UID = "eastwest-fleet"
JOB = 'job=~"$job"'
COMPUTE = 'role="compute"'
FIRING = f'ALERTS{{alertstate="firing", alertname=~"{ALERTS}", node=~"$node"}}'
AGE = thresholds((None, GOOD), (60, POOR), (300, BAD))
VERDICTS = texts({"0": ("ok", GOOD), "1": ("degraded", POOR), "2": ("unknown", UNKNOWN), "3": ("critical", BAD)})
NODE_OF_ROW = link("This node", "eastwest-node", node="${__data.fields.node}")


def fleet() -> Json:
    """The dashboard."""
    return dashboard(
        UID,
        "East-West / Fleet health",
        "Verdicts and findings of all nodes. From a node to its dashboard, from a rail to its ports.",
        variables(nodes(several=True), how_many(), worst()),
        [
            ("Verdicts", [(4, 4, panel) for panel in _verdicts()]),
            ("", [(4, 4, panel) for panel in _hardware()]),
            ("Findings", [(14, 10, _findings()), (10, 10, _alerts())]),
            ("Rails", [(24, 14, _rails())]),
            ("Over time", [(12, 10, panel) for panel in _over_time()]),
            ("The daemons", [(12, 10, _ages()), (6, 10, _failing()), (6, 10, _versions())]),
        ],
    )


def _verdicts() -> list[Json]:
    says = {
        "ok": "Nodes without a finding that counts.",
        "degraded": "Nodes that work and should be looked at.",
        "critical": "Nodes that should not be given work.",
        "unknown": "Nodes of which something can't be read: not known to be well.",
    }
    made = [
        stat(
            f"Nodes {status}",
            says[status],
            now(f"sum({health(FLEET, status)})"),
            thresholds=thresholds((None, NEUTRAL), (1, colour)),
        )
        for status, colour in STATUS.items()
    ]
    answering = f"up{{{FLEET}}} == bool 0 and on (job) {sel('build_info', JOB)}"
    return [
        *made,
        stat(
            "Nodes not answering",
            "Nodes whose daemon Prometheus can't scrape.",
            now(f"sum({answering})"),
            thresholds=thresholds((None, GOOD), (1, BAD)),
        ),
        stat(
            "Alerts firing",
            "Of this project's rules. Nothing is shown where none fires, or where no rules are loaded.",
            now(f"count({FIRING})"),
            thresholds=thresholds((None, NEUTRAL), (1, BAD)),
            noValue="none",
        ),
    ]


def _hardware() -> list[Json]:
    bad = thresholds((None, GOOD), (1, BAD))
    rate, should = (sel(f"port_{name}_bytes_per_second", FLEET) for name in ("rate", "expected_rate"))
    is_down = f"sum({sel('port_up', FLEET)} == bool 0 unless on ({PORT}) ({sel('port_ever_up', FLEET)} == 0))"
    return [
        stat("Ports down", "Ports that were up before and are not ACTIVE.", now(is_down), thresholds=bad),
        stat(
            "Ports slower than expected",
            "Up, with less than the expected rate.",
            now(f"sum({rate} / {should} < bool 0.99)"),
            thresholds=bad,
        ),
        stat(
            "GPUs lost",
            "GPUs that were there and do not answer.",
            now(f"sum({sel('gpu_up', FLEET)} == bool 0)"),
            thresholds=bad,
        ),
        stat("NVLinks missing", "Expected and not active.", now(f"sum({missing(FLEET)})"), thresholds=bad),
        stat(
            "Checks failing",
            "Checks that failed or do not answer.",
            now(f"sum({sel('check_success', FLEET)} == bool 0)"),
            thresholds=bad,
        ),
        stat(
            "Bad configurations",
            "Daemons whose last reload was refused; they go on with the old one.",
            now(f"sum({sel('config_last_reload_successful', FLEET)} == bool 0)"),
            thresholds=bad,
        ),
    ]


def _findings() -> Json:
    labels = ("severity", "node", "subject", "reason", "check")
    expr = f"max by ({', '.join(labels)}) ({sel('finding', FLEET)})"
    severities = texts({name: (name, colour) for name, colour in SEVERITY.items()})
    filled = {"type": "color-background", "mode": "basic"}
    coloured = [{"id": "mappings", "value": [severities]}, {"id": "custom.cellOptions", "value": filled}]
    return table(
        "Findings",
        "What the daemons have found. docs/findings.md says of every reason how it is computed and what to do.",
        [(expr, None)],
        labels=labels,
        links={
            "node": [NODE_OF_ROW],
            "subject": [
                link("This node's ports", "eastwest-ports", node="${__data.fields.node}"),
                link("This node's NVLinks", "eastwest-nvlink", node="${__data.fields.node}"),
            ],
        },
        by="severity",
        ascending=True,
        overrides=[{"matcher": {"id": "byName", "options": "severity"}, "properties": coloured}],
        empty="No findings",
    )


def _alerts() -> Json:
    labels = ("severity", "alertname", "node", "device", "gpu")
    return table(
        "Alerts",
        "Those of this project's rules that fire.",
        [(f"max by ({', '.join(labels)}) ({FIRING})", None)],
        labels=labels,
        links={"node": [NODE_OF_ROW]},
        by="alertname",
        ascending=True,
        empty="None, or no rules are loaded",
    )


def _rails() -> Json:
    share = f"min by (node, rail) ({expected_share(FLEET, COMPUTE)})"
    return matrix(
        "Node × rail: speed as a share of what is expected",
        "The worst compute port of each rail. A dash is a rail that the node does not report.",
        share,
        "node",
        "rail",
        "percentunit",
        thresholds((None, BAD), (0.5, POOR), (0.9, FAIR), (0.99, GOOD)),
        [link("This rail's ports", "eastwest-ports", node="${__data.fields[0]}", rail="${__field.name}")],
        [link("This node", "eastwest-node", node="${__data.fields[0]}")],
        [texts({"0": ("down", BAD)})],
        first_width=220,
    )


def _over_time() -> list[Json]:
    return [
        lines(
            "Nodes by verdict",
            "Of all nodes chosen. A drop of the sum is a daemon that does not answer.",
            [over_time(f"sum by (status) ({sel('node_health', FLEET)})", "{{status}}")],
            "none",
            named(STATUS),
            stacked=True,
        ),
        timeline(
            "Verdicts of the nodes most in trouble",
            "Unknown is never shown as ok.",
            over_time(f"sum by (node) ({verdicts(WORST)})", "{{node}}"),
            [VERDICTS],
            [link("This node", "eastwest-node", node="${__field.labels.node}")],
        ),
    ]


def _ages() -> Json:
    age = f"max by (node, check) (time() - {sel('check_last_run_timestamp_seconds', FLEET)})"
    return matrix(
        "Node × check: seconds since the last run ended",
        "The nodes with the oldest. What a check says is withheld when it is older than a minute (or three intervals).",
        f"{age} and on (node) topk($topn, max by (node) ({age}))",
        "node",
        "check",
        "s",
        AGE,
        row_links=[link("This node", "eastwest-node", node="${__data.fields[0]}")],
        first_width=220,
    )


def _failing() -> Json:
    return table(
        "Checks failing now",
        "Failed, or past its deadline.",
        [
            (
                f"max by (node, check) ({sel('check_success', FLEET)} == 0)",
                column("Success", "none", thresholds((None, BAD)), [texts({"0": ("no", BAD)})]),
            )
        ],
        labels=("node", "check"),
        links={"node": [NODE_OF_ROW]},
        empty="None",
    )


def _versions() -> Json:
    return table(
        "Versions",
        "How many daemons run which version.",
        [(f"count by (version) ({sel('build_info', FLEET)})", column("Nodes", "none"))],
        labels=("version",),
        links={},
    )
