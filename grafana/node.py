"""Node: everything of one node."""

from grafana.colours import (
    BAD,
    GOOD,
    NEUTRAL,
    POOR,
    SEVERITY,
    STATUS,
    Json,
    named,
    numbered,
    texts,
    thresholds,
)
from grafana.fleet import VERDICTS
from grafana.frame import dashboard, link, nodes, variables
from grafana.node_detail import NVLINKS, checks, cost, gpu_lines, gpus, unread
from grafana.panels import heatmap, lines, stat, timeline
from grafana.ports import SHARE, STATES
from grafana.query import (
    DAY,
    ERRORS,
    FLEET,
    LATELY,
    by_kind,
    expected_share,
    kinds,
    now,
    over_time,
    paused,
    sel,
    total_by_kind,
    utilisation,
    verdicts,
)
from grafana.tables import column, table

UID = "eastwest-node"
PORTS = link("This node's ports", "eastwest-ports", node="$node")
KEY = "device, port"
COMPUTE = 'role="compute"'


def node() -> Json:
    """The dashboard."""
    return dashboard(
        UID,
        "East-West / Node",
        "One node: its verdict, ports, GPUs and NVLinks, and the daemon itself.",
        variables(nodes(several=False)),
        [
            ("Verdict of $node", [(5, 6, _verdict()), (19, 6, _findings()), (24, 4, _history())]),
            ("Ports", [(24, 11, _ports()), (24, 9, _utilisation()), (12, 9, _states()), (12, 9, _bytes())]),
            ("Errors and congestion of ports", [(12, 9, panel) for panel in _port_errors()]),
            ("GPUs and NVLinks", [(24, 9, gpus()), *((8, 9, panel) for panel in gpu_lines())]),
            ("The daemon", [(8, 9, checks()), (8, 9, unread()), (8, 9, cost())]),
        ],
    )


def _verdict() -> Json:
    made = stat(
        "Verdict",
        "What the daemon says of this node. Nothing is shown where it says nothing.",
        now(f"{sel('node_health', FLEET)} == 1", "{{status}}"),
        text_mode="name",
    )
    made["fieldConfig"]["overrides"] = named(STATUS)
    return made


def _findings() -> Json:
    labels = ("severity", "subject", "reason", "check")
    expr = f"max by ({', '.join(labels)}) ({sel('finding', FLEET)})"
    severities = texts({name: (name, colour) for name, colour in SEVERITY.items()})
    filled = {"type": "color-background", "mode": "basic"}
    coloured = [{"id": "mappings", "value": [severities]}, {"id": "custom.cellOptions", "value": filled}]
    return table(
        "Findings",
        "docs/findings.md says of every reason how it is computed and what to do.",
        [(expr, None)],
        labels=labels,
        links={"subject": [PORTS, NVLINKS]},
        by="severity",
        ascending=True,
        overrides=[{"matcher": {"id": "byName", "options": "severity"}, "properties": coloured}],
        empty="No findings",
    )


def _history() -> Json:
    return timeline(
        "Verdict over time",
        "A gap is a daemon that did not answer.",
        over_time(f"sum by (node) ({verdicts(FLEET)})", "{{node}}"),
        [VERDICTS],
    )


def _ports() -> Json:
    up = f"max by ({KEY}, role, rail) ({sel('port_up', FLEET)})"
    bandwidth, most = (sel(f"nic_pcie_{name}_bytes_per_second", FLEET) for name in ("bandwidth", "max_bandwidth"))
    pcie = f"0 * {sel('port_up', FLEET)} + on (job, instance, node, device) group_left () ({bandwidth} / {most})"
    some = thresholds((None, GOOD), (1, POOR))
    info = sel("port_info", FLEET)
    columns = [
        (up, column("Up", "none", thresholds((None, NEUTRAL)), [texts({"0": ("DOWN", BAD), "1": ("up", GOOD)})])),
        (f"8 * max by ({KEY}) ({sel('port_rate_bytes_per_second', FLEET)})", column("Speed", "bps")),
        (f"max by ({KEY}) ({expected_share(FLEET)})", column("Of expected", "percentunit", SHARE, decimals=0)),
        (f"max by ({KEY}) ({utilisation(FLEET, window=LATELY)})", column("Utilisation", "percentunit", decimals=0)),
        (
            f"sum by ({KEY}) ({by_kind(FLEET, ERRORS, 'increase', '[1h]')})",
            column("Errors 1 h", "none", some, decimals=0),
        ),
        (f"max by ({KEY}) ({sel('port_flaps', FLEET, DAY)})", column("Flaps 24 h", "none", some)),
        (f"max by ({KEY}) ({pcie})", column("PCIe", "percentunit", SHARE, decimals=0)),
        (f"max by ({KEY}) ({sel('port_module_temperature_celsius', FLEET)})", column("Module", "celsius", decimals=0)),
        (
            f"max by ({KEY}, netdev, pci_address, gpu, firmware_version) ({info})",
            None,
        ),
    ]
    return table(
        "Ports",
        "One row a port; the last columns say where it sits. GPU is the one nearest by PCIe.",
        columns,
        labels=("device", "port", "role", "rail", "netdev", "pci_address", "gpu", "firmware_version"),
        links={"device": [PORTS]},
        by="rail",
        ascending=True,
        leading=True,
    )


def _utilisation() -> Json:
    return heatmap(
        "Utilisation: port × time",
        "The busier direction of each port as a share of its rate. Dark is idle or down, a gap is no data.",
        over_time(utilisation(FLEET), "{{device}} {{role}} {{rail}}"),
    )


def _states() -> Json:
    return timeline(
        "State of the ports",
        "The logical state.",
        over_time(sel("port_state_id", FLEET), "{{device}}"),
        [STATES],
        [PORTS],
    )


def _bytes() -> Json:
    sides = [
        over_time(
            f"8 * sum by (rail) (rate({sel(f'port_{side}_bytes_total', FLEET, COMPUTE)}[$__rate_interval]))",
            f"{side} rail {{{{rail}}}}",
        )
        for side in ("receive", "transmit")
    ]
    return lines(
        "Traffic by rail (bit/s)", "Both directions of the compute ports.", sides, "bps", numbered(), links=[PORTS]
    )


def _port_errors() -> list[Json]:
    signals = ("ecn_marked_packets", "cnp_sent", "cnp_handled", "cnp_ignored", "out_of_sequence", "transmit_discards")
    by_port = f"sum by ({KEY}) ({by_kind(FLEET, ERRORS, 'rate')})"
    return [
        lines(
            "Errors per second, by port",
            "All kinds that mean a bad link.",
            [over_time(by_port, "{{device}}")],
            "cps",
            numbered(),
            links=[PORTS],
        ),
        lines(
            "Errors per second, by kind",
            "Of all ports.",
            [over_time(total_by_kind(FLEET, ERRORS), "{{kind}}")],
            "cps",
            named(kinds(ERRORS)),
        ),
        lines(
            "Congestion signals and discards per second, by kind",
            "Of all ports.",
            [over_time(total_by_kind(FLEET, signals), "{{kind}}")],
            "cps",
            named(kinds(signals)),
        ),
        lines(
            "Time that ports pause the network, or are paused",
            "Share of time. Transmitted: this node is the slower one; received: the network is.",
            [
                over_time(f"sum by ({KEY}) ({paused(FLEET, side)})", f"{side} {{{{device}}}}")
                for side in ("transmitted", "received")
            ],
            "percentunit",
            numbered(),
            top=1.0,
            links=[PORTS],
        ),
    ]
