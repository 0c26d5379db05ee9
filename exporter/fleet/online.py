"""The online estimator: a CUSUM for each NIC that explains away what a worse partner or its leaf did.

State is a value: `step(state, probes)` gives the next state and the verdicts that stand. Every slow probe
adds to a NIC's score and every fast one takes away more, so that congestion, which comes and goes, adds up to
nothing. A NIC past SUSPECT asks for more probes against the cleanest partner of its leaf; past CONFIRM, or
once its slow probes repeat one rate beyond chance (see alike), it is blamed.
"""

from dataclasses import replace

import numpy as np

from exporter.fleet import alike
from exporter.fleet.leafterm import leaf_terms
from exporter.fleet.levels import FAST, Noise
from exporter.fleet.locate import tells_of_ends
from exporter.fleet.online_learn import MIN_ROUND, YOUNG, learn
from exporter.fleet.online_state import Round, State, Verdict
from exporter.fleet.probes import CROSS, INTRA, UNKNOWN, Bools, Floats, Ints

SUSPECT = 6.0
CONFIRM = 18.0
CLEAR_AT = CONFIRM / 4
WORSE = 0.75 * CONFIRM
"""A partner past this score explains a slow probe."""
HIGHEST = 2 * CONFIRM
HOLD = 1800.0
"""Seconds a verdict outlives its evidence, and that lie between a blame and its corroboration."""
REPEAT = 86400.0
SPREAD = 8
"""Suspects of one leaf are sent to this many of its cleanest NICs, not all to one."""
MEMORY = 16
"""Rounds of cross-leaf probes that make a leaf's term."""


def step(state: State, probes: Round) -> tuple[State, tuple[Verdict, ...]]:
    """Take the probes of a round. Several probes of one NIC count one after the other, in their order.

    A rate that is no positive number is left out.
    """
    usable = np.isfinite(probes.rate) & (probes.rate > 0)
    probes = Round(probes.time, probes.src[usable], probes.dst[usable], probes.rate[usable], probes.errors[usable])
    scope = _scope(state, probes.src, probes.dst)
    calm = state.score < SUSPECT  # a suspect's are slow more often, and must not teach what is usual
    calm = calm[probes.src] & calm[probes.dst]
    state = learn(state, probes, scope, calm)
    value = np.log(probes.rate) - state.normal[scope, state.rail[probes.src]]
    said = np.isfinite(value) & (state.learnt[scope, state.rail[probes.src]] >= YOUNG)
    src, dst, value = probes.src[said], probes.dst[said], value[said]
    calm = calm[said]
    scheduled = int(calm.sum()) >= MIN_ROUND
    tells, state = _past_leaves(state, (src, dst, value), scheduled)
    if scheduled:
        state = replace(state, alike=alike.learn(state.alike, value[calm], state.sigma))
    src, dst, value = src[tells], dst[tells], value[tells]
    for layer in _layers(src, dst, state.rail.size):
        state = _score(state, src[layer], dst[layer], value[layer])
    struck = np.zeros(state.rail.size, bool)
    faulty = said & (probes.errors > 0)
    struck[probes.src[faulty]] = struck[probes.dst[faulty]] = True
    state = _hold(state, probes.time, struck)
    return state, _verdicts(state, probes.time)


def _scope(state: State, src: Ints, dst: Ints) -> Ints:
    a, b = state.leaf[src], state.leaf[dst]
    return np.where((a < 0) | (b < 0), UNKNOWN, np.where(a == b, INTRA, CROSS))


def _past_leaves(state: State, probes: tuple[Ints, Ints, Floats], scheduled: bool) -> tuple[Bools, State]:
    """Which probes show more than what their leaves' uplinks took lately; those of a scheduled round are remembered."""
    src, dst, value = probes
    if not (_scope(state, src, dst) == CROSS).any():
        return np.ones(value.size, bool), state
    rounds = (*state.past, probes)[-MEMORY:]
    all_src, all_dst, all_value = (np.concatenate(parts) for parts in zip(*rounds, strict=True))
    _, through = leaf_terms(state.leaf, state.rail, all_src, all_dst, all_value)
    past = rounds if scheduled else state.past
    tells = tells_of_ends(value, through[through.size - value.size :], Noise(state.sigma, 0.0))
    return tells, replace(state, past=past)


def _layers(src: Ints, dst: Ints, size: int) -> list[Ints]:
    """The probes in groups that touch each NIC once, in order."""
    left, layers = np.arange(src.size), []
    while left.size:
        first = np.full(size, left.size)
        position = np.arange(left.size)
        np.minimum.at(first, src[left], position)
        np.minimum.at(first, dst[left], position)
        now = (first[src[left]] == position) & (first[dst[left]] == position)
        layers.append(left[now])
        left = left[~now]
    return layers


