"""Quantities as an operator writes them: `5s`, `400Gbit/s`, `0.0.0.0:10428`. A bare number has no unit: an error."""

import re
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BeforeValidator

from exporter import written
from exporter.windows import Window, fields

_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?)(i?)B")
_ADDRESS = re.compile(r"(?:\[([0-9A-Fa-f:.%a-z]+)\]|([^:\s\[\]]*)):([0-9]{1,5})")


def duration(value: Any) -> float:
    """Seconds. Raises ValueError."""
    return written.duration(value if isinstance(value, str) else "")


def rate(value: Any) -> float:
    """Bytes/s. Raises ValueError."""
    return written.rate(value if isinstance(value, str) else "")


def size(value: Any) -> int:
    """Bytes. Raises ValueError."""
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if not match or not float(match[1]) or (match[3] and not match[2]):
        raise ValueError("a size with its unit is needed, such as 64MiB or 100GB")
    power = " KMGT".index(match[2] or " ")
    return int(float(match[1]) * (1024 if match[3] else 1000) ** power)


def window(value: Any) -> Window:
    """A window that comes again: `0 8 * * 1-5 for 10h`. Raises ValueError."""
    begin, separator, length = value.partition(" for ") if isinstance(value, str) else ("", "", "")
    if not separator:
        raise ValueError("five fields of cron and a length are needed, such as `0 8 * * 1-5 for 10h`")
    seconds = duration(length.strip())
    if not 60 <= seconds <= duration("7d"):
        raise ValueError("a window lasts from 1m to 7d")
    return Window(fields(begin), seconds, value)


def address(value: Any) -> tuple[str, int]:
    """Host and port of `host:port` or `[v6]:port`; an empty host is all addresses. Raises ValueError."""
    match = _ADDRESS.fullmatch(value) if isinstance(value, str) else None
    if not match or int(match[3]) > 65535:
        raise ValueError("an address with its port is needed, such as 0.0.0.0:10428 or [::]:10428")
    return match[1] or match[2] or "0.0.0.0", int(match[3])  # noqa: S104 - what an empty host means


def between(least: str, most: str) -> Callable[[float], float]:
    """A check that a duration lies in a range."""

    def checked(seconds: float) -> float:
        if not duration(least) <= seconds <= duration(most):
            raise ValueError(f"a duration from {least} to {most} is needed")
        return seconds

    return checked


Duration = Annotated[float, BeforeValidator(duration)]
Size = Annotated[int, BeforeValidator(size)]
Quiet = Annotated[Window, BeforeValidator(window)]
Rate = Annotated[float, BeforeValidator(rate)]
Address = Annotated[tuple[str, int], BeforeValidator(address)]
