"""What `locate` answers, as values: one dataclass for each list of its JSON."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Link:
    """A NIC with its cable and host side. Losses are ratios of its rail's normal rate; the interval is 95 %."""

    node: str
    rail: str
    verdict: str
    loss: float
    loss_low: float
    loss_high: float
    probes: int
    slow_probes: int
    direction: str
    cause: str
    evidence: str
    next: str


@dataclass(frozen=True, slots=True)
class Node:
    """A node of which most rails are slow."""

    node: str
    verdict: str
    loss: float
    evidence: str


@dataclass(frozen=True, slots=True)
class Leaf:
    """A leaf switch, or its uplinks, on one rail."""

    leaf: str
    rail: str
    verdict: str
    loss: float
    evidence: str


@dataclass(frozen=True, slots=True)
class Pair:
    """A path between two NICs that are fast with everyone else."""

    src: str
    dst: str
    rail: str
    verdict: str
    loss: float
    evidence: str


@dataclass(frozen=True, slots=True)
class Undetermined:
    """What these probes can't say, and the probe that would."""

    node: str
    rail: str
    why: str
    next: str


@dataclass(frozen=True, slots=True)
class Findings:
    """The whole answer. `healthy` counts the (node, rail) cleared; `resolution` is the smallest loss these
    probes show; `normal` the typical rate by rail, as text; `cost` what each blamed link or node costs, by
    its name.
    """

    links: tuple[Link, ...]
    nodes: tuple[Node, ...]
    leaves: tuple[Leaf, ...]
    pairs: tuple[Pair, ...]
    undetermined: tuple[Undetermined, ...]
    healthy: int
    resolution: float
    noise: float
    normal: Mapping[str, str] = field(default_factory=dict)

    @property
    def status(self) -> int:
        """The exit status: 1 something is slow, 3 nothing is and something is not known, 0 all is well."""
        if self.links or self.nodes or self.leaves or self.pairs:
            return 1
        return 3 if self.undetermined or not self.healthy else 0
