"""The clock, as a value: the machine's, or a scenario's own."""

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clock:
    """`wall` is Unix seconds; `monotonic` only ever grows, and is what ages and deadlines are measured with."""

    wall: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
