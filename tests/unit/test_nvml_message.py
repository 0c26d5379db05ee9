"""What NVML says to what it means: by pure functions, on values of our own."""

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.hardware.nvml_message import bit_error_ratio, conditions, fabric, value

RUBBISH = 0xDEADBEEF << 32


@pytest.mark.parametrize(
    ("value_type", "bits", "expected"),
    [
        (0, struct.unpack("<Q", struct.pack("<d", 12.5))[0], 12.5),
        (1, 18 | RUBBISH, 18),
        (2, 9_000_000_000_000, 9_000_000_000_000),
        (3, 9_000_000_000_000, 9_000_000_000_000),
        (4, 7, 7),
        (4, (1 << 64) - 7, None),
        (5, 5 | RUBBISH, 5),
        (5, (1 << 32) - 5, None),
        (6, 9 | RUBBISH, 9),
        (7, 1, None),
        (3, 0, 0),
        (3, 0x7FFFFFFFFFFFFFF0, None),
        (3, 0x7FFFFFFFFFFFFFF4, None),
        (3, 0x7FFFFFFFFFFFFFEF, 0x7FFFFFFFFFFFFFEF),
        (3, (1 << 64) - 1, None),
        (3, 140737488355328, None),
        (1, 0x7FFFFFF0, None),
        (1, 0xFFFFFFFF, None),
        (0, struct.unpack("<Q", struct.pack("<d", 140737488355328.0))[0], None),
        (0, struct.unpack("<Q", struct.pack("<d", math.nan))[0], None),
        (0, struct.unpack("<Q", struct.pack("<d", -1.0))[0], None),
    ],
)
def test_a_value_by_its_type(value_type: int, bits: int, expected: float | None) -> None:
    assert value(value_type, bits) == expected


@given(st.integers(-1, 9), st.integers(0, (1 << 64) - 1))
def test_no_value_is_negative_nor_not_a_number(value_type: int, bits: int) -> None:
    found = value(value_type, bits)
    assert found is None or 0 <= found < 1 << 64


@pytest.mark.parametrize(("raw", "ratio"), [(0x30E, 3e-14), (0xFFF, 0.0), (0, 0.0), (0x10C, 1e-12), (0xFFE, 15e-254)])
def test_bit_error_ratio(raw: int, ratio: float) -> None:
    assert bit_error_ratio(raw) == pytest.approx(ratio, rel=1e-12, abs=0)


@pytest.mark.parametrize(
    ("mask", "summary", "wrong", "reported"),
    [
        (0x11AA, 0, set(), 6),
        (0x11AA, 1, set(), 7),
        (0, 0, set(), 0),
        (0x11A9, 0, {"degraded_bandwidth"}, 6),
        (0x119A, 2, {"route_unhealthy", "unhealthy"}, 7),
        (0x12AA, 0, {"incorrect_configuration", "wrong_system_guid"}, 7),
        (0x21AA, 0, {"partition_unassigned"}, 6),
        (0x91AA, 3, {"manager_disconnected", "limited_capacity"}, 9),
        (0x1FAA, 0, {"incorrect_configuration"}, 6),
    ],
)
def test_true_is_one_false_is_two_and_zero_is_not_reported(
    mask: int, summary: int, wrong: set[str], reported: int
) -> None:
    found = conditions(mask, summary)
    assert {name for name, bad in found.items() if bad} == wrong
    assert len(found) == reported


def test_the_status_of_a_fabric_means_nothing_before_it_is_completed() -> None:
    assert fabric(None) is None
    assert fabric((0, 0, 0, 0)) is None
    waiting, done = fabric((2, 23, 0, 0)), fabric((3, 23, 0, 0))
    assert waiting is not None
    assert done is not None
    assert (waiting.status, done.status) == (None, 23)
