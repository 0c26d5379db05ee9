"""How long the whole command takes from CSV: `python -m bench.fleet.runtime [ROWS]`, default 131,072."""

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
            began = time.perf_counter()
            ran = subprocess.run(
                [sys.executable, "-c", COMMAND, "--pairs", str(path)], capture_output=True, text=True, check=True
            )
            print(f"{pairs.src.size:,} rows: {time.perf_counter() - began:.2f} s, {ran.stderr.splitlines()[-1]}")
    probes = recent(columns(pairs, fleet))
    nics = index(probes)
    seconds = []
    for _ in range(15):
        began = time.perf_counter()
        estimate(probes, nics, state.leaf_of[nics.node])
        seconds.append(time.perf_counter() - began)
    print(f"estimate alone, with leaves, 15 times: {min(seconds) * 1e3:.0f} to {max(seconds) * 1e3:.0f} ms,", end=" ")
    print(f"median {statistics.median(seconds) * 1e3:.0f} ms")


if __name__ == "__main__":
    main()
