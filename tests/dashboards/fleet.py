"""The simulated fleet that the dashboards are shown: every kind of fault, and nodes that are well."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.dashboards.history import Member, Span, member, write
from tests.dashboards.server import Prometheus, prometheus_over

SECONDS = 1230.0
"""Long enough for the read that hangs after 880 s to be five minutes old."""
MEMBERS: Sequence[Member] = (
    member("healthy"),
    member("healthy", name="silent", silent_for=400),
    member("roce"),
    member("efa"),
    member("bare"),
    member("v100"),
    member("b200", nvlink={"per_link": "all"}),
    member("slow-port"),
    member("flapping"),
    member("symbol-errors"),
    member("saturated"),
    member("congested", burst={"enabled": True, "interval": "15s"}),
    member("einval"),
    member("hang"),
    member("pcie-downgrade"),
    member("pfc-storm"),
    member("nvlink-down"),
    member("nvlink-errors", nvlink={"per_link": "all"}),
    member("gpu-lost"),
    member("fabric-unhealthy"),
    member("throttled"),
)
"""Each is called after its scenario."""


def recent(seconds: float, step: float = 15.0) -> Span:
    """A span that ended a moment ago: Prometheus keeps two weeks."""
    return Span(time.time() // 60 * 60 - seconds, seconds, step)


@contextmanager
def shown(folder: Path, members: Sequence[Member], span: Span) -> Iterator[Prometheus]:
    """A Prometheus that has watched these nodes for that long."""
    past = folder / "past.om"
    with past.open("w") as file:
        write(file, members, span)
    with prometheus_over(past, folder) as server:
        past.unlink()
        yield server
