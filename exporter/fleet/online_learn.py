"""What is normal and how noisy a probe is, learnt from round to round, slowly."""

from dataclasses import replace

import numpy as np

from exporter.fleet.levels import FLOOR, upper_sigma
from exporter.fleet.online_state import Round, State
from exporter.fleet.probes import Bools, Ints

LEARN = 0.02
"""Share of each round in the slow baseline: a rail-wide step shows as a shift for hours."""
YOUNG = 8
"""Probes a NIC needs before normal is learnt from it; rounds that must have said what is normal before one is
judged.
"""
UPPER = 1.13
"""How far above the median, in noises, the upper one of two middle values is: this over how many values there are."""
SETTLED = YOUNG // 2
"""Rounds after which normal is good enough to say what the noise is."""
MIN_ROUND = 8
"""Fewer probes than this at once (a suspect's) say nothing of the noise."""
FIRST_SIGMA = 0.05
"""Noise taken for granted until a round says it."""


def learn(state: State, probes: Round, scope: Ints, calm: Bools) -> State:
    """Move normal and noise a little towards this round's; never by a NIC that is young.

    `scope` is that of each probe, `calm` whether neither of its ends is under suspicion.
    """
    rail = state.rail[probes.src]
    grown = (state.probes >= YOUNG)[probes.src] & (state.probes >= YOUNG)[probes.dst]
    normal, learnt = state.normal.copy(), state.learnt.copy()
    log_rate = np.log(probes.rate)
    for kind in np.unique(scope * normal.shape[1] + rail).tolist():
        at = divmod(kind, normal.shape[1])
        chosen = (scope == at[0]) & (rail == at[1]) & calm & (grown | (learnt[at] < YOUNG))
        if not chosen.any():
            continue
        typical = float(np.quantile(log_rate[chosen], 0.5, method="higher"))
        if chosen.sum() % 2 == 0:  # the upper of two middle ones, so that congestion can't be it: a little high
            typical -= UPPER / int(chosen.sum()) * (state.sigma or FIRST_SIGMA)
        old = typical if np.isnan(normal[at]) else float(normal[at])
        learnt[at] += 1
        normal[at] = old + max(LEARN, 1 / learnt[at]) * (typical - old)
    deviation = log_rate - normal[scope, rail]
    settled = calm & (learnt[scope, rail] >= SETTLED)
    if settled.sum() < MIN_ROUND or not np.isfinite(deviation).all():
        return replace(state, normal=normal, learnt=learnt, sigma=state.sigma or FIRST_SIGMA)
    seen = upper_sigma(deviation[settled])
    rounds = int(learnt[scope, rail].max()) - SETTLED + 1
    sigma = state.sigma + max(0.1, 1 / rounds) * (seen - state.sigma)
    return replace(state, normal=normal, learnt=learnt, sigma=max(sigma, FLOOR))
