"""What the service manager hears, by a real socket; and that the watchdog is fed through both loops of the daemon."""

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

from exporter.app import Daemon
from exporter.config import Config
from exporter.notify import Notifier
from exporter.release import Release
from exporter.sources import Simulated
from exporter.state import State
from tests.trees import Clock


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    """The service manager's end."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.setblocking(False)
        yield listening


def heard(manager: socket.socket) -> list[str]:
    messages = []
    while True:
        try:
            messages.append(manager.recv(4096).decode())
        except BlockingIOError:
            return messages


def notifier(manager: socket.socket, limit: str = "", clock: Clock | None = None) -> Notifier:
    return Notifier({"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": limit}, clock or Clock())


def test_the_life_of_a_daemon(manager: socket.socket) -> None:
    told = notifier(manager, clock=Clock(2.5))
    told.ready("listening on\nhttp://x")
    told.reloading()
    told.stopping()
    assert heard(manager) == [
        "READY=1\nSTATUS=listening on http://x",
        "RELOADING=1\nMONOTONIC_USEC=2500000",
        "STOPPING=1",
    ]


def test_the_watchdog_is_fed_four_times_in_its_time_however_often_the_loop_turns(manager: socket.socket) -> None:
    clock = Clock()
    told = notifier(manager, "30000000", clock)
    for _ in range(60):
        told.alive()
        clock.now += 0.5
    assert heard(manager) == ["WATCHDOG=1"] * 4


@pytest.mark.parametrize("limit", ["", "0", "-1", "many"])
def test_no_watchdog_is_fed_where_there_is_none(manager: socket.socket, limit: str) -> None:
    notifier(manager, limit).alive()
    assert heard(manager) == []


def test_children_get_none_of_it(manager: socket.socket) -> None:
    environment = {"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "1", "WATCHDOG_PID": "1", "HOME": "/"}
    Notifier(environment)
    assert environment == {"HOME": "/"}


def test_a_name_in_the_abstract_namespace() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind("")  # the kernel chooses one
        name = listening.getsockname()
        assert isinstance(name, bytes)
        Notifier({"NOTIFY_SOCKET": "@" + name[1:].decode()}).stopping()
        assert listening.recv(100) == b"STOPPING=1"


@pytest.mark.parametrize("name", ["", "/nowhere/notify", "vsock:2:1", "relative"])
def test_nobody_listens_and_nothing_breaks(name: str, caplog: pytest.LogCaptureFixture) -> None:
    told = Notifier({"NOTIFY_SOCKET": name})
    told.stopping()
    told.stopping()
    assert len(caplog.messages) == (name == "/nowhere/notify")


def test_a_loop_that_stands_still_starves_the_watchdog(manager: socket.socket, tmp_path: Path) -> None:
    """The schedule turns, the event loop does not: nothing is sent until it does."""
    turned = Event()

    class Watched(Notifier):
        def alive(self) -> None:
            super().alive()
            turned.set()

    told = Watched({"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "30000000"})
    loop = asyncio.new_event_loop()
    sources = Simulated("bare", tmp_path, lambda: 0.0)
    daemon = Daemon(None, Config(), None, sources, State(None), None, Release(None), told)
    daemon.start(loop)
    try:
        assert not turned.wait(1.5)  # the schedule's first beat is at once
        assert heard(manager) == []
        loop.run_until_complete(asyncio.sleep(0))
        assert turned.is_set()
        assert heard(manager) == ["WATCHDOG=1"]
    finally:
        daemon.stop()
        loop.close()
