"""Quantities as an operator writes them: `5s`, `400Gbit/s`, `0.0.0.0:10428`. A bare number has no unit: an error."""

import re
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BeforeValidator

from exporter import written

_ADDRESS = re.compile(r"(?:\[([0-9A-Fa-f:.%a-z]+)\]|([^:\s\[\]]*)):([0-9]{1,5})")


def duration(value: Any) -> float:
    """Seconds. Raises ValueError."""
    return written.duration(value if isinstance(value, str) else "")


def rate(value: Any) -> float:
    """Bytes/s. Raises ValueError."""
    return written.rate(value if isinstance(value, str) else "")


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
Rate = Annotated[float, BeforeValidator(rate)]
Address = Annotated[tuple[str, int], BeforeValidator(address)]
