"""`python -m exporter` is `eastwest`, and this is where both begin and end."""

import _signal as signal  # type: ignore[import-not-found]  # built in; `signal` loads enum first, and here moments count
import os
import sys

INTERRUPTED = 130


def run() -> None:
    """The command line, from the first import to the end of the process."""
    before = signal.getsignal(signal.SIGINT)
    try:
        if before is signal.default_int_handler:  # Ctrl-C while modules load: nothing is made yet, nothing to say
            signal.signal(signal.SIGINT, _at_once)
        from exporter.cli import main  # noqa: PLC0415 - loading it takes a tenth of a second

        signal.signal(signal.SIGINT, before)
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    finally:
        # All is done, and the interpreter takes itself apart: what would end it now could only spoil the status.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)


def _at_once(_number: int, _frame: object) -> None:
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    run()
