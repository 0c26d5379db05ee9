"""Node: its GPUs, and the daemon itself."""

from grafana.colours import (
    BAD,
    GOOD,
    NEUTRAL,
    POOR,
    Json,
    numbered,
    texts,
    thresholds,
)
from grafana.fleet import AGE
from grafana.frame import link
from grafana.nvlink_time import missing
from grafana.panels import lines
from grafana.ports import SHARE
from grafana.query import (
    ACTIVE,
    FLEET,
    LATELY,
    over_time,
    sel,
)
from grafana.tables import column, table

NVLINKS = link("This node's NVLinks", "eastwest-nvlink", node="$node")


def gpus() -> Json:
    """The table of GPUs."""
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


def gpu_lines() -> list[Json]:
    """What the GPUs move, count and wait for."""
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


def checks() -> Json:
    """The table of checks."""
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


def unread() -> Json:
    """What could not be read."""
    errors = f"sum by (source, reason) (rate({sel('source_errors_total', FLEET)}[$__rate_interval]))"
    cpu = f"max by (mode) ({sel('host_cpu_ratio', FLEET)})"
    return lines(
        "What could not be read, per second; the host's stolen and interrupt time",
        "Reads that should have answered, by what they said; and the share of the processors' time.",
        [over_time(errors, "{{source}} {{reason}}"), over_time(cpu, "cpu {{mode}}")],
        "none",
    )


def cost() -> Json:
    """What the daemon itself takes."""
    used = f"rate(process_cpu_seconds_total{{{FLEET}}}[$__rate_interval])"
    cpu = f"{used} and on (job, instance) {sel('build_info', FLEET)}"
    return lines(
        "CPU of the daemon",
        "Share of one core; the NVML worker is not counted.",
        [over_time(cpu, "daemon")],
        "percentunit",
    )
