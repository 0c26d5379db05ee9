"""PromQL by parts: selectors in the scope of a dashboard's variables, and the expressions that several panels share."""

from collections.abc import Sequence

from grafana.colours import Json

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
FLEET = 'job=~"$job", node=~"$node"'
"""All nodes that were chosen: for instant queries only, which read minutes."""
WORST = 'job=~"$job", node=~"$worst"'
"""The worst of them, by the hidden variable `worst`: for queries over the whole time range."""
PORT = "job, instance, node, device, port"
ERRORS = (
    "symbol_errors",
    "phy_symbol_errors",
    "link_error_recovery",
    "link_downed",
    "receive_errors",
    "local_link_integrity_errors",
    "icrc_errors",
)
"""Counters that mean a bad link, whoever is to blame."""
DAY = 'window="24h"'
ACTIVE, EXPECTED = 'state="active"', 'state="expected"'
RATE = "[$__rate_interval]"
LATELY = "[5m]"
"""The window of instant queries: long enough for a scrape every minute."""


def sel(metric: str, scope: str, *more: str) -> str:
    """`eastwest_<metric>{scope, more}`."""
    return f"eastwest_{metric}{{{', '.join((scope, *more))}}}"


def over_time(expr: str, legend: str = "") -> Json:
    """A query over the dashboard's time range, one line or row a series."""
    return {"expr": expr, "range": True, "instant": False, "format": "time_series", "legendFormat": legend}


def now(expr: str, legend: str = "") -> Json:
    """A query of the end of the time range, as a number."""
    return {"expr": expr, "range": False, "instant": True, "format": "time_series", "legendFormat": legend}


def rows(expr: str) -> Json:
    """A query of the end of the time range, as a table."""
    return {"expr": expr, "range": False, "instant": True, "format": "table", "legendFormat": ""}


def expected_share(scope: str, *more: str, at: str = "") -> str:
    """Speed of each port as a share of what it should have; 0 while it is down, if it ever was up."""
    speed = sel("port_rate_bytes_per_second", scope, *more) + at
    should = sel("port_expected_rate_bytes_per_second", scope, *more) + at
    return f"({down(scope, *more, at=at)} or {speed} / {should})"


def down(scope: str, *more: str, at: str = "") -> str:
    """0 for each port that is down and was up before: what was never cabled is no fault."""
    is_down = f"0 * ({sel('port_up', scope, *more)}{at} == 0)"
    return f"({is_down} unless on ({PORT}) ({sel('port_ever_up', scope)}{at} == 0))"


def utilisation(scope: str, *more: str, window: str = RATE, at: str = "") -> str:
    """The busier direction of each port as a share of its rate; of its expected rate while it is down."""
    sent = f"rate({sel('port_transmit_bytes_total', scope, *more)}{window}{at})"
    received = f"rate({sel('port_receive_bytes_total', scope, *more)}{window}{at})"
    rate = sel("port_rate_bytes_per_second", scope, *more) + at
    should = sel("port_expected_rate_bytes_per_second", scope, *more) + at
    return f"(({sent} > {received} or {received}) / ({rate} or {should}))"


def trouble(scope: str, *more: str, at: str = "", brief: bool = False) -> str:
    """How much each port deserves a look.

    4 down, 2 to 3 slower than expected, 1.8 PCIe trained below its best, 1.5 went down lately, 1.2 pauses the network,
    1 makes errors now; else its share of the rate transmitted. `brief`, for a whole fleet, leaves out what reads many
    counters (1.8, 1.2 and 1): a node's verdict has them.
    """
    share = expected_share(scope, *more, at=at)
    sent = f"rate({sel('port_transmit_bytes_total', scope, *more)}{LATELY}{at})"
    used = f"{sent} / {sel('port_rate_bytes_per_second', scope, *more)}{at}"
    port = sel("port_up", scope, *more) + at
    flapped = sel("port_flaps", scope, DAY) + at + " > 0"
    first = f"(4 + {down(scope, *more, at=at)} or 3 - ({share} < 0.99) "
    flaps = f"or 1.5 + 0 * ({port} and on ({PORT}) ({flapped})) "
    if brief:
        return f"{first}{flaps}or {used})"
    pcie = " / ".join(sel(f"nic_pcie_{name}_bytes_per_second", scope) + at for name in ("bandwidth", "max_bandwidth"))
    pausing = f"sum by ({PORT}) ({paused(scope, 'transmitted', LATELY + at)}) > 0.01"
    erring = " or ".join(f"increase({sel(f'port_{name}_total', scope)}{LATELY}{at}) > 0" for name in ERRORS[:3])
    return (
        f"{first}or 1.8 + 0 * ({port} and on (job, instance, node, device) ({pcie} < 0.99)) "
        f"{flaps}or 1.2 + 0 * ({port} and on ({PORT}) ({pausing})) "
        f"or 1 + 0 * ({port} and on ({PORT}) ({erring})) "
        f"or {used})"
    )


def kinds(names: Sequence[str]) -> list[str]:
    """The names of counters as words."""
    return [name.replace("_", " ") for name in names]


def by_kind(scope: str, names: Sequence[str], function: str, window: str = RATE) -> str:
    """`rate` or `increase` of several counters of ports, told apart by the label `kind`."""
    return " or ".join(
        f'label_replace({function}({sel(f"port_{name}_total", scope)}{window}), "kind", "{kind}", "", "")'
        for name, kind in zip(names, kinds(names), strict=True)
    )


def total_by_kind(scope: str, names: Sequence[str]) -> str:
    """Rates of several counters over all ports. Added up before they are named: the names cost more than the sum."""
    return " or ".join(
        f'label_replace(sum(rate({sel(f"port_{name}_total", scope)}{RATE})), "kind", "{kind}", "", "")'
        for name, kind in zip(names, kinds(names), strict=True)
    )


def paused(scope: str, side: str, window: str = RATE) -> str:
    """Share of time that a port stood in pauses: per priority, and of the whole link."""
    kinds = (f"rate({sel(f'port_{kind}_{side}_seconds_total', scope)}{window})" for kind in ("pfc_pause", "pause"))
    return " or ".join(kinds)


def health(scope: str, status: str) -> str:
    """1 for each node whose verdict is `status`, else 0."""
    return sel("node_health", scope, f'status="{status}"')


def verdicts(scope: str) -> str:
    """A node's verdict as a number, the worse the higher: 3 critical, 2 unknown, 1 degraded, 0 ok."""
    parts = (
        f"{weight} * {health(scope, status)}" for weight, status in ((3, "critical"), (2, "unknown"), (1, "degraded"))
    )
    return " + ignoring (status) ".join(parts)
