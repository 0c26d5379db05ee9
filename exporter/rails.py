"""Which NICs carry East-West traffic, and on which rail: from the operator's rules, memory, or inference. Pure.

A rail is the n-th compute port of a node; the same rail of every node meets at the same leaf switches. A rail
number must outlive a dead NIC, or a fault would rename its neighbours: numbers are remembered by PCI address
(by device name where there is none) and never reused.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from exporter.model import Port, Ports, Role

STORAGE_MIN_RATE = 40e9 / 8
"""An Ethernet NIC beside the compute NICs is for storage from 40 Gbit/s, for management below."""
BESIDE = "beside gpus"
_DIGITS = re.compile(r"([0-9]+)")


@dataclass(frozen=True, slots=True)
class NicRule:
    """One entry of `nics:`; the first whose glob matches the device name counts."""

    match: str
    role: Role
    rail: int | None = None
    leaf: str = ""
    cage: str = ""


@dataclass(frozen=True, slots=True)
class Remembered:
    """What is known of a port for good: its role, and its rail if that is compute.

    `given` is whether the role was an operator's: then it holds for as long as the rule does.
    """

    role: Role
    rail: int | None = None
    given: bool = False


@dataclass(frozen=True, slots=True)
class Assignment:
    """A port's role, its rail (None unless compute), the operator's leaf and cage, the numbers of the GPUs near it."""

    role: Role
    rail: int | None = None
    leaf: str = ""
    cage: str = ""
    gpu: str = ""

    @property
    def rail_label(self) -> str:
        """The rail as a label value."""
        return "" if self.rail is None else str(self.rail)


_Kind = tuple[str, ...]
Memory = Mapping[str, Remembered]
Subject = tuple[str, int]


def first_match(rules: Sequence[NicRule], device: str) -> NicRule | None:
    """The operator's rule for a device name, or None."""
    return next((rule for rule in rules if fnmatchcase(device, rule.match)), None)


def ignored(rules: Sequence[NicRule], device: str) -> bool:
    """Whether the operator said to leave this device alone."""
    rule = first_match(rules, device)
    return rule is not None and rule.role is Role.IGNORE


def assign(reading: Ports, rules: Sequence[NicRule], memory: Memory) -> tuple[Mapping[Subject, Assignment], Memory]:
    """Give each port its role and rail; returns them, and the memory with what is new.

    A role is the operator's, else the remembered one, else inferred. It is remembered only from a moment in
    which a compute NIC was active, since the rate of a port that is down is unknown, and only of a port whose
    link layer could be read.
    """
    by_rule = {key(port): first_match(rules, port.device.name) for port in reading.ports}
    inferred, firm = infer_roles(reading)
    roles: dict[str, Role] = {}
    grown = dict(memory)
    for port in reading.ports:
        name = key(port)
        rule, known = by_rule[name], memory.get(name)
        kept = known.role if known and not known.given else None
        roles[name] = rule.role if rule else kept or inferred[name]
        if rule or (firm and kept is None and port.link_layer):
            grown[name] = Remembered(roles[name], known.rail if known else None, given=rule is not None)
    reserved = frozenset(rule.rail for rule in rules if rule.rail is not None)
    rails = _number_rails(reading.ports, roles, by_rule, memory, reserved)
    for name, rail in rails.items():
        if name in grown:
            grown[name] = replace(grown[name], rail=rail)
    assignments = {}
    for port in reading.ports:
        name, rule = key(port), by_rule[key(port)]
        assignments[port.device.name, port.number] = Assignment(
            roles[name], rails.get(name), rule.leaf if rule else "", rule.cage if rule else ""
        )
    return assignments, grown


