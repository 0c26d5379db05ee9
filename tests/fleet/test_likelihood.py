"""Evidence against a NIC: weighed on how its own fleet's healthy probes scatter."""

import numpy as np

from exporter.fleet.likelihood import LEAST, density, evidence, needed
from exporter.fleet.probes import Floats

SIGMA = 0.05
RNG = np.random.default_rng(27_000)
NOISE: Floats = RNG.normal(0, SIGMA, 50_000)


def congested(share: float) -> Floats:
    return NOISE + np.where(RNG.random(NOISE.size) < share, np.log(RNG.uniform(0.3, 0.9, NOISE.size)), 0.0)


def weight(values: list[float], healthy: Floats, doubt: float = 0.0) -> float:
    row = np.array([values])
    return float(evidence(density(healthy, SIGMA), row, np.ones(row.shape, bool), np.array([doubt]))[0])


ALIKE = [-0.36, -0.31, -0.40, -0.37, -0.34]


def test_alike_is_evidence_and_scattered_is_not() -> None:
    assert weight(ALIKE, congested(0.1)) > LEAST
    assert weight([-0.1, -1.1, -0.4, -0.7, -0.2], congested(0.1)) < LEAST / 2
    assert weight([0.0, 0.05, -0.05, 0.02, -0.03], congested(0.1)) < 0


def test_a_congested_fleet_asks_for_more() -> None:
    assert weight(ALIKE, congested(0.02)) > weight(ALIKE, congested(0.2)) + 5


def test_doubt_of_the_normal_rate_forgives() -> None:
    small = [-0.12, -0.10, -0.14, -0.11, -0.13, -0.12, -0.09, -0.12]
    assert weight(small, NOISE) > LEAST > weight(small, NOISE, doubt=0.05)


def test_what_does_not_count_changes_nothing() -> None:
    row = np.array([[*ALIKE, 0.0]])
    counts = np.array([[True] * 5 + [False]])
    table = density(congested(0.1), SIGMA)
    assert evidence(table, row, counts, np.zeros(1))[0] == evidence(table, row[:, :5], counts[:, :5], np.zeros(1))[0]


def test_chance_does_not_reach_what_is_needed() -> None:
    """200,000 NICs of a fleet with a tenth of its probes congested."""
    values = RNG.choice(congested(0.1), (200_000, 8))
    slow = values[values.mean(axis=1) < -0.0726]
    doubt = np.zeros(slow.shape[0])
    assert evidence(density(congested(0.1), SIGMA), slow, np.ones(slow.shape, bool), doubt).max() < needed(200_000)


def test_nothing_known_blames_nobody() -> None:
    none: Floats = np.zeros(0)
    assert weight(ALIKE, none) < LEAST
    assert evidence(density(none, SIGMA), np.zeros((0, 8)), np.zeros((0, 8), bool), none).size == 0


def test_wide_noise_has_few_bins() -> None:
    assert np.isfinite(density(RNG.normal(0, 0.6, 100), 0.6).log).all()
