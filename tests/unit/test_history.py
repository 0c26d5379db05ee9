"""Deltas: grown, wrapped, reset or absent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.history import Delta, delta


@pytest.mark.parametrize(
    ("before", "after", "modulus", "expected"),
    [
        (5, 9, None, Delta("value", 4)),
        (5, 5, None, Delta("value", 0)),
        (9, 5, None, Delta("reset", None)),
        (2**32 - 3, 4, 2**32, Delta("wrap", 7)),
        (2**31, 0, 2**32, Delta("reset", None)),
        (100, 3, 2**32, Delta("reset", None)),
        (2**33, 3, 2**32, Delta("reset", None)),
        (None, 5, None, Delta("absent", None)),
        (5, None, 2**32, Delta("absent", None)),
    ],
)
def test_movement(before: int | None, after: int | None, modulus: int | None, expected: Delta) -> None:
    assert delta(before, after, modulus) == expected


@given(st.integers(0, 2**64), st.integers(0, 2**64), st.sampled_from([None, 2**16, 2**32]))
def test_an_amount_is_never_negative_and_never_half_a_register(before: int, after: int, modulus: int | None) -> None:
    moved = delta(before, after, modulus)
    assert moved.amount is None or moved.amount >= 0
    if moved.kind == "wrap":
        assert modulus is not None
        assert moved.amount is not None
        assert moved.amount < modulus // 2
