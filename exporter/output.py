"""Standard output: a full disk behind it is one line and status 2, a reader that went away is nothing at all."""

import os
import sys

from exporter.model import UserError


def write_out(content: str | bytes) -> None:
    """Write to standard output, all of it, now.

    Raises UserError where that can't be done, BrokenPipeError where the reader (head, less) went away; what is left
    unwritten is dropped either way, so that the interpreter does not stumble over it at its end.
    """
    try:
        if isinstance(content, bytes):
            sys.stdout.buffer.write(content)
        else:
            sys.stdout.write(content)
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise
        raise UserError(f"standard output: {error.strerror}") from error
