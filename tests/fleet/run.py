"""The commands as an operator runs them, in this process; and a table of probes as a file."""

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

from exporter.fleet import command

HEADER = "time,src,dst,rail,gbit_per_second"


def locate(*args: str | Path) -> int:
    """Exit status of `eastwest locate` with these arguments."""
    parser = argparse.ArgumentParser()
    command.locate_flags(parser)
    return command.run_locate(parser.parse_args([str(arg) for arg in args]))


def estimate(*args: str) -> int:
    """Exit status of `eastwest estimate` with these arguments."""
    parser = argparse.ArgumentParser()
    command.estimate_flags(parser)
    return command.run_estimate(parser.parse_args(args))


def table(path: Path, rows: Iterable[str], header: str = HEADER) -> Path:
    """Write a CSV of these lines."""
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def rounds(nodes: Sequence[str], slow: dict[str, float], count: int = 2, rate: float = 390.0) -> list[str]:
    """All pairs of the nodes, `count` times, on rail 0: at `rate` Gbit/s times the worse end's factor in `slow`."""
    lines: list[str] = []
    for turn in range(count):
        for at, src in enumerate(nodes):
            for dst in nodes[at + 1 :]:
                factor = min(slow.get(src, 1.0), slow.get(dst, 1.0))
                lines.append(f"{turn},{src},{dst},0,{rate * factor + 0.01 * len(lines):.2f}")
    return lines
