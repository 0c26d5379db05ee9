"""Windows without probes: cron's fields and a length, by the local clock."""

import time
from collections.abc import Iterator

import pytest

from exporter.quantities import size, window


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


MONDAY = 1_700_438_400.0
"""20 November 2023, 00:00 UTC."""
HOUR, DAY = 3600.0, 86400.0


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("0 8 * * 1-5 for 10h", MONDAY + 8 * HOUR, MONDAY + 18 * HOUR),
        ("0 8 * * 1-5 for 10h", MONDAY + 17.99 * HOUR, MONDAY + 7.99 * HOUR),
        ("0 8 * * 1-5 for 10h", MONDAY + 4 * DAY + 9 * HOUR, MONDAY + 5 * DAY + 9 * HOUR),
        ("0 22 * * * for 8h", MONDAY + 2 * HOUR, MONDAY + 7 * HOUR),
        ("*/30 * * * * for 5m", MONDAY + 34 * 60, MONDAY + 36 * 60),
        ("0 0 * * 7 for 24h", MONDAY - HOUR, MONDAY + HOUR),
        ("0 0 1 * * for 1h", MONDAY + 11 * DAY, MONDAY),
        ("0 0 1 * 1 for 1h", MONDAY, MONDAY + DAY),
    ],
)
def test_inside_and_outside(text: str, inside: float, outside: float) -> None:
    assert window(text).holds(inside)
    assert not window(text).holds(outside)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0 8 * * 1-5",
        "0 8 * * for 1h",
        "60 8 * * * for 1h",
        "0 8 * * 5-1 for 1h",
        "0 8 * * mon for 1h",
        "0 8 * * */0 for 1h",
        "0 8 * * * for 10",
        "0 8 * * * for 8d",
        "0 8 ² * * for 1h",
        7,
        None,
    ],
)
def test_what_is_none(text: object) -> None:
    with pytest.raises(ValueError, match=r"needed|none|from|lasts"):
        window(text)


def test_sizes() -> None:
    assert [size(text) for text in ("64MiB", "1.5GiB", "100GB", "8B")] == [64 << 20, 3 << 29, 100 * 10**9, 8]
    for wrong in (64, "64", "64MB/s", "0MiB", "64iB", "-1MiB", True):
        with pytest.raises(ValueError, match="unit"):
            size(wrong)
