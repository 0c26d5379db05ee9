"""Asks several sources side by side, each in a thread of its own: one that hangs holds up no other.

A thread is there only while its source answers, and never two for one source: while a question stands, no other is
asked. What hangs for good costs one thread, however often it is asked.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Condition, Thread
from typing import Generic, TypeVar

SLICE = 0.1
"""Seconds after which it is looked whether the asker still wants an answer."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Answer(Generic[T]):
    """What was said to the question of a moment: `bug` is what no source may raise."""

    asked: float
    value: T | None = None
    bug: Exception | None = None


def never() -> bool:
    """Whoever asks waits to the end."""
    return False


class Questions(Generic[T]):
    """Safe to use from several threads."""

    def __init__(self, sources: Mapping[str, Callable[[], T]]) -> None:
        self._sources = sources
        self._changed = Condition()
        self._standing: set[str] = set()
        self._answers: dict[str, _Answer[T]] = {}

    def each(
        self,
        names: Sequence[str],
        seconds: float,
        over: Callable[[], bool] = never,
        since: float | None = None,
    ) -> Iterator[tuple[str, T | None]]:
        """Name and answer of each, as they come; at the end None for those that have not answered in time.

        `over` ends the waiting early. An answer counts if it was asked for after `since` (monotonic; by default now):
        what a source says at last to a question of an earlier day proves nothing.
        """
        now = time.monotonic()
        since, end = now if since is None else since, now + seconds
        missing = list(names)
        while missing and (said := self._next(missing, since, end, over)) is not None:
            name, answer = said
            missing.remove(name)
            if answer.bug is not None:
                raise answer.bug
            yield name, answer.value
        for name in missing:
            yield name, None

    def _next(
        self, missing: Sequence[str], since: float, end: float, over: Callable[[], bool]
    ) -> tuple[str, _Answer[T]] | None:
        late = False
        with self._changed:
            while True:
                for name in missing:
                    answer = self._answers.pop(name, None)
                    if answer is not None and answer.asked >= since:
                        return name, answer
                    if name not in self._standing:
                        self._ask(name)
                left = end - time.monotonic()
                if left <= 0 or late:
                    return None
                late = over()  # a source that does not hang has answered by the end of this slice
                self._changed.wait(min(left, SLICE))

    def _ask(self, name: str) -> None:
        self._standing.add(name)
        Thread(target=self._read, args=(name, time.monotonic()), name=f"ask-{name}", daemon=True).start()

    def _read(self, name: str, asked: float) -> None:
        answer: _Answer[T]
        try:
            answer = _Answer(asked, self._sources[name]())
        except Exception as error:  # noqa: BLE001 - raised again where it was asked for
            answer = _Answer(asked, bug=error)
        with self._changed:
            self._standing.discard(name)
            self._answers[name] = answer
            self._changed.notify_all()
