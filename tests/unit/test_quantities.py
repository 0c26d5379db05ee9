"""Quantities as an operator writes them."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.quantities import address, duration, rate
from tests.props import quick, words


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("5s", 5), ("100ms", 0.1), ("1.5s", 1.5), ("5 s", 5), ("2m", 120), ("6h", 21600), ("7d", 604800), ("0s", 0)],
)
def test_durations(written: str, seconds: float) -> None:
    assert duration(written) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("written", "bytes_per_second"),
    [
        ("400Gbit/s", 50e9),
        ("50GB/s", 50e9),
        ("1.6Tbit/s", 200e9),
        ("100 Mbit/s", 12.5e6),
        ("8bit/s", 1),
        ("1KB/s", 1000),
    ],
)
def test_rates(written: str, bytes_per_second: float) -> None:
    assert rate(written) == pytest.approx(bytes_per_second)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("0.0.0.0:10428", ("0.0.0.0", 10428)),  # noqa: S104 - a text, nothing listens
        ("localhost:0", ("localhost", 0)),
        ("[::1]:65535", ("::1", 65535)),
        ("[fe80::1%eth0]:80", ("fe80::1%eth0", 80)),
        (":80", ("0.0.0.0", 80)),  # noqa: S104 - a text, nothing listens
    ],
)
def test_addresses(written: str, expected: tuple[str, int]) -> None:
    assert address(written) == expected


NOT_A_DURATION = [
    "5",
    "s",
    "",
    "5S",
    "5sec",
    "-5s",
    "+5s",
    "5s5s",
    "1e3s",
    "5s\n",
    ".5s",
    "5.s",
    "\u0665s",
    "\uff15s",
    "inf s",
]
NOT_A_RATE = ["400", "400G", "400Gbit", "400gbit/s", "400Gbps", "-1Gbit/s", "", "400Gbit/s\n", "1KiB/s", "\u0664Gbit/s"]
NOT_AN_ADDRESS = [
    "10428",
    "localhost",
    "host:",
    "host:70000",
    "host:123456",
    "::1:80",
    "[::1]",
    "a b:80",
    "",
    "h:-1",
    "h:\u0668",
]
NO_TEXT: list[Any] = [5, 5.0, True, None, ["5s"], {"s": 5}, b"5s"]


@pytest.mark.parametrize(
    ("parser", "value"),
    [
        *((duration, value) for value in [*NOT_A_DURATION, *NO_TEXT]),
        *((rate, value) for value in [*NOT_A_RATE, *NO_TEXT]),
        *((address, value) for value in [*NOT_AN_ADDRESS, *NO_TEXT]),
    ],
)
def test_what_has_no_unit_or_sense_is_an_error_that_shows_how(parser: Callable[[Any], object], value: Any) -> None:
    with pytest.raises(ValueError, match="is needed, such as"):
        parser(value)


@quick
@given(st.one_of(words, st.from_regex(r"[0-9.]{1,5} ?(ms|s|m|h|d|[KMGT]?(bit|B)/s)", fullmatch=True)))
def test_nothing_else_is_raised(written: str) -> None:
    for parser in (duration, rate):
        try:
            assert parser(written) >= 0
        except ValueError as error:
            assert "is needed" in str(error)  # noqa: PT017 - either answer is right
