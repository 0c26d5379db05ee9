"""Ports: every RDMA port against its rate and its expectation, the worst first."""

from grafana.colours import BAD, FAIR, GOOD, NEUTRAL, POOR, Json, named, numbered, texts, thresholds
from grafana.frame import chosen, dashboard, how_many, link, nodes, variables, worst
from grafana.panels import heatmap, lines, stat, timeline
from grafana.ports_detail import KEY, LEGEND, ON_NODE, bursts, congestion, nic
from grafana.query import (
    DAY,
    ERRORS,
    FLEET,
    LATELY,
    PORT,
    WORST,
    by_kind,
    expected_share,
    kinds,
    now,
    over_time,
    paused,
    sel,
    total_by_kind,
    trouble,
    utilisation,
)
from grafana.tables import column, table

UID = "eastwest-ports"
CHOSEN = ('role=~"$role"', 'rail=~"$rail"')
SHARE = thresholds((None, BAD), (0.5, POOR), (0.9, FAIR), (0.99, GOOD))
STATES = texts({"1": ("DOWN", BAD), "2": ("INIT", POOR), "3": ("ARMED", FAIR), "4": ("ACTIVE", GOOD)})


def ports() -> Json:
    """The dashboard."""
    role = chosen("role", "Role", 'label_values(eastwest_port_up{job=~"$job", node=~"$node"}, role)', several=True)
    rail = chosen("rail", "Rail", 'label_values(eastwest_port_up{job=~"$job", node=~"$node"}, rail)', several=True)
    return dashboard(
        UID,
        "East-West / Ports",
        "InfiniBand, RoCE and EFA ports. What is drawn over time are the ports most in trouble among the nodes chosen.",
        variables(nodes(several=True), role, rail, how_many(), worst()),
        [
            ("Now", [(4, 4, panel) for panel in _numbers()]),
            ("Which ports", [(24, 12, _utilisation()), (24, 12, _worst())]),
            ("State and speed", [(12, 12, _states()), (12, 12, _speed())]),
            ("Errors", [(14, 9, _errors()), (10, 9, _saturated())]),
            ("Congestion", [(8, 9, panel) for panel in congestion()]),
            ("Under the port", [(8, 9, panel) for panel in nic()]),
            ("Bursts (checks.burst, off by default)", [(12, 8, panel) for panel in bursts()]),
        ],
    )


def _numbers() -> list[Json]:
    bad = thresholds((None, GOOD), (1, BAD))
    off = thresholds((None, GOOD), (1, POOR))
    rate, should = (sel(f"port_{name}_bytes_per_second", FLEET, *CHOSEN) for name in ("rate", "expected_rate"))
    erring = " or ".join(f"increase({sel(f'port_{name}_total', FLEET)}{LATELY}) > 0" for name in ERRORS)
    is_down = f"sum({sel('port_up', FLEET, *CHOSEN)} == bool 0 unless on ({PORT}) ({sel('port_ever_up', FLEET)} == 0))"
    return [
        stat("Ports", "Ports that the daemons report.", now(f"count({sel('port_up', FLEET, *CHOSEN)})")),
        stat("Down", "Ports that were up before and are not ACTIVE now.", now(is_down), thresholds=bad),
        stat(
            "Slower than expected",
            "Ports that are up with less than the rate that the configuration or like ports say.",
            now(f"sum({rate} / {should} < bool 0.99)"),
            thresholds=bad,
        ),
        stat(
            "Went down in 24 h",
            "Ports that went down and came back in the last 24 hours.",
            now(f"sum({sel('port_flaps', FLEET, DAY)} > bool 0)"),
            thresholds=off,
        ),
        stat(
            "Make errors now",
            "Ports of which an error counter moved in the last 5 minutes.",
            now(f"count({erring}) or 0 * count({sel('port_up', FLEET)})"),
            thresholds=off,
        ),
        stat(
            "Pause the network",
            "Ports that made the network wait for more than 1 % of the last 5 minutes.",
            now(f"sum(sum by ({KEY}) ({paused(FLEET, 'transmitted', LATELY)}) > bool 0.01)"),
            thresholds=off,
        ),
    ]


def _shown(expr: str) -> str:
    """Only the ports most in trouble at the end of the range, the same set for the whole range."""
    return f"{expr} and on ({PORT}) topk($topn, {trouble(WORST, *CHOSEN, at=' @ end()')})"


def _utilisation() -> Json:
    return heatmap(
        "Utilisation: port × time",
        "The busier direction of each port as a share of its rate. Dark is idle or down, a gap is no data. In "
        "synchronous training all rails move alike: a row that is brighter than the others has a lower rate.",
        over_time(_shown(utilisation(WORST, *CHOSEN)), "{{node}} {{device}} {{role}} {{rail}}"),
    )


