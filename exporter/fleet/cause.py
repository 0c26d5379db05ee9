"""Fault, congestion or undecided: by what came with the probes.

A fault's loss is stable in time and does not follow utilisation; congestion's comes and goes with it
(CorrOpt, 2017). Counters are evidence of a cause, never of a place.
"""

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from exporter.fleet.probes import Floats
from exporter.fleet.units import percent


class Cause(StrEnum):
    """Only a fault goes to the hardware queue."""

    FAULT = "fault"
    CONGESTION = "congestion"
    UNDECIDED = "undecided"


MIN_STABLE = 6
MIN_CORRELATED = 24
STEADY = 0.3
"""Coefficient of variation of the loss, without the noise of a probe, below which it is stable."""
FOLLOWS = 0.5
IGNORES = 0.3


@dataclass(frozen=True, slots=True)
class Reason:
    """A cause and why, as half a sentence."""

    cause: Cause
    why: str


def cause(value: Floats, sigma: float, utilization: Floats, errors: Floats, marks: Floats) -> Reason:
    """Judge one NIC's probes: `value` is log(rate / normal), `sigma` the noise of a probe; NaN is absent."""
    with_errors, with_marks = _share(errors), _share(marks)
    if with_errors >= FOLLOWS and not with_marks >= FOLLOWS:
        return Reason(Cause.FAULT, f"error counters rose in {percent(with_errors)} of its probes")
    if with_marks >= FOLLOWS and not with_errors > 0:
        why = f"ECN, CNP or pause counters rose in {percent(with_marks)} of its probes, errors did not"
        return Reason(Cause.CONGESTION, why)
    known = np.isfinite(utilization)
    if known.sum() >= MIN_CORRELATED:
        return _by_utilization(-value[known], utilization[known], sigma)
    if value.size < MIN_STABLE:
        return Reason(Cause.UNDECIDED, f"{value.size} probes say nothing of persistence")
    if _variation(-value, sigma) < STEADY:
        return Reason(Cause.FAULT, "its loss is stable from probe to probe")
    return Reason(Cause.UNDECIDED, "its loss varies from probe to probe")


def _by_utilization(loss: Floats, utilization: Floats, sigma: float) -> Reason:
    rho = spearman(loss, utilization)
    if rho > FOLLOWS:
        return Reason(Cause.CONGESTION, f"its loss follows utilisation (rank correlation {rho:.2f})")
    if abs(rho) < IGNORES and _variation(loss, sigma) < STEADY:
        return Reason(Cause.FAULT, f"its loss is stable and ignores utilisation (rank correlation {rho:.2f})")
    return Reason(Cause.UNDECIDED, f"rank correlation with utilisation {rho:.2f}")


def _share(events: Floats) -> float:
    """Of the probes that brought the counter, how many saw it rise; NaN where none brought it."""
    known = events[np.isfinite(events)]
    return float((known > 0).mean()) if known.size else math.nan


def _variation(loss: Floats, sigma: float) -> float:
    """Coefficient of variation beyond the noise, by medians: one congested probe makes no fault unsteady."""
    middle = float(np.median(loss))
    spread = 1.4826 * float(np.median(np.abs(loss - middle)))
    return math.sqrt(max(spread**2 - sigma**2, 0.0)) / middle if middle > 0 else math.inf


def spearman(first: Floats, second: Floats) -> float:
    """Rank correlation, ties at their mean rank; 0 where one of them does not vary."""
    a, b = _ranks(first), _ranks(second)
    if a.std() == 0 or b.std() == 0:
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])


def _ranks(values: Floats) -> Floats:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2.0)[inverse]