def _score(state: State, src: Ints, dst: Ints, value: Floats) -> State:
    """The CUSUM step: at most 2 up, at most 4 down; nothing where a worse partner explains the slow probe."""
    score, level, level_probes = state.score.copy(), state.level.copy(), state.level_probes.copy()
    seen, likeness = state.probes.copy(), state.alike
    cross = _scope(state, src, dst) == CROSS
    drift = np.clip(-value / state.sigma, -3.0, 3.0) - 1.0
    for mine, other in ((src, dst), (dst, src)):
        # A fast probe can't be had from a NIC that lost this much: it outweighs two slow ones.
        certain = (value >= FAST) & (level[mine] < -3 * state.sigma)
        change = np.where(certain, -4.0, drift)
        explained = (drift > 0) & (state.score[other] > state.score[mine]) & (state.score[other] >= WORSE)
        score[mine] = np.where(explained, state.score[mine], np.clip(state.score[mine] + change, 0.0, HIGHEST))
        likeness = alike.weigh(likeness, alike.Seen(mine, value, cross, explained), state.sigma)
        score[mine] = np.where(likeness.weight[mine] >= alike.SURE, np.maximum(score[mine], CONFIRM), score[mine])
        fresh = score[mine] <= 0
        count = np.where(fresh, 0, level_probes[mine] + ~explained)
        towards = np.where(explained, 0.0, (value - level[mine]) / np.maximum(count, 1))
        level[mine] = np.where(fresh, 0.0, level[mine] + towards)
        level_probes[mine] = count
        seen[mine] += 1
    return replace(state, score=score, level=level, level_probes=level_probes, probes=seen, alike=likeness)


def _hold(state: State, now: float, struck: Bools) -> State:
    """Start, corroborate and end blames: in at CONFIRM, out below CLEAR_AT for HOLD seconds."""
    blamed = np.isfinite(state.blamed_since)
    new = ~blamed & (state.score >= CONFIRM)
    since = np.where(new, now, state.blamed_since)
    returned = np.where(new, now - np.nan_to_num(state.cleared_at, nan=-np.inf) <= REPEAT, state.returned)
    again = (state.score >= CONFIRM) & (now - np.nan_to_num(since, nan=now) >= HOLD)
    corroborated = np.isfinite(since) & (state.corroborated | again | struck)
    calm = np.where(state.score < CLEAR_AT, np.where(np.isnan(state.calm_since), now, state.calm_since), np.nan)
    over = blamed & (now - np.nan_to_num(calm, nan=now) >= HOLD)
    return replace(
        state,
        blamed_since=np.where(over, np.nan, since),
        calm_since=calm,
        cleared_at=np.where(over, now, state.cleared_at),
        corroborated=corroborated & ~over,
        returned=returned,
    )


def _verdicts(state: State, now: float) -> tuple[Verdict, ...]:
    blamed = np.isfinite(state.blamed_since)
    standing = np.flatnonzero(blamed | (state.score >= SUSPECT))
    anchors = _anchors(state, standing)
    return tuple(
        Verdict(
            nic=nic,
            grade="corroborated" if state.corroborated[nic] else "confirmed" if blamed[nic] else "suspect",
            score=float(state.score[nic]),
            loss=float(max(1 - np.exp(state.level[nic]), 0.0)),
            since=float(state.blamed_since[nic]) if blamed[nic] else now,
            returned=bool(blamed[nic] and state.returned[nic]),
            anchor=anchor,
        )
        for nic, anchor in zip(standing.tolist(), anchors, strict=True)
    )


def _anchors(state: State, wanted: Ints) -> list[int]:
    """For each NIC the cleanest other one of its leaf and rail, or of its rail: lowest score, then most
    probes.

    One of its leaf if there is any: a burst on the uplinks raises every score of a leaf, and must not be
    probed.
    """
    if not wanted.size:
        return []
    clean = np.flatnonzero((state.score < SUSPECT) & (state.probes > 0) & np.isnan(state.blamed_since))
    order = clean[np.lexsort((-state.probes[clean], state.score[clean]))]
    found = []
    for number, nic in enumerate(wanted.tolist()):
        near = order[(state.rail[order] == state.rail[nic]) & (state.leaf[order] == state.leaf[nic])]
        choices = near if near.size else order[state.rail[order] == state.rail[nic]]
        found.append(int(choices[number % min(choices.size, SPREAD)]) if choices.size else -1)
    return found
