"""Trials as probes give them, for the tests of their judge."""

from collections.abc import Sequence
from dataclasses import replace

from exporter.judge.probes import ProbeScene, judge_probes
from exporter.judge.trials import Measured, Trial, kept
from exporter.model import Finding

GAP, DAY = 6 * 3600.0, 86_400.0
GOOD, SLOW, EDGE = 1.0, 0.89, 0.9


def scene(*trials: Trial, after: float = 60.0, due: float | None = None) -> ProbeScene:
    """The trials one gap apart, and `after` seconds gone since the last."""
    timed = [replace(trial, time=GAP * number) for number, trial in enumerate(trials, 1)]
    now = GAP * len(trials) + after
    return ProbeScene(now, kept(timed), GAP, due, "slurm_allocation")


def found(seen: ProbeScene) -> dict[tuple[str, str], Finding]:
    return {(one.subject, one.reason): one for one in judge_probes(seen)}


def intra(ratio: float, pairs: dict[str, float] | None = None, others: Sequence[str] = ()) -> Trial:
    """An all-reduce at so much of 480 GB/s, and pairs at so much of 350."""
    flows = [Measured("", "", 480e9 * ratio, 480e9)]
    flows += [Measured(ways[:4], ways[5:], 350e9 * share, 350e9) for ways, share in (pairs or {}).items()]
    return Trial(0, "intra", "nccl", "ok", flows=tuple(flows), others=tuple(others))


def pairs(number: int, **slow: float) -> dict[str, float]:
    """Every pair each way as usual, but for `g0g3=0.5`, and `g3=0.5` for one GPU with all others."""
    made = {f"gpu{a}>gpu{b}": 1.0 for a in range(number) for b in range(number) if a != b}
    for name, share in slow.items():
        ends = [f"gpu{digit}" for digit in name.split("g")[1:]]
        made |= {
            ways: share for ways in made if (ends == ways.split(">") or ends in ([one] for one in ways.split(">")))
        }
    return made


def loop(one: str, other: str, there: float = 1.0, back: float = 1.0, others: Sequence[str] = ()) -> Trial:
    """Two NICs at so much of 48 GB/s each way."""
    a, b = f"mlx5_{one}/1", f"mlx5_{other}/1"
    flows = (Measured(a, b, 48e9 * there, 48e9), Measured(b, a, 48e9 * back, 48e9))
    return Trial(0, "loopback", "rdma", "ok", nics=(a, b), flows=flows, others=tuple(others))
