"""Quantities of the command line (`500MB`, `200Gbit/s`, `120ms`) and how rates and times are printed."""

import re

_NUMBER = r"([0-9]+(?:\.[0-9]+)?(?:e[0-9]+)?)"
_SIZE = re.compile(_NUMBER + r"\s*([KMGT]i?)?B")
_RATE = re.compile(_NUMBER + r"\s*([KMGT]?)(bit|B)/s")
_DURATION = re.compile(_NUMBER + r"\s*(us|ms|s|m|h)")
_PREFIX = {None: 1.0, "": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_GBIT = 1e9 / 8


def size(text: str) -> float:
    """Bytes. Raises ValueError."""
    match = _SIZE.fullmatch(text.strip())
    if not match or float(match[1]) <= 0:
        raise ValueError("a size with its unit is needed, such as 500MB or 64MiB")
    return float(match[1]) * (_BINARY.get(match[2] or "") or _PREFIX[match[2]])


def rate(text: str) -> float:
    """Bytes/s. Raises ValueError."""
    match = _RATE.fullmatch(text.strip())
    if not match or float(match[1]) <= 0:
        raise ValueError("a rate with its unit is needed, such as 400Gbit/s or 50GB/s")
    return float(match[1]) * _PREFIX[match[2]] / (8 if match[3] == "bit" else 1)


def duration(text: str) -> float:
    """Seconds. Raises ValueError."""
    match = _DURATION.fullmatch(text.strip())
    if not match:
        raise ValueError("a duration with its unit is needed, such as 120ms or 5us")
    return float(match[1]) * _SECONDS[match[2]]


def show_rate(value: float, unit: str) -> str:
    """A rate in the unit its file was written in; `unit` is the name of the column, empty where nobody knows."""
    if unit == "gbyte_per_second":
        return f"{value / 1e9:.3g} GB/s"
    return f"{value / _GBIT:.3g} Gbit/s" if unit else f"{value:.4g} in the file's unit"


def show_seconds(value: float) -> str:
    """Three digits and a unit that fits: 39.4 ms, 1.28 s."""
    for limit, factor, name in ((1e-3, 1e6, "us"), (1.0, 1e3, "ms")):
        if value < limit:
            return f"{value * factor:.3g} {name}"
    return f"{value:,.2f} s" if value < 100 else f"{value:,.0f} s"  # digits worth printing


def rail_name(rail: str) -> str:
    """`rail 3`, whether the file says `3` or `rail 3`."""
    return rail if rail.lower().startswith("rail") else f"rail {rail}"


def percent(ratio: float) -> str:
    """0.314 as `31 %`."""
    return f"{ratio * 100:.0f} %"


def printable(text: str) -> str:
    """A name from a file, without what could steer a terminal."""
    return "".join(one if one.isprintable() else "?" for one in text)
