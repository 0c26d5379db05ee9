"""What a counter did between two readings. Pure."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Delta:
    """How far a counter moved; `amount` is None where that can't be known.

    `kind`: `value` (it grew or stood still), `wrap` (it passed the end of its register and went on), `reset`
    (it started anew, so what happened in between is unknown), `absent` (one of the two readings lacks it).
    """

    kind: Literal["value", "wrap", "reset", "absent"]
    amount: int | None


def delta(before: int | None, after: int | None, modulus: int | None = None) -> Delta:
    """The movement from `before` to `after` of a counter that wraps at `modulus` (None: it does not wrap).

    A fall is taken for a wrap only where the counter wraps at all and moved less than half of its range by that
    reading; any other fall is a reset.
    """
    if before is None or after is None:
        return Delta("absent", None)
    if after >= before:
        return Delta("value", after - before)
    if modulus and before < modulus and (moved := after + modulus - before) < modulus // 2:
        return Delta("wrap", moved)
    return Delta("reset", None)
