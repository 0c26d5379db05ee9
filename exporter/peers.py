"""What like ports have in common, and so what is expected of each. Pure."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from exporter.model import Port, Role
from exporter.rails import Assignment

MIN_LIKE = 2
"""Like ports that must agree before a rate is expected of the others."""


def likeness(port: Port, assignment: Assignment) -> tuple[str, ...]:
    """What makes two ports comparable: role, link layer and model."""
    return assignment.role.value, port.link_layer, port.device.hca_type


def expected_rates(
    ports: Sequence[Port],
    assignments: Mapping[tuple[str, int], Assignment],
    configured: Mapping[Role, float],
    best: Mapping[str, float],
) -> Mapping[str, float]:
    """Bytes/s that each port should run at, by subject; a port is not in it where nothing is known.

    The operator's figure for the role; else the commonest rate among the active ports that are alike, where more
    than half of them, and at least two, agree; else the `best` that the port ran at itself of late, by subject.
    """
    rates: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for port in ports:
        if port.rate is not None:
            rates[likeness(port, assignments[port.device.name, port.number])].append(port.rate)
    usual = {}
    for like, seen in rates.items():
        rate, agreeing = Counter(seen).most_common(1)[0]
        if agreeing >= MIN_LIKE and agreeing * 2 > len(seen):
            usual[like] = rate
    found = {}
    for port in ports:
        assignment = assignments[port.device.name, port.number]
        like = likeness(port, assignment)
        rate_or_none = configured.get(assignment.role, usual.get(like, best.get(port.subject)))
        if rate_or_none is not None:
            found[port.subject] = rate_or_none
    return found
