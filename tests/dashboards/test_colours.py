"""Colours that stand beside each other differ for the colour-blind too."""

import math
from itertools import combinations

import pytest

from grafana.colours import BAD, FAIR, GOOD, NEUTRAL, POOR, UNKNOWN

KINDS = {
    "all colours": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "no red (protanopia)": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "no green (deuteranopia)": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.01182, 0.04294, 0.968881),
    ),
    "no blue (tritanopia)": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.3039),
    ),
}
"""How linear red, green and blue are seen; Machado, Oliveira and Fernandes 2009, severity 1."""
NOTICEABLE = 15.0
"""Distance in CIE Lab; 2 can just be seen side by side, 10 at a glance."""


@pytest.mark.parametrize("kind", KINDS)
def test_statuses_can_be_told_apart(kind: str) -> None:
    seen = {colour: _lab(_seen(colour, kind)) for colour in (GOOD, FAIR, POOR, BAD, UNKNOWN)}
    closest = min((math.dist(seen[one], seen[other]), one, other) for one, other in combinations(seen, 2))
    assert closest[0] > NOTICEABLE, closest


@pytest.mark.parametrize("colour", [GOOD, FAIR, POOR, BAD, UNKNOWN, NEUTRAL])
def test_the_text_on_a_colour_can_be_read(colour: str) -> None:
    """In the colour that Grafana gives it; at a contrast of 1 there is nothing to see, at 21 black is on white."""
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    bright = (299 * red + 587 * green + 114 * blue) / 1000 > 180  # grafana-ui, getTextColorForBackground
    text = "#202226" if bright else "#F7F8FA"
    light, dark = sorted((_luminance(colour), _luminance(text)), reverse=True)
    assert (light + 0.05) / (dark + 0.05) > 2.8


def _luminance(colour: str) -> float:
    red, green, blue = (_linear(int(colour[at : at + 2], 16) / 255) for at in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _seen(colour: str, kind: str) -> tuple[float, ...]:
    linear = [_linear(int(colour[at : at + 2], 16) / 255) for at in (1, 3, 5)]
    return tuple(min(1.0, max(0.0, sum(a * b for a, b in zip(row, linear, strict=True)))) for row in KINDS[kind])


def _linear(value: float) -> float:
    return value / 12.92 if value <= 0.04045 else float(((value + 0.055) / 1.055) ** 2.4)


def _lab(rgb: tuple[float, ...]) -> tuple[float, float, float]:
    rows = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
    white = (0.9505, 1.0, 1.089)
    x, y, z = (
        _cube(sum(a * b for a, b in zip(row, rgb, strict=True)) / top) for row, top in zip(rows, white, strict=True)
    )
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def _cube(value: float) -> float:
    return float(value ** (1 / 3)) if value > 0.008856 else 7.787 * value + 16 / 116
