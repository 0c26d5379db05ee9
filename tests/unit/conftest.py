"""What every unit test may rely on."""

import logging
import signal
from collections.abc import Iterator

import pytest

from exporter.signals import ENDING


@pytest.fixture(autouse=True)
def _process_as_it_was() -> Iterator[None]:
    """A command sets up the process's logging and signals; the tests share one process."""
    signals = {number: signal.getsignal(number) for number in ENDING}
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    for number, handler in signals.items():
        signal.signal(number, handler)
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(capture=False)
