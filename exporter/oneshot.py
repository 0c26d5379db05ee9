"""Commands that poll once and end: the same checks through the same runner, without the schedule."""

import logging
import os
import tempfile
from pathlib import Path

from exporter.build import node_name, polled_once
from exporter.config import load
from exporter.exposition import Exposition
from exporter.logs import set_up
from exporter.model import UserError
from exporter.output import write_out

log = logging.getLogger(__name__)


def metrics(path: Path | None, scenario: str | None, output: Path | None) -> int:
    """`eastwest metrics`: the exposition text, printed or written to `output`. Raises UserError."""
    config = load(path)
    set_up("error" if scenario else config.log.level, config.log.format)
    node = polled_once(config, scenario)
    for view in node.board.snapshot().checks:
        if view.overdue:
            log.error("check=%s: no answer within its deadline; what it would say is missing", view.name)
    exposition = Exposition(node_name(config, scenario), config.node.labels.get("rack", ""), process=False)
    text = exposition.render(node.board.snapshot())
    if output is None:
        write_out(text)
    else:
        write_atomically(output, text)
    return 0


def write_atomically(path: Path, content: bytes) -> None:
    """Write `content` beside `path` and rename it over: a reader sees the old file or the new one, never a part.

    Raises UserError. The file can be read by all, as node_exporter needs.
    """
    try:
        descriptor, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise UserError(f"--output: {path}: {error.strerror}") from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), 0o644)
        Path(beside).replace(path)
    except OSError as error:
        Path(beside).unlink(missing_ok=True)
        raise UserError(f"--output: {path}: {error.strerror}") from error
