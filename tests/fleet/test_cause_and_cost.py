"""Causes by what came with the probes; collective times by formula."""

import math

import numpy as np
import pytest

from exporter.fleet.cause import Cause, cause, spearman
from exporter.fleet.cost import Job, cost, shared
from exporter.fleet.probes import Floats

ABSENT: Floats = np.full(30, np.nan)
BUSY: Floats = np.linspace(0.0, 1.0, 30)
STEADY: Floats = math.log(0.7) + 0.02 * np.sin(2.4 * np.arange(30))
FOLLOWING: Floats = -0.6 * BUSY + 0.02 * np.sin(2.4 * np.arange(30))
SOME: Floats = np.full(30, 2.0)
NONE: Floats = np.zeros(30)


@pytest.mark.parametrize(
    ("value", "utilization", "errors", "marks", "wanted"),
    [
        (STEADY, ABSENT, ABSENT, ABSENT, Cause.FAULT),
        (STEADY, BUSY, ABSENT, ABSENT, Cause.FAULT),
        (FOLLOWING, BUSY, ABSENT, ABSENT, Cause.CONGESTION),
        (FOLLOWING, ABSENT, ABSENT, ABSENT, Cause.UNDECIDED),
        (STEADY[:3], ABSENT[:3], ABSENT[:3], ABSENT[:3], Cause.UNDECIDED),
        (FOLLOWING, ABSENT, SOME, NONE, Cause.FAULT),
        (STEADY, ABSENT, NONE, SOME, Cause.CONGESTION),
        (FOLLOWING, ABSENT, SOME, SOME, Cause.UNDECIDED),
    ],
)
def test_cause(value: Floats, utilization: Floats, errors: Floats, marks: Floats, wanted: Cause) -> None:
    assert cause(value, 0.02, utilization, errors, marks).cause == wanted


def test_spearman_ignores_scale_and_knows_ties() -> None:
    assert spearman(np.array([1.0, 2.0, 3.0]), np.array([1.0, 10.0, 1000.0])) == pytest.approx(1.0)
    assert spearman(np.array([1.0, 1.0, 1.0]), np.array([1.0, 2.0, 3.0])) == 0.0
    assert spearman(np.array([1.0, 2.0, 2.0, 3.0]), np.array([4.0, 3.0, 3.0, 1.0])) == pytest.approx(-1.0)


JOB = Job(64, 500e6)


@pytest.mark.parametrize(
    ("model", "seconds", "slow"),
    [("funnel", 1.28, 10.24), ("ring", 0.039375, 0.315), ("hierarchical", 0.00631944, 0.0369444)],
)
def test_models(model: str, seconds: float, slow: float) -> None:
    result = cost(JOB, model, 25e9, 25e9 / 8)
    assert result.seconds == pytest.approx(seconds, rel=1e-4)
    assert result.slow_seconds == pytest.approx(slow, rel=1e-4)
    assert result.gpu_seconds == pytest.approx(64 * (slow - seconds), rel=1e-4)


def test_a_tree_pays_its_depth() -> None:
    assert cost(Job(64, 500e6, latency=1e-3), "tree", 25e9, 25e9).seconds == pytest.approx(0.04 + 12e-3)


def test_overlap_hides_what_fits_under_it() -> None:
    """39 ms and 315 ms under 120 ms of computing: 195 ms show."""
    assert cost(Job(64, 500e6, overlap=0.120), "ring", 25e9, 25e9 / 8).extra_seconds == pytest.approx(0.195)


@pytest.mark.parametrize(
    ("oversubscription", "lost", "share"), [(1, 0, 1), (1, 1, 0.9375), (1, 4, 0.75), (2, 0, 0.5), (2, 4, 0.375)]
)
def test_lost_uplinks(oversubscription: float, lost: int, share: float) -> None:
    assert shared(1.0, oversubscription, 16, lost) == pytest.approx(share)