def infer_roles(reading: Ports) -> tuple[Mapping[str, Role], bool]:
    """Roles by what the NICs have in common, and whether the compute NICs had an active port to judge by.

    NICs of one driver, model, board and link layer are one kind; what of that can't be read makes no other kind,
    but two are made where some stand beside GPUs and others do not. The kind with the most bandwidth in all (ports
    x fastest port) is compute, on a tie InfiniBand; a kind that is down altogether is taken to be as fast as the
    fastest port of the node. A NIC with a default route is management; of the rest InfiniBand and fast Ethernet are
    storage, slow Ethernet is management.
    """
    routed = {key(port) for port in reading.ports if _routed(port, reading.default_route)}
    kinds: dict[_Kind, list[Port]] = defaultdict(list)
    for port in reading.ports:
        if key(port) not in routed:
            device = port.device
            kinds[device.driver, device.hca_type, device.board_id, port.link_layer].append(port)
    kinds = dict(part for kind, ports in _merged(kinds).items() for part in _by_gpus(kind, ports))
    fastest = max((port.rate for port in reading.ports if port.rate), default=1.0)
    rates = {kind: max((port.rate for port in ports if port.rate), default=fastest) for kind, ports in kinds.items()}
    compute = max(
        kinds,
        key=lambda kind: (
            rates[kind] * len(kinds[kind]),
            kind[4:] == (BESIDE,),
            kind[3] == "InfiniBand",
            len(kinds[kind]),
            kind,
        ),
        default=None,
    )
    roles = dict.fromkeys(routed, Role.MANAGEMENT)
    for kind, ports in kinds.items():
        slow = kind[3] == "Ethernet" and rates[kind] < STORAGE_MIN_RATE
        role = Role.COMPUTE if kind == compute else Role.MANAGEMENT if slow else Role.STORAGE
        roles.update({key(port): role for port in ports})
    return roles, compute is not None and any(port.active for port in kinds[compute])


def _merged(kinds: Mapping[_Kind, list[Port]]) -> dict[_Kind, list[Port]]:
    """Put a NIC of which something is unknown to the largest kind that agrees in all that is known."""
    merged = {kind: list(ports) for kind, ports in kinds.items()}
    for kind in sorted(kinds, key=_unknown):
        fitting = [other for other in merged if _unknown(other) < _unknown(kind) and _agrees(kind, other)]
        if fitting:
            merged[max(fitting, key=lambda other: len(merged[other]))] += merged.pop(kind)
    return merged


def _agrees(kind: _Kind, other: _Kind) -> bool:
    return all(fact in ("", known) for fact, known in zip(kind, other, strict=True))


def _unknown(kind: _Kind) -> int:
    return sum(fact == "" for fact in kind)


def _by_gpus(kind: _Kind, ports: list[Port]) -> Iterator[tuple[_Kind, list[Port]]]:
    """NICs of one board are for compute where they stand beside GPUs, and for storage where they do not.

    Only where those that do are spread evenly over several places, as they are by design and not by accident.
    """
    beside = [port for port in ports if port.device.near_gpus]
    places = Counter(port.device.near_gpus for port in beside)
    even = len(places) > 1 and len(set(places.values())) == 1
    if not even or len(beside) == len(ports):
        yield kind, ports
        return
    yield (*kind, BESIDE), beside
    yield (*kind, "apart"), [port for port in ports if not port.device.near_gpus]


def gpu_label(near: Iterable[str], numbers: Mapping[str, int]) -> str:
    """The numbers of the GPUs near a NIC: `3`, or `2,3` where it serves two alike; those not yet read left out."""
    return ",".join(str(number) for number in sorted(numbers[address] for address in near if address in numbers))


def key(port: Port) -> str:
    """What a port is remembered by: `0000:18:00.0/1`, or `mlx5_0/1` where the PCI address is unknown."""
    return f"{port.device.pci_address or port.device.name}/{port.number}"


def _routed(port: Port, default_route: frozenset[str]) -> bool:
    return port.netdev in default_route or not default_route.isdisjoint(port.slaves)


def _number_rails(
    ports: Iterable[Port],
    roles: Mapping[str, Role],
    by_rule: Mapping[str, NicRule | None],
    memory: Memory,
    reserved: frozenset[int],
) -> Mapping[str, int]:
    """The operator's number, else the remembered one, else the next after all that were ever given.

    A number that a rule gives (`reserved`) is its NICs' alone, be they there or not: whoever was given it before the
    rule was written gets another.
    """
    compute = sorted((port for port in ports if roles[key(port)] is Role.COMPUTE), key=_order)
    rails: dict[str, int] = {}
    for port in compute:
        name = key(port)
        rule, known = by_rule[name], memory.get(name)
        if rule and rule.rail is not None:
            rails[name] = rule.rail
        elif known and known.rail is not None and known.rail not in reserved:
            rails[name] = known.rail
    given = set(rails.values()) | reserved | {known.rail for known in memory.values() if known.rail is not None}
    for port in compute:
        if key(port) not in rails:
            number = next(n for n in range(len(given) + 1) if n not in given)
            rails[key(port)] = number
            given.add(number)
    return rails


def _order(port: Port) -> tuple[str, list[tuple[int, int | str]], int]:
    """By PCI address, then by device name with its digits as numbers (mlx5_9 before mlx5_10)."""
    parts = _DIGITS.split(port.device.name)
    natural = [(0, int(part)) if _DIGITS.fullmatch(part) else (1, part) for part in parts]
    return port.device.pci_address, natural, port.number
