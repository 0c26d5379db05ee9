"""Series of each simulated node; memory and CPU of the daemon and its NVML worker on a fake library of 8 x 18 links."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.poll_render import Peer, eastwest, wait_for
from exporter.config import Config
from exporter.exposition import Exposition
from exporter.hardware.scenarios import SCENARIOS
from exporter.hardware.simulated import Simulation
from exporter.polled import polled_once
from tests.fakenvml import FakeNvml, build, h100

MAX_SERIES = 1300
MAX_MIB = 85.0
SECONDS = 30.0
NODES = ("healthy", "b200", "a100-pcie", "v100", "efa", "bare")


def main() -> int:
    """Print the figures; 1 where a bar of the design is missed."""
    counts = {name: series(name) for name in NODES}
    for name, count in counts.items():
        print(f"{name:<12} {count} series by default")
    with tempfile.TemporaryDirectory() as folder:
        resident = running(Path(folder))
    print(f"the bars are {MAX_SERIES} series on the DGX-like node and {MAX_MIB:.0f} MiB in all")
    return int(counts["healthy"] > MAX_SERIES or resident > MAX_MIB)


def series(scenario: str) -> int:
    """How many series `eastwest metrics --simulate` prints."""
    text = Exposition("bench", "", process=False).render(polled_once(Config(), scenario).board.snapshot())
    return sum(not line.startswith(b"#") for line in text.splitlines())


def running(folder: Path) -> float:
    """Run the daemon for a while; resident MiB of it and its worker."""
    library = folder / "lib"
    library.mkdir()
    fake = FakeNvml(build(library), folder, h100(8))
    simulation = Simulation(SCENARIOS["healthy"], folder / "node", lambda: 900.0)
    config = folder / "eastwest.yml"
    config.write_text(f"paths: {{sysfs: {simulation.sysfs}, proc: {simulation.proc}, state: {folder}/state}}\n")
    environment = {name: value for name, value in fake.environment.items() if name != "FAKE_NVML_LOG"}
    with eastwest(config, environment) as daemon:
        wait_for(daemon)
        time.sleep(5)
        worker = Peer(child(daemon.pid), "", "")
        both = daemon, worker
        before = [of.cpu() for of in both]
        time.sleep(SECONDS)
        used = [(of.cpu() - then) / SECONDS for of, then in zip(both, before, strict=True)]
        resident = [of.rss() for of in both]
    for name, cpu, mib in zip(("daemon", "NVML worker"), used, resident, strict=True):
        print(f"{name:<12} {mib:.1f} MiB resident, {cpu:.2%} of a core")
    return sum(resident)


def child(pid: int) -> int:
    """The process that this one started."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return next(int(of) for task in tasks for of in (task / "children").read_text().split())


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as error:
        sys.exit(str(error))
