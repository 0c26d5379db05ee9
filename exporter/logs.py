"""What the daemon says on standard error: one line an event, as text or as JSON."""

import json
import logging
import sys


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


class _Text(logging.Formatter):
    """One event begins a line; what follows in it is indented, and no character of a name moves a terminal's cursor."""

    def __init__(self) -> None:
        super().__init__("%(levelname)s %(message)s", validate=False)

    def format(self, record: logging.LogRecord) -> str:
        lines = super().format(record).split("\n")
        return "\n    ".join("".join(c if c.isprintable() else "?" for c in line) for line in lines)


def set_up(level: str, style: str) -> None:
    """Send everything from `level` up to standard error, in `style` text or json."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if style == "json" else _Text())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(capture=True)
