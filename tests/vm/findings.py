"""What each fault of these tests is called: (subject, reason), or None while nothing says it."""

from collections.abc import Mapping

from tests.vm.guest import Daemon

EXPECTED: Mapping[str, tuple[str, str] | None] = {
    "netdev down": ("rxe0/1", "port_down"),
    "speed lowered": ("rxe8/1", "rate_low"),
    "device removed": ("rxe1/1", "port_missing"),
}


def found(daemon: Daemon, fault: str) -> None:
    """The finding is there, or comes within the time a fold needs."""
    if (expected := EXPECTED[fault]) is not None:
        subject, reason = expected
        daemon.until(lambda scrape: scrape.value("finding", subject=subject, reason=reason) == 1, seconds=150)


def cleared(daemon: Daemon, fault: str) -> None:
    """The finding is gone, or goes."""
    if (expected := EXPECTED[fault]) is not None:
        subject, reason = expected
        daemon.until(lambda scrape: scrape.value("finding", subject=subject, reason=reason) is None, seconds=120)
