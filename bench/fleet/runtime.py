"""How long the whole command takes from CSV: `python -m bench.fleet.runtime [ROWS]`, default 131,072."""

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from bench.fleet.judge import columns
from bench.fleet.simulate import Faults, Fleet, build, probe_rounds
from exporter.fleet.locate import estimate
from exporter.fleet.probes import index, recent

COMMAND = """
import argparse, pathlib, sys
from exporter.fleet import command
parser = argparse.ArgumentParser()
command.locate_flags(parser)
status = command.run_locate(parser.parse_args())
peak = [line for line in pathlib.Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
print(f"exit {status}, peak memory {int(peak[0].split()[1]) // 1024} MiB", file=sys.stderr)
"""


def _cpu() -> float:
    """Seconds of CPU of the children that ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Write a CSV of at least that many rows, time the command (three times where it is short), and the estimate."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 131_072
    fleet = Fleet(4096, probes=-(-rows // (4096 * 8 // 2)), faults=Faults(nic=0.005, node=0.001, uplink=0.003))
    rng = np.random.default_rng(30_000)
    state = build(fleet, rng)
    pairs = probe_rounds(state, fleet, rng)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "pairs.csv"
        with path.open("w") as file:
            file.write("time,src,dst,rail,gbit_per_second\n")
            for one in zip(
                *(getattr(pairs, name).tolist() for name in ("time", "src", "dst", "rail", "rate")), strict=True
            ):
                file.write("{:.0f},gpu-{},gpu-{},{},{:.3f}\n".format(*one[:4], one[4] * 8 / 1e9))
        for _ in range(3 if rows < 1_000_000 else 1):
            began, before = time.perf_counter(), _cpu()
            ran = subprocess.run(
                [sys.executable, "-c", COMMAND, "--pairs", str(path)], capture_output=True, text=True, check=True
            )
            wall, used = time.perf_counter() - began, _cpu() - before
            print(f"{pairs.src.size:,} rows: {wall:.2f} s ({used:.2f} s of CPU), {ran.stderr.splitlines()[-1]}")
    probes = recent(columns(pairs, fleet))
    nics = index(probes)
    for clock in (time.perf_counter, time.process_time):
        spent = []
        for _ in range(15):
            began = clock()
            estimate(probes, nics, state.leaf_of[nics.node])
            spent.append((clock() - began) * 1e3)
        figures = f"{min(spent):.0f} to {max(spent):.0f} ms, median {statistics.median(spent):.0f} ms"
        print(f"estimate alone, with leaves, 15 times: {figures} ({'CPU' if clock is time.process_time else 'wall'})")


if __name__ == "__main__":
    main()