def _worst() -> Json:
    level = [
        {
            "type": "range",
            "options": {"from": start, "to": end, "result": {"text": text, "color": colour, "index": index}},
        }
        for index, (start, end, text, colour) in enumerate(
            (
                (3.5, 4.5, "down", BAD),
                (1.9, 3.1, "slow", BAD),
                (1.7, 1.85, "PCIe", BAD),
                (1.4, 1.6, "went down", POOR),
                (1.1, 1.3, "pauses", POOR),
                (0.99, 1.01, "errors", POOR),
                (-1, 0.989, "none", GOOD),
            )
        )
    ]
    bandwidth, most = (sel(f"nic_pcie_{name}_bytes_per_second", WORST) for name in ("bandwidth", "max_bandwidth"))
    pcie = f"0 * {sel('port_up', WORST)} + on (job, instance, node, device) group_left () ({bandwidth} / {most})"
    errors = by_kind(WORST, ERRORS, "increase", "[1h]")
    pauses = paused(WORST, "transmitted", LATELY)
    columns = [
        (
            f"max by ({KEY}, role, rail) (topk($topn, {trouble(WORST, *CHOSEN)}))",
            column("Trouble", "none", thresholds((None, NEUTRAL)), level),
        ),
        (f"8 * max by ({KEY}) ({sel('port_rate_bytes_per_second', WORST, *CHOSEN)})", column("Speed", "bps")),
        (f"max by ({KEY}) ({expected_share(WORST, *CHOSEN)})", column("Of expected", "percentunit", SHARE, decimals=0)),
        (
            f"max by ({KEY}) ({utilisation(WORST, *CHOSEN, window=LATELY)})",
            column("Utilisation", "percentunit", decimals=0),
        ),
        (
            f"sum by ({KEY}) ({errors})",
            column("Errors 1 h", "none", thresholds((None, GOOD), (1, POOR)), decimals=0),
        ),
        (
            f"max by ({KEY}) ({sel('port_flaps', WORST, DAY)})",
            column("Flaps 24 h", "none", thresholds((None, GOOD), (1, POOR))),
        ),
        (
            f"sum by ({KEY}) ({pauses})",
            column("Pauses others", "percentunit", thresholds((None, GOOD), (0.01, POOR)), decimals=0),
        ),
        (f"max by ({KEY}) ({pcie})", column("PCIe", "percentunit", SHARE, decimals=0)),
        (f"max by ({KEY}) ({sel('port_module_temperature_celsius', WORST)})", column("Module", "celsius", decimals=0)),
    ]
    return table(
        "Worst ports",
        "Down first, then slow, below its best on PCIe, went down lately, pauses the network, makes errors, then "
        "the busiest. The figures are of the last 5 minutes, or as the column says.",
        columns,
        labels=("node", "device", "port", "role", "rail"),
        links={
            "node": [link("This node", "eastwest-node", node="${__data.fields.node}")],
            "device": [link("This node's ports", UID, node="${__data.fields.node}")],
        },
        by="Trouble",
        leading=True,
    )


def _states() -> Json:
    low = f"bottomk($topn, min_over_time({sel('port_state_id', WORST)}[$__range] @ end()))"
    return timeline(
        "State of the ports that were worst in the range",
        "The logical state. INIT waits for a subnet manager.",
        over_time(f"{sel('port_state_id', WORST)} and on ({PORT}) {low}", LEGEND),
        [STATES],
        [ON_NODE],
    )


def _speed() -> Json:
    return lines(
        "Speed as a share of what is expected",
        "100 % is what the configuration or like ports say; 0 is a port that is down and was up before.",
        [over_time(_shown(expected_share(WORST, *CHOSEN)), LEGEND)],
        "percentunit",
        numbered(),
        top=1.0,
        steps=True,
        links=[ON_NODE],
    )


def _errors() -> Json:
    return lines(
        "Errors per second by kind, of the nodes shown",
        "All at zero is the sound state. Which port it is: the table above.",
        [over_time(total_by_kind(WORST, ERRORS), "{{kind}}")],
        "cps",
        named(kinds(ERRORS)),
    )


def _saturated() -> Json:
    expr = f"topk(200, max by ({KEY}, counter) ({sel('port_counter_saturated', FLEET)}))"
    return table(
        "Counters stuck at their ceiling",
        "They can't tell of new errors until somebody clears them. Most are leftovers of installation.",
        [(expr, column("Stuck", "none", mappings=[texts({"1": ("yes", NEUTRAL)})]))],
        labels=("node", "device", "port", "counter"),
        links={"node": [link("This node", "eastwest-node", node="${__data.fields.node}")]},
        empty="None",
    )
