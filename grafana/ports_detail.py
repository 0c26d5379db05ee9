"""Ports: congestion, what is under the port, and bursts."""

from grafana.colours import Json, named, numbered
from grafana.frame import link
from grafana.panels import lines
from grafana.query import (
    WORST,
    kinds,
    over_time,
    paused,
    sel,
    total_by_kind,
)

LEGEND = "{{node}} {{device}}"
ON_NODE = link("This node", "eastwest-node", node="${__field.labels.node}")
KEY = "node, device, port"


def congestion() -> list[Json]:
    """Who makes whom wait."""
    signals = ("ecn_marked_packets", "cnp_sent", "cnp_handled", "cnp_ignored", "out_of_sequence")
    worst_paused = f"topk($topn, sum by ({KEY}) ({paused(WORST, 'transmitted', '[$__range] @ end()')}))"
    ticks = sel("port_transmit_wait_ticks_total", WORST)
    return [
        lines(
            "Congestion signals per second by kind (RoCE)",
            "Of the nodes shown. Sent: others are asked to slow down; handled: this node was.",
            [over_time(total_by_kind(WORST, signals), "{{kind}}")],
            "cps",
            named(kinds(signals)),
        ),
        lines(
            "Time that ports pause the network",
            "Share of time. A NIC that pauses others can't hand on what it receives: look at its PCIe.",
            [over_time(f"sum by ({KEY}) ({paused(WORST, 'transmitted')}) and {worst_paused}", LEGEND)],
            "percentunit",
            numbered(),
            top=1.0,
            links=[ON_NODE],
        ),
        lines(
            "Waiting to transmit (InfiniBand), ticks per second",
            "Ticks with data to send and no credit; a tick's length depends on the device, so compare like with like.",
            [
                over_time(
                    f"sum by ({KEY}) (rate({ticks}[$__rate_interval])) "
                    f"and topk($topn, sum by ({KEY}) (rate({ticks}[$__range] @ end())))",
                    LEGEND,
                )
            ],
            "cps",
            numbered(),
            links=[ON_NODE],
        ),
    ]


def nic() -> list[Json]:
    """PCIe and module under the port."""
    reads, writes = (sel(f"nic_pcie_{name}_stalled_ratio", WORST) for name in ("read", "write"))
    bandwidth, most = (sel(f"nic_pcie_{name}_bytes_per_second", WORST) for name in ("bandwidth", "max_bandwidth"))
    heat = sel("port_module_temperature_celsius", WORST)
    return [
        lines(
            "PCIe stalls",
            "Share of a second in which the NIC waited for PCIe credits, the worse of reads and writes.",
            [
                over_time(
                    f"({reads} > {writes} or {writes}) "
                    f"and topk($topn, ({reads} @ end() > {writes} @ end() or {writes} @ end()))",
                    LEGEND,
                )
            ],
            "percentunit",
            numbered(),
            top=1.0,
            links=[ON_NODE],
        ),
        lines(
            "PCIe as a share of what it can be",
            "Below 100 % a link under the NIC trained fewer lanes or a lower speed than it can.",
            [over_time(f"({bandwidth} / {most}) and bottomk($topn, {bandwidth} @ end() / {most} @ end())", LEGEND)],
            "percentunit",
            numbered(),
            top=1.0,
            steps=True,
            links=[ON_NODE],
        ),
        lines(
            "Temperature of the modules",
            "The hottest transceivers; they warn by themselves at about 70 °C.",
            [over_time(f"{heat} and topk($topn, {heat} @ end())", LEGEND)],
            "celsius",
            numbered(),
            links=[ON_NODE],
        ),
    ]


def bursts() -> list[Json]:
    """What the sampler of bursts saw."""
    peaks = {side: sel(f"port_{side}_peak_bytes_per_second", WORST) for side in ("receive", "transmit")}
    bucket = sel("port_transmit_utilization_ratio_bucket", WORST)
    return [
        lines(
            "Busiest 100 ms (bit/s)",
            "The busiest sample since the last run of the check; needs checks.burst.",
            [
                over_time(f"8 * {expr} and topk($topn, {expr} @ end())", f"{LEGEND} {side}")
                for side, expr in peaks.items()
            ],
            "bps",
            numbered(),
        ),
        lines(
            "Transmit utilisation in samples of 100 ms: 99th percentile",
            "Of all samples in the interval; needs checks.burst.",
            [over_time(f"histogram_quantile(0.99, sum by ({KEY}, le) (rate({bucket}[$__rate_interval])))", LEGEND)],
            "percentunit",
            numbered(),
            top=1.0,
        ),
    ]
