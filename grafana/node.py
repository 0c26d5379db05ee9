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
from grafana.fleet import AGE, VERDICTS
from grafana.frame import dashboard, link, nodes, variables
from grafana.nvlink import missing
from grafana.panels import heatmap, lines, stat, timeline
from grafana.ports import SHARE, STATES
from grafana.query import (
    ACTIVE,
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
    utilisation,
    verdicts,
)
from grafana.tables import column, table

UID = "eastwest-node"
PORTS = link("This node's ports", "eastwest-ports", node="$node")
NVLINKS = link("This node's NVLinks", "eastwest-nvlink", node="$node")
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
            ("GPUs and NVLinks", [(24, 9, _gpus()), *((8, 9, panel) for panel in _gpu_lines())]),
            ("The daemon", [(8, 9, _checks()), (8, 9, _unread()), (8, 9, _cost())]),
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
            [over_time(f"sum by (kind) ({by_kind(FLEET, ERRORS, 'rate')})", "{{kind}}")],
            "cps",
            named(kinds(ERRORS)),
        ),
        lines(
            "Congestion signals and discards per second, by kind",
            "Of all ports.",
            [over_time(f"sum by (kind) ({by_kind(FLEET, signals, 'rate')})", "{{kind}}")],
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


def _gpus() -> Json:
    held = sel("gpu_throttle_seconds_total", FLEET)
    some, bad = thresholds((None, GOOD), (1, POOR)), thresholds((None, GOOD), (1, BAD))
    width, most = sel("gpu_pcie_width", FLEET), sel("gpu_pcie_max_width", FLEET)
    columns = [
        (
            f"max by (gpu) ({sel('gpu_up', FLEET)})",
            column("Answers", "none", thresholds((None, NEUTRAL)), [texts({"0": ("LOST", BAD), "1": ("yes", GOOD)})]),
        ),
        (f"max by (gpu) ({sel('nvlink_links', FLEET, ACTIVE)})", column("NVLinks", "none")),
        (f"max by (gpu) ({missing(FLEET)})", column("NVLinks missing", "none", bad)),
        (
            f"sum by (gpu) (increase({sel('gpu_nvlink_errors_total', FLEET)}{LATELY}))",
            column("NVLink errors in 5 min", "none", some, decimals=0),
        ),
        (f"sum by (gpu) ({sel('gpu_fabric_unhealthy', FLEET)})", column("Fabric conditions", "none", bad)),
        (
            f"sum by (gpu) (increase({sel('gpu_xid_errors_total', FLEET)}[$__range]))",
            column("Xid errors in the range", "none", some, decimals=0),
        ),
        (
            f"max by (gpu) (rate({held}{LATELY}))",
            column("Held down", "percentunit", thresholds((None, GOOD), (0.05, POOR)), decimals=0),
        ),
        (f"max by (gpu) ({width} / {most})", column("PCIe lanes of its best", "percentunit", SHARE, decimals=0)),
        (f"max by (gpu, model, pci_address) ({sel('gpu_info', FLEET)})", None),
    ]
    return table(
        "GPUs",
        "One row a GPU. A GPU that is lost keeps its row, and its links count as missing.",
        columns,
        labels=("gpu", "model", "pci_address"),
        links={"gpu": [NVLINKS]},
        by="gpu",
        ascending=True,
        leading=True,
    )


def _gpu_lines() -> list[Json]:
    sides = " + ".join(
        f"rate({sel(f'nvlink_{side}_bytes_total', FLEET)}[$__rate_interval])" for side in ("receive", "transmit")
    )
    held = sel("gpu_throttle_seconds_total", FLEET)
    return [
        lines(
            "NVLink throughput by GPU (bytes/s)",
            "Both directions of all links.",
            [over_time(f"sum by (gpu) ({sides})", "GPU {{gpu}}")],
            "Bps",
            numbered(),
            links=[NVLINKS],
        ),
        lines(
            "NVLink errors per second, by GPU",
            "All types.",
            [
                over_time(
                    f"sum by (gpu) (rate({sel('gpu_nvlink_errors_total', FLEET)}[$__rate_interval]))", "GPU {{gpu}}"
                )
            ],
            "cps",
            numbered(),
            links=[NVLINKS],
        ),
        lines(
            "Clocks held down, by GPU",
            "Share of time, the worst reason.",
            [over_time(f"max by (gpu) (rate({held}[$__rate_interval]))", "GPU {{gpu}}")],
            "percentunit",
            numbered(),
            top=1.0,
            links=[NVLINKS],
        ),
    ]


def _checks() -> Json:
    last = sel("check_last_run_timestamp_seconds", FLEET)
    columns = [
        (
            f"max by (check) ({sel('check_success', FLEET)})",
            column("Success", "none", thresholds((None, NEUTRAL)), [texts({"0": ("NO", BAD), "1": ("yes", GOOD)})]),
        ),
        (f"max by (check) (time() - {last})", column("Age", "s", AGE, decimals=0)),
        (f"max by (check) ({sel('check_duration_seconds', FLEET)})", column("Took", "s", decimals=3)),
        (
            f"max by (check) (increase({sel('check_overruns_total', FLEET)}[1h]))",
            column("Overruns in 1 h", "none", decimals=0),
        ),
    ]
    return table(
        "Checks",
        "Age is the time since the last run ended.",
        columns,
        labels=("check",),
        links={},
        by="check",
        ascending=True,
    )


def _unread() -> Json:
    errors = f"sum by (source, reason) (rate({sel('source_errors_total', FLEET)}[$__rate_interval]))"
    cpu = f"max by (mode) ({sel('host_cpu_ratio', FLEET)})"
    return lines(
        "What could not be read, per second; the host's stolen and interrupt time",
        "Reads that should have answered, by what they said; and the share of the processors' time.",
        [over_time(errors, "{{source}} {{reason}}"), over_time(cpu, "cpu {{mode}}")],
        "none",
    )


def _cost() -> Json:
    used = f"rate(process_cpu_seconds_total{{{FLEET}}}[$__rate_interval])"
    cpu = f"{used} and on (job, instance) {sel('build_info', FLEET)}"
    return lines(
        "CPU of the daemon",
        "Share of one core; the NVML worker is not counted.",
        [over_time(cpu, "daemon")],
        "percentunit",
    )
