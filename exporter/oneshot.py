"""Commands that poll once and end: the same checks through the same runner, without the schedule."""

import logging
from pathlib import Path

from exporter.build import node_name
from exporter.config import load
from exporter.exposition import Exposition
from exporter.logs import set_up
from exporter.model import UserError
from exporter.output import write_out
from exporter.polled import polled_once
from exporter.whole import write_named

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
        try:
            write_named(output, text)
        except BrokenPipeError:  # as of standard output: its reader went away
            raise
        except OSError as error:
            raise UserError(f"--output: {output}: {error.strerror}") from error
    return 0
