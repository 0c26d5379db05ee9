"""How long the whole command takes from CSV: `python -m bench.fleet.runtime [ROWS]`, default 131,072."""

import resource
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

COMMAND = (
    "import argparse, sys; from exporter.fleet import command as c; p = argparse.ArgumentParser();"
    " c.locate_flags(p); sys.exit(c.run_locate(p.parse_args()))"
)


def main() -> None:
    """Write a CSV of at least that many rows, time the command three times, and the estimate alone."""
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
        for _ in range(3):
            began = time.perf_counter()
            status = subprocess.run(
                [sys.executable, "-c", COMMAND, "--pairs", str(path)], stdout=subprocess.DEVNULL, check=False
            ).returncode
            print(f"{pairs.src.size:,} rows: {time.perf_counter() - began:.2f} s, exit {status}")
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        print(f"peak memory {peak:.0f} MiB, file {path.stat().st_size / 2**20:.0f} MiB")
    probes = recent(columns(pairs, fleet))
    nics = index(probes)
    for _ in range(5):
        began = time.perf_counter()
        estimate(probes, nics, state.leaf_of[nics.node])
        print(f"estimate alone, with leaves: {(time.perf_counter() - began) * 1e3:.0f} ms")


if __name__ == "__main__":
    main()
