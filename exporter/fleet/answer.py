"""One run of `locate`: files in, a report out."""

import math
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from exporter.fleet import source, topology
from exporter.fleet.document import document
from exporter.fleet.findings import findings
from exporter.fleet.heatmap import heatmap
from exporter.fleet.intake import Intake, Skipped
from exporter.fleet.text import lines
from exporter.output import write_out

LONG = 20 << 20
"""Bytes of input from which reading takes long enough to show progress."""
PIPED = 160
"""Columns taken for a picture that goes to a file or a pipe."""


def answer(pairs: Sequence[Path], fabric: Path | None, style: str, strict: bool) -> int:
    """Read, locate, print; returns the exit status. `style` is text or json. Raises UserError on bad input."""
    skipped = Skipped(strict=strict)
    places = topology.read(fabric, skipped) if fabric else topology.Topology()
    intake = Intake(skipped)
    with _progress(pairs) as step:
        source.read(pairs, intake, step)
    probes = intake.probes()
    found = findings(probes, places)
    for line in skipped.lines():
        sys.stderr.write(f"eastwest: {line}\n")
    if style == "json":
        write_out(document(found.findings, intake.rows, skipped.count) + "\n")
        return found.findings.status
    terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if terminal else None
    picture = heatmap(probes, found.nics, found.estimate, width or PIPED, terminal)
    normal = found.normal if probes.unit else math.nan
    write_out("".join(f"{line}\n" for line in lines(found.findings, probes, normal, width, picture)))
    return found.findings.status


@contextmanager
def _progress(paths: Sequence[Path]) -> Iterator[Callable[[str, int, int], None]]:
    """How far reading is, on a terminal and for long files only."""
    if not sys.stderr.isatty() or not any(path.is_file() and path.stat().st_size > LONG for path in paths):
        yield lambda _name, _done, _size: None
        return
    from rich.console import Console  # noqa: PLC0415 - a tenth of a second, for long files alone
    from rich.progress import Progress  # noqa: PLC0415 - as above

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading")
        yield lambda name, done, size: bar.update(task, description=name, completed=done, total=size)
