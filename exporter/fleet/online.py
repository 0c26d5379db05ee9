"""The online estimator: a CUSUM for each NIC that explains away what a worse partner or its leaf did.

State is a value: `step(state, probes)` gives the next state and the verdicts that stand. Every slow probe
adds to a NIC's score and every fast one takes away more, so that congestion, which comes and goes, adds up to
nothing. A NIC past SUSPECT asks for more probes against the cleanest partner of its leaf; past CONFIRM it is
blamed.
"""

from dataclasses import dataclass, replace

import numpy as np

from exporter.fleet import alike
from exporter.fleet.leafterm import leaf_terms
from exporter.fleet.levels import FAST, FLOOR, Noise, upper_sigma
from exporter.fleet.locate import tells_of_ends
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
SPREAD = 8
"""Suspects of one leaf are sent to this many of its cleanest NICs, not all to one."""
MEMORY = 16
"""Rounds of cross-leaf probes that make a leaf's term."""


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


def step(state: State, probes: Round) -> tuple[State, tuple[Verdict, ...]]:
    """Take the probes of a round. Several probes of one NIC count one after the other, in their order.

    A rate that is no positive number is left out.
    """
    usable = np.isfinite(probes.rate) & (probes.rate > 0)
    probes = Round(probes.time, probes.src[usable], probes.dst[usable], probes.rate[usable], probes.errors[usable])
    scope = _scope(state, probes.src, probes.dst)
    state = _learn(state, probes, scope)
    value = np.log(probes.rate) - state.normal[scope, state.rail[probes.src]]
    said = np.isfinite(value) & (state.learnt[scope, state.rail[probes.src]] >= YOUNG)
    src, dst, value = probes.src[said], probes.dst[said], value[said]
    calm = (state.score[src] < SUSPECT) & (state.score[dst] < SUSPECT)  # not a suspect's, which are slow more often
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


def _learn(state: State, probes: Round, scope: Ints) -> State:
    """Move normal and noise a little towards this round's; never by a NIC that is young or under suspicion."""
    fit = state.score < SUSPECT
    rail = state.rail[probes.src]
    fit = fit[probes.src] & fit[probes.dst]
    grown = (state.probes >= YOUNG)[probes.src] & (state.probes >= YOUNG)[probes.dst]
    normal, learnt = state.normal.copy(), state.learnt.copy()
    log_rate = np.log(probes.rate)
    for kind in np.unique(scope * normal.shape[1] + rail).tolist():
        at = divmod(kind, normal.shape[1])
        chosen = (scope == at[0]) & (rail == at[1]) & fit & (grown | (learnt[at] < YOUNG))
        if not chosen.any():
            continue
        typical = float(np.quantile(log_rate[chosen], 0.5, method="higher"))
        if chosen.sum() % 2 == 0:  # the upper of two middle ones, so that congestion can't be it: a little high
            typical -= UPPER / int(chosen.sum()) * (state.sigma or FIRST_SIGMA)
        old = typical if np.isnan(normal[at]) else float(normal[at])
        learnt[at] += 1
        normal[at] = old + max(LEARN, 1 / learnt[at]) * (typical - old)
    deviation = log_rate - normal[scope, rail]
    settled = learnt[scope, rail] >= SETTLED
    if settled.sum() < MIN_ROUND or not np.isfinite(deviation).all():
        return replace(state, normal=normal, learnt=learnt, sigma=state.sigma or FIRST_SIGMA)
    seen = upper_sigma(deviation[settled])
    rounds = int(learnt[scope, rail].max()) - SETTLED + 1
    sigma = state.sigma + max(0.1, 1 / rounds) * (seen - state.sigma)
    return replace(state, normal=normal, learnt=learnt, sigma=max(sigma, FLOOR))


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
