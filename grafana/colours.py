"""Colours that people who are red-green blind can tell apart, and what they stand for: Okabe and Ito's, but POOR.

Their orange is one on which Grafana writes in white (its brightness is below 180), at a contrast of 2.
A colour never says anything alone: the text or the number beside it says the same. A test looks at all pairs
through simulated colour blindness.
"""

from collections.abc import Mapping, Sequence
from typing import Any

Json = dict[str, Any]
GOOD = "#0072B2"
FAIR = "#F0E442"
POOR = "#FFBC6A"
BAD = "#D55E00"
UNKNOWN = "#CC79A7"
NEUTRAL = "#8E8E8E"
ABSENT = "transparent"
LINES = ("#56B4E9", "#E69F00", "#009E73", "#F0E442", "#4C7FD0", "#D55E00", "#CC79A7", "#BBBBBB")
"""For lines that are told apart by number (a device, a GPU): the number modulo 8."""
STATUS: Mapping[str, str] = {"ok": GOOD, "degraded": POOR, "critical": BAD, "unknown": UNKNOWN}
SEVERITY: Mapping[str, str] = {"info": GOOD, "degraded": POOR, "critical": BAD, "unknown": UNKNOWN}
HEATMAP = "Viridis"
"""Perceptually even, the same to the colour-blind; nothing (no data) is the panel's background, zero is violet."""


def thresholds(*steps: tuple[float | None, str]) -> Json:
    """Colours from a value on; the first step is the base, with None."""
    return {"mode": "absolute", "steps": [{"value": value, "color": colour} for value, colour in steps]}


def texts(values: Mapping[str, tuple[str, str]]) -> Json:
    """A value mapping: what a value is shown as, and its colour."""
    return {
        "type": "value",
        "options": {
            value: {"text": text, "color": colour, "index": index}
            for index, (value, (text, colour)) in enumerate(values.items())
        },
    }


def absent(text: str = "–") -> Json:
    """What is not there is not coloured as a bad value, which the base threshold would do (grafana#29008)."""
    return {
        "type": "special",
        "options": {"match": "null+nan", "result": {"text": text, "color": ABSENT, "index": 99}},
    }


def numbered() -> list[Json]:
    """Overrides: a line's colour by the number that its name ends in; dashed from 8 on."""
    return [
        {
            "matcher": {"id": "byRegexp", "options": rf"/(^|\D)0*{number}$/"},
            "properties": [
                {"id": "color", "value": {"mode": "fixed", "fixedColor": LINES[number % len(LINES)]}},
                *([{"id": "custom.lineStyle", "value": {"fill": "dash", "dash": [8, 6]}}] if number >= 8 else []),
            ],
        }
        for number in range(16)
    ]


def named(names: Sequence[str] | Mapping[str, str]) -> list[Json]:
    """Overrides: a line's colour by its name, in the order given or as mapped."""
    colours = names if isinstance(names, Mapping) else dict(zip(names, LINES, strict=False))
    return [
        {
            "matcher": {"id": "byName", "options": name},
            "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": colour}}],
        }
        for name, colour in colours.items()
    ]
