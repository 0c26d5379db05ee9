"""Four names that dashboards use and the code does not declare yet; to be deleted when it does.

`series` stands in for the daemon: what it will say of each simulated node.
"""

from collections.abc import Iterator, Mapping

COMING: Mapping[str, tuple[str, ...]] = {
    "eastwest_finding": ("check", "subject", "severity", "reason"),
    "eastwest_node_health": ("status",),
    "eastwest_port_ever_up": ("device", "port"),
    "eastwest_port_flaps": ("device", "port", "window"),
}
STATUSES = ("ok", "degraded", "critical", "unknown")
FINDINGS: Mapping[str, tuple[str, str, str, str]] = {
    "slow-port": ("infiniband", "mlx5_5/1", "critical", "width_reduced"),
    "flapping": ("infiniband", "mlx5_4/1", "critical", "port_flapping"),
    "symbol-errors": ("infiniband", "mlx5_9/1", "degraded", "symbol_errors"),
    "congested": ("infiniband", "node", "info", "congestion"),
    "saturated": ("infiniband", "node", "info", "counters_saturated"),
    "einval": ("infiniband", "mlx5_6/1", "unknown", "unreadable"),
    "hang": ("infiniband", "infiniband", "unknown", "check_failing"),
    "pcie-downgrade": ("roce", "mlx5_5/pcie", "critical", "pcie_downgraded"),
    "pfc-storm": ("roce", "mlx5_6/1", "degraded", "pause_storm"),
    "nvlink-down": ("nvlink", "gpu2", "critical", "nvlinks_inactive"),
    "nvlink-errors": ("nvlink", "gpu4", "degraded", "nvlink_errors"),
    "gpu-lost": ("gpu", "gpu5", "critical", "gpu_lost"),
    "fabric-unhealthy": ("gpu", "gpu1", "critical", "fabric_unhealthy"),
    "throttled": ("gpu", "gpu3", "degraded", "gpu_throttled"),
}
"""Check, subject, severity and reason of a scenario's finding."""


def series(scenario: str, ports: tuple[tuple[str, str], ...]) -> Iterator[tuple[str, float]]:
    """`name{labels}` and value of a simulated node."""
    finding = FINDINGS.get(scenario)
    status = "ok" if finding is None or finding[2] == "info" else finding[2]
    for name in STATUSES:
        yield _named("eastwest_node_health", name), float(name == status)
    if finding:
        yield _named("eastwest_finding", *finding), 1.0
    for device, port in ports:
        flaps = 5.0 if scenario == "flapping" and device == "mlx5_4" else 0.0
        yield _named("eastwest_port_ever_up", device, port), 1.0
        yield _named("eastwest_port_flaps", device, port, "10m"), min(flaps, 3.0)
        yield _named("eastwest_port_flaps", device, port, "24h"), flaps


def _named(name: str, *values: str) -> str:
    pairs = zip(COMING[name], values, strict=True)
    return name + "{" + ",".join(f'{label}="{value}"' for label, value in pairs) + "}"
