"""Quantities as an operator writes them: `5s`, `400Gbit/s`, `0.0.0.0:10428`. A bare number has no unit: an error."""

import re
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BeforeValidator

_NUMBER = r"([0-9]+(?:\.[0-9]+)?)"
_DURATION = re.compile(_NUMBER + r"\s*(ms|s|m|h|d)")
_RATE = re.compile(_NUMBER + r"\s*([KMGT]?)(bit|B)/s")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PREFIX = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_ADDRESS = re.compile(r"(?:\[([0-9A-Fa-f:.%a-z]+)\]|([^:\s\[\]]*)):([0-9]{1,5})")


def duration(value: Any) -> float:
    """Seconds. Raises ValueError."""
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if not match:
        raise ValueError("a duration with its unit is needed, such as 5s, 100ms, 6h")
    return float(match[1]) * _SECONDS[match[2]]


def rate(value: Any) -> float:
    """Bytes/s. Raises ValueError."""
    match = _RATE.fullmatch(value) if isinstance(value, str) else None
    if not match or not float(match[1]):
        raise ValueError("a rate with its unit is needed, such as 400Gbit/s or 50GB/s")
    return float(match[1]) * _PREFIX[match[2]] / (8 if match[3] == "bit" else 1)


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
