"""What the online estimator knows of a fleet, as a value, and what it is given and says."""

from dataclasses import dataclass

import numpy as np

from exporter.fleet import alike
from exporter.fleet.probes import Bools, Floats, Ints


@dataclass(frozen=True, slots=True)
class Round:
    """Probes of one moment, `time` in seconds. `src`, `dst` number NICs; `rate` in bytes/s; `errors` NaN
    where absent.
    """

    time: float
    src: Ints
    dst: Ints
    rate: Floats
    errors: Floats


@dataclass(frozen=True, slots=True)
class State:
    """By NIC unless said otherwise; NaN is never.

    `score` is the CUSUM; `level` the mean log loss since it left 0, over `level_probes`; `blamed_since` and
    `calm_since` in seconds; `cleared_at` when the last blame ended; `returned` whether it came back within a
    day; `normal` (scope, rail) is log of the normal rate, from `learnt` rounds; `sigma` the noise of a probe;
    `past` the cross-leaf probes of the last rounds as (first NIC, second NIC, value) arrays; `alike` how much the slow
    probes of a NIC repeat each other.
    """

    rail: Ints
    leaf: Ints
    score: Floats
    probes: Ints
    level: Floats
    level_probes: Ints
    blamed_since: Floats
    calm_since: Floats
    cleared_at: Floats
    corroborated: Bools
    returned: Bools
    normal: Floats
    learnt: Ints
    sigma: float
    past: tuple[tuple[Ints, Ints, Floats], ...]
    alike: alike.Alike


@dataclass(frozen=True, slots=True)
class Verdict:
    """What stands of one NIC: `grade` is suspect, confirmed or corroborated; `loss` a ratio; `anchor` the NIC
    to probe it against next, or -1; `since` in seconds; `returned`: blamed before within a day.
    """

    nic: int
    grade: str
    score: float
    loss: float
    since: float
    returned: bool
    anchor: int


def start(rail: Ints, leaf: Ints) -> State:
    """Nothing known of NICs on these rails and leaves (-1: not known)."""
    size = rail.size
    never, none = np.full(size, np.nan), np.zeros(size, np.int64)
    normal = np.full((3, int(rail.max(initial=0)) + 1), np.nan)
    no = np.zeros(size, bool)
    return State(
        rail,
        leaf,
        np.zeros(size),
        none,
        np.zeros(size),
        none,
        never,
        never,
        never,
        no,
        no,
        normal,
        np.zeros(normal.shape, np.int64),
        0.0,
        (),
        alike.start(size),
    )
