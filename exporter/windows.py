"""Windows of time that come again, as cron writes their beginning: `0 8 * * 1-5 for 10h`. Pure; local time."""

import time
from dataclasses import dataclass

FIELDS: tuple[tuple[str, int, int], ...] = (
    ("minute", 0, 59),
    ("hour", 0, 23),
    ("day of the month", 1, 31),
    ("month", 1, 12),
    ("day of the week", 0, 7),
)
MINUTE = 60
Values = frozenset[int]


@dataclass(frozen=True, slots=True)
class Window:
    """Begins at each minute that matches, and lasts `seconds`."""

    fields: tuple[Values, ...]
    seconds: float
    text: str

    def holds(self, now: float) -> bool:
        """Whether Unix time `now` lies in the window, by the local clock."""
        first = int(now) - int(now) % MINUTE
        return any(self._begins(begin) for begin in range(first, int(now - self.seconds), -MINUTE))

    def _begins(self, moment: int) -> bool:
        local = time.localtime(moment)
        minute, hour, day, month, weekday = self.fields
        if local.tm_min not in minute or local.tm_hour not in hour or local.tm_mon not in month:
            return False
        of_month, of_week = local.tm_mday in day, (local.tm_wday + 1) % 7 in weekday
        # as cron has it: where both are restricted, either is enough
        if len(day) < 31 and len(weekday) < 7:
            return of_month or of_week
        return of_month and of_week


def fields(text: str) -> tuple[Values, ...]:
    """The five fields of cron. Raises ValueError."""
    parts = text.split()
    if len(parts) != len(FIELDS):
        raise ValueError("five fields of cron are needed: minute, hour, day, month, day of the week")
    found = [_values(part, *field) for part, field in zip(parts, FIELDS, strict=True)]
    return (*found[:4], frozenset(day % 7 for day in found[4]))


def _values(text: str, name: str, least: int, most: int) -> Values:
    values: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        if span == "*":
            first, last = str(least), str(most if name != "day of the week" else 6)
        numbers = [first, last or first, step or "1"]
        if not all(number.isascii() and number.isdigit() for number in numbers):
            raise ValueError(f"{name}: {text!r} is none")
        begin, end, every = (int(number) for number in numbers)
        if not least <= begin <= end <= most or not every:
            raise ValueError(f"{name}: from {least} to {most}, not {text!r}")
        values.update(range(begin, end + 1, every))
    return frozenset(values)
