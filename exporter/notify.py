"""What systemd is told of the daemon: a datagram to the socket that NOTIFY_SOCKET names (sd_notify(3)).

The protocol is a stable interface of systemd, a few lines a message; without such a socket nothing is sent.
"""

import logging
import socket
import time
from collections.abc import Callable, MutableMapping

SHARE = 0.25
"""Share of the watchdog's time after which it is fed: three messages may be late or lost."""
log = logging.getLogger(__name__)


class Notifier:
    """Tells the service manager. Takes its variables out of `environment`, so that children do not speak for us.

    `clock` is CLOCK_MONOTONIC in seconds. Nothing here raises: a service manager that does not listen is none of
    the daemon's business.
    """

    def __init__(self, environment: MutableMapping[str, str], clock: Callable[[], float] = time.monotonic) -> None:
        self._address = _address(environment.pop("NOTIFY_SOCKET", ""))
        limit = environment.pop("WATCHDOG_USEC", "")
        environment.pop("WATCHDOG_PID", None)
        self._clock = clock
        self._every = int(limit) * SHARE / 1e6 if limit.isdecimal() and int(limit) else None
        self._fed: float | None = None
        self._failing = False

    def ready(self, status: str) -> None:
        """The start, or a new reading of the configuration, is over; `status` is what `systemctl status` shows."""
        self._send(f"READY=1\nSTATUS={_line(status)}")

    def reloading(self) -> None:
        """The configuration is being read again; `ready` ends that."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={int(self._clock() * 1e6)}")

    def stopping(self) -> None:
        """The daemon ends because it was told to."""
        self._send("STOPPING=1")

    def alive(self) -> None:
        """The daemon's loops turn; called often, sent as often as the watchdog needs it."""
        now = self._clock()
        if self._every is None or (self._fed is not None and now - self._fed < self._every):
            return
        self._fed = now
        self._send("WATCHDOG=1")

    def _send(self, message: str) -> None:
        if self._address is None:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.setblocking(False)
                sender.sendto(message.encode(), self._address)
        except OSError as error:
            if not self._failing:
                log.warning("the service manager can't be told %s: %s", message.partition("\n")[0], error.strerror)
            self._failing = True
        else:
            self._failing = False


def _address(name: str) -> str | None:
    """A path, or with `@` a name in the abstract namespace; others (vsock) are for virtual machines as a whole."""
    if name.startswith("@"):
        return "\0" + name[1:]
    return name if name.startswith("/") else None


def _line(text: str) -> str:
    return " ".join(text.split())
