"""How rates, times and names are printed."""

_GBIT = 1e9 / 8


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
