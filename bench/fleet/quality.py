"""The quality table: what `locate` and the online estimator get right on simulated fleets, and how soon.

`python -m bench.fleet.quality` uses the judging seeds (50,000 on); `--tuning` those that the thresholds were chosen on.
`--quick` takes a tenth of the work.
"""

import argparse
import os
import resource
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain, repeat

import numpy as np

from bench.fleet.follow import Followed, faulty, follow
from bench.fleet.judge import judge
from bench.fleet.simulate import Faults, Fleet

JUDGING, TUNING = 70_000, 100
NICS = Faults(nic=0.01)
MIX = Faults(nic=0.005, cage=0.001, node=0.001, uplink=0.005)
SLOW_NOW_AND_THEN = Faults(intermittent=0.01, loss=(0.2, 0.5))
PATHS = Faults(pair=0.02, loss=(0.2, 0.5))
CROWDED = Fleet(4, congestion=0.1, burst=0.03)


@dataclass(frozen=True, slots=True)
class Case:
    """A row: a fleet, and how many seeds of it."""

    name: str
    fleet: Fleet
    seeds: int


CASES = (
    Case("n=4, NIC loss 20-50 %", Fleet(4, faults=Faults(nic=0.03, loss=(0.2, 0.5))), 300),
    Case("n=8", Fleet(8, faults=NICS), 300),
    Case("n=64", Fleet(64, faults=NICS), 60),
    Case("n=512", Fleet(512, faults=NICS), 12),
    Case("n=4096", Fleet(4096, faults=NICS), 8),
    Case("n=4096, NIC loss 15-50 %", Fleet(4096, faults=Faults(nic=0.01, loss=(0.15, 0.5))), 3),
    Case("n=4096, NICs, cages, nodes, uplinks", Fleet(4096, faults=MIX), 6),
    Case("n=512, 10 % congestion, 2 % bad", Fleet(512, congestion=0.1, burst=0.03, faults=Faults(nic=0.02)), 12),
    Case("n=512, 16 probes, one direction", Fleet(512, probes=16, faults=Faults(directional=0.01)), 6),
    Case("n=512, 64 probes, half the time", Fleet(512, probes=64, faults=SLOW_NOW_AND_THEN), 4),
    Case("n=16, 64 probes, 2 slow paths, 20-50 %", Fleet(16, probes=64, faults=PATHS), 60),
    Case("n=32, 64 probes, 5 slow paths, 20-50 %", Fleet(32, probes=64, faults=PATHS), 30),
    Case("n=16, 64 probes, slow paths, 10 % congestion", replace(CROWDED, nodes=16, probes=64, faults=PATHS), 60),
    Case("n=512, 10 % of probes missing", Fleet(512, missing=0.1, faults=NICS), 6),
    Case("n=4096, 5 % of nodes free, 8 probes on average", Fleet(4096, free=0.05, faults=NICS), 3),
    Case("n=4096, 20 % of nodes free, 8 probes on average", Fleet(4096, free=0.2, faults=NICS), 3),
    *(
        Case(f"n={nodes}, congestion alone (10 %, bursts)", replace(CROWDED, nodes=nodes), seeds)
        for nodes, seeds in ((4, 3000), (8, 1500), (16, 1000), (64, 400), (512, 60), (4096, 20))
    ),
    *(
        Case(f"n={nodes}, congestion alone, {probes} probes", replace(CROWDED, nodes=nodes, probes=probes), seeds)
        for nodes, probes, seeds in ((4, 3, 1000), (64, 3, 150), (512, 3, 20), (4, 64, 200), (64, 64, 30))
    ),
    Case("n=512, congestion alone, 15 % missing", replace(CROWDED, nodes=512, missing=0.15), 30),
    Case("n=4096, congestion alone, 20 % free", replace(CROWDED, nodes=4096, free=0.2), 5),
    Case("n=4096, healthy, 3 % congestion", Fleet(4096), 10),
)


BATCH = (
    "fleet (8 rails, 8 probes a NIC, 5 % noise, 3 % congestion)",
    "runs",
    "precision",
    "recall",
    "false per million NICs",
    "undetermined",
    "leaf-rails found / bad / false",
    "paths found / bad / false",
)
ONLINE = (
    "fleet, online",
    "faults found",
    "scheduled probes to name: p50, p95",
    "with a suspect's extra probes: p50, p95",
    "false blames in NIC-probes",
    "extra probes",
    "CPU ms a round",
)


