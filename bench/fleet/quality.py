"""The quality table: what `locate` and the online estimator get right on simulated fleets, and how soon.

`python -m bench.fleet.quality` uses the judging seeds (50,000 on); `--tuning` those that the thresholds were chosen on.
`--quick` takes a tenth of the work.
"""

import argparse
import resource
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bench.fleet.follow import Followed, faulty, follow
from bench.fleet.judge import Score, judge
from bench.fleet.simulate import Faults, Fleet

JUDGING, TUNING = 50_000, 100
NICS = Faults(nic=0.01)
MIX = Faults(nic=0.005, cage=0.001, node=0.001, uplink=0.005)
SLOW_NOW_AND_THEN = Faults(intermittent=0.01, loss=(0.2, 0.5))


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
    Case("n=4096", Fleet(4096, faults=NICS), 6),
    Case("n=4096, NIC loss 15-50 %", Fleet(4096, faults=Faults(nic=0.01, loss=(0.15, 0.5))), 3),
    Case("n=4096, NICs, cages, nodes, uplinks", Fleet(4096, faults=MIX), 6),
    Case("n=512, 10 % congestion, 2 % bad", Fleet(512, congestion=0.1, burst=0.03, faults=Faults(nic=0.02)), 12),
    Case("n=512, 16 probes, one direction", Fleet(512, probes=16, faults=Faults(directional=0.01)), 6),
    Case("n=512, 64 probes, half the time", Fleet(512, probes=64, faults=SLOW_NOW_AND_THEN), 2),
    Case("n=512, 10 % of probes missing", Fleet(512, missing=0.1, faults=NICS), 6),
    Case("n=4096, 5 % of nodes free, 8 probes on average", Fleet(4096, free=0.05, faults=NICS), 3),
    Case("n=4096, 20 % of nodes free, 8 probes on average", Fleet(4096, free=0.2, faults=NICS), 3),
    Case("n=4, congestion alone (10 %, bursts)", Fleet(4, congestion=0.1, burst=0.03), 600),
    Case("n=64, congestion alone", Fleet(64, congestion=0.1, burst=0.03), 100),
    Case("n=4096, congestion alone", Fleet(4096, congestion=0.1, burst=0.03), 10),
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
    "estimate, ms",
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


def batch(base: int, share: float) -> Iterator[str]:
    """Lines of the batch table."""
    yield from _head(*BATCH)
    for case in CASES:
        seeds = max(int(case.seeds * share), 1)
        total = Score(0, 0, 0, 0, 0, 0, 0, 0, 0.0)
        for seed in range(base, base + seeds):
            total += judge(case.fleet, seed)
        rates = f"{total.precision:.3f} | {total.recall:.3f}" if total.bad else "- | -"
        yield (
            f"| {case.name} | {seeds} | {rates}"
            f" | {total.false / total.judged * 1e6:.1f} ({total.false} of {total.judged:,}) | {total.undetermined}"
            f" | {total.leaf_hits} / {total.leaf_bad} / {total.leaf_false} | {total.seconds / seeds * 1e3:.0f} |"
        )


def online(base: int, share: float) -> Iterator[str]:
    """Lines of the online table."""
    yield from _head(*ONLINE)
    long = max(int(320 * share), 40)
    rows = (
        ("n=4, loss 30 %", (faulty(4, 0.05), 60, 30), 0.0),
        ("n=512, loss 30 %", (faulty(512), 60, 30), 0.0),
        ("n=512, loss 30 %, 10 % congestion", (faulty(512, congestion=0.1), 60, 30), 0.0),
        ("n=512, loss 10-20 %", (faulty(512, loss=(0.1, 0.2)), 80, 30), 0.0),
        (
            "n=512, 10 % congestion and crowded leaves, nothing bad",
            (Fleet(512, congestion=0.1, burst=0.03), long, long),
            0.05,
        ),
        ("n=4096, nothing bad", (Fleet(4096), long, long), 0.0),
    )
    for number, (name, (fleet, rounds, onset), crowded) in enumerate(rows):
        yield _online_row(name, follow(fleet, rounds, onset, base + number, crowded))


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
    for line in (*batch(base, share), "", *online(base + 5_000, share)):
        print(line, flush=True)
    print(f"\npeak memory of the run: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
