"""Quantities as people write them: `5s`, `400Gbit/s`, `500MB`. A bare number has no unit: an error.

Nothing is imported for it but `re`: the configuration checks with it, and so does a command that starts in a blink.
"""

import re

_NUMBER = r"([0-9]+(?:\.[0-9]+)?)"
_SIZE = re.compile(_NUMBER + r"\s*([KMGT]i?)?B")
_RATE = re.compile(_NUMBER + r"\s*([KMGT]?)(bit|B)/s")
_DURATION = re.compile(_NUMBER + r"\s*(us|ms|s|m|h|d)")
_PREFIX = {None: 1.0, "": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def duration(text: str) -> float:
    """Seconds. Raises ValueError."""
    match = _DURATION.fullmatch(text)
    if not match:
        raise ValueError("a duration with its unit is needed, such as 5s, 100ms, 6h")
    return float(match[1]) * _SECONDS[match[2]]


def rate(text: str) -> float:
    """Bytes/s. Raises ValueError."""
    match = _RATE.fullmatch(text)
    if not match or not float(match[1]):
        raise ValueError("a rate with its unit is needed, such as 400Gbit/s or 50GB/s")
    return float(match[1]) * _PREFIX[match[2]] / (8 if match[3] == "bit" else 1)


def size(text: str) -> float:
    """Bytes. Raises ValueError."""
    match = _SIZE.fullmatch(text)
    if not match or not float(match[1]):
        raise ValueError("a size with its unit is needed, such as 500MB or 64MiB")
    return float(match[1]) * (_BINARY.get(match[2] or "") or _PREFIX[match[2]])