def _head(*names: str) -> Iterator[str]:
    yield f"| {' | '.join(names)} |"
    yield "|---" * len(names) + "|"


def batch(pool: Executor, base: int, share: float) -> Iterator[str]:
    """Lines of the batch table."""
    yield from _head(*BATCH)
    for case in CASES:
        seeds = max(int(case.seeds * share), 1)
        scores = list(pool.map(judge, repeat(case.fleet), range(base, base + seeds), chunksize=max(seeds // 100, 1)))
        total = scores[0]
        for score in scores[1:]:
            total += score
        rates = f"{total.precision:.3f} | {total.recall:.3f}" if total.bad else "- | -"
        yield (
            f"| {case.name} | {seeds:,} | {rates}"
            f" | {total.false / total.judged * 1e6:.1f} ({total.false} of {total.judged:,}) | {total.undetermined:,}"
            f" | {total.leaf_hits} / {total.leaf_bad} / {total.leaf_false}"
            f" | {total.pair_hits} / {total.pair_bad} / {total.pair_false} |"
        )


def online(pool: Executor, base: int, share: float) -> Iterator[str]:
    """Lines of the online table."""
    yield from _head(*ONLINE)
    long = max(int(320 * share), 40)
    healthy = Fleet(4)
    rows = (
        ("n=4, loss 30 %", faulty(4, 0.05), (60, 30), 20),
        ("n=64, loss 30 %", faulty(64), (60, 30), 5),
        ("n=512, loss 30 %", faulty(512), (60, 30), 1),
        ("n=4096, loss 30 %", faulty(4096, 0.01), (50, 30), 1),
        ("n=512, loss 30 %, 10 % congestion", faulty(512, congestion=0.1), (60, 30), 1),
        ("n=512, loss 10-20 %", faulty(512, loss=(0.1, 0.2)), (80, 30), 1),
        ("n=512, loss 30 %, 10 % of probes missing", replace(faulty(512), missing=0.1), (60, 30), 1),
        ("n=512, loss 30 %, 20 % of nodes free", replace(faulty(512), free=0.2), (200, 100), 1),
        ("n=512, loss 30 %, 5 % of nodes free", replace(faulty(512), free=0.05), (800, 400), 1),
        ("n=4, nothing bad", healthy, (100, 100), 100),
        ("n=4, 10 % congestion, nothing bad", CROWDED, (100, 100), 50),
        ("n=16, nothing bad", replace(healthy, nodes=16), (100, 100), 40),
        ("n=512, 10 % congestion and crowded leaves, nothing bad", replace(CROWDED, nodes=512), (long, long), 1),
        ("n=512, the same crowded leaves, 20 % of nodes free", replace(CROWDED, nodes=512, free=0.2), (long, long), 1),
        ("n=4096, nothing bad", Fleet(4096), (long, long), 1),
    )
    for number, (name, fleet, (rounds, onset), seeds) in enumerate(rows):
        first = base + 100 * number
        some = range(first, first + max(int(seeds * share), 1))
        crowded = (
            0.05 if fleet.nodes == 512 and fleet.congestion == CROWDED.congestion and not fleet.faults.nic else 0.0
        )
        seen = list(pool.map(follow, repeat(fleet), repeat(rounds), repeat(onset), some, repeat(crowded)))
        total = seen[0]
        for one in seen[1:]:
            total += one
        yield _online_row(name, total)


def _online_row(name: str, seen: Followed) -> str:
    quantiles = ["-", "-"]
    if seen.delays.size:
        quantiles = ["{:.0f}, {:.0f}".format(*np.quantile(one, [0.5, 0.95])) for one in (seen.delays, seen.probes)]
    found = f"{seen.delays.size} of {seen.bad}" if seen.bad else "-"
    return (
        f"| {name} | {found} | {quantiles[0]} | {quantiles[1]}"
        f" | {seen.false} in {seen.healthy:,} | {seen.extra:.2%} | {seen.seconds * 1e3:.0f} |"
    )


def main() -> None:
    """Print both tables as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tuning", action="store_true")
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    base, share = TUNING if args.tuning else JUDGING, 0.1 if args.quick else 1.0
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for line in chain(batch(pool, base, share), [""], online(pool, base + 15_000, share)):
            print(line, flush=True)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"\npeak memory of one process: {peak:.0f} MiB")


if __name__ == "__main__":
    main()
