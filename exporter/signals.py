"""Signals that end a command: noted, and acted on between two steps, so that nothing half made is left behind.

A handler that raises strikes anywhere: between the making of a folder and the line that knows of it, or in the middle
of its removal, where a second signal came.
"""

import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
TRIES = 40
TRY_SECONDS = 0.05


@contextmanager
def held(numbers: Sequence[signal.Signals] = ENDING) -> Iterator["Told"]:
    """Until the end of this context these signals are noted and nothing else; what was before is back then.

    SIGHUP stays ignored where it was (nohup). In a thread other than the main one nothing changes.
    """
    told = Told()
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in numbers:
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                before[number] = signal.signal(number, told.note)
    try:
        yield told
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)


@contextmanager
def scratch(prefix: str) -> Iterator[Path]:
    """A temporary folder, gone at the end, whatever still writes into it meanwhile. For use where signals are held."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    try:
        yield folder
    finally:
        for _ in range(TRIES):
            shutil.rmtree(folder, ignore_errors=True)
            if not folder.exists():
                break
            time.sleep(TRY_SECONDS)


class Told:
    """Which signal came first; 0 while none did."""

    def __init__(self) -> None:
        self.number = 0
        self._call: Callable[[], object] | None = None

    def note(self, number: int, _frame: object) -> None:
        """The handler. It takes no lock: it may run in the middle of any line."""
        self.number = self.number or number
        if self._call is not None:
            self._call()

    def then(self, call: Callable[[], object] | None) -> None:
        """Have this called at each signal, and now if one came already; None: nothing any more."""
        self._call = call
        if call is not None and self.number:
            call()

    def check(self) -> None:
        """End the command, with the status that shells give for that signal, if one came."""
        if self.number == signal.SIGINT:
            raise KeyboardInterrupt
        if self.number:
            raise SystemExit(128 + self.number)
