"""Signals that are held, and folders that go whatever happens."""

import signal
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

import pytest

from exporter.signals import held, scratch


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_is_noted_and_ends_the_command_when_it_asks(number: signal.Signals, status: int) -> None:
    before = signal.getsignal(number)
    with held() as told:
        told.check()
        signal.raise_signal(number)
        signal.raise_signal(signal.SIGINT)
        assert told.number == number  # the first counts
        with pytest.raises(SystemExit) as caught:
            told.check()
        assert caught.value.code == status
    assert signal.getsignal(number) == before


def test_ctrl_c_is_the_interrupt_that_it_always_is() -> None:
    with held() as told:
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            told.check()


def test_who_asks_late_is_called_at_once() -> None:
    calls = []
    with held() as told:
        signal.raise_signal(signal.SIGTERM)
        told.then(lambda: calls.append("late"))
        signal.raise_signal(signal.SIGTERM)
        told.then(None)
        signal.raise_signal(signal.SIGTERM)
    assert calls == ["late", "late"]


def test_what_nohup_ignores_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with held() as told:
        signal.raise_signal(signal.SIGHUP)
        assert told.number == 0
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


def test_elsewhere_than_in_the_main_thread_nothing_is_held() -> None:
    before = signal.getsignal(signal.SIGTERM)
    found = []

    def elsewhere() -> None:
        with held():
            found.append(signal.getsignal(signal.SIGTERM))

    thread = Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert found == [before]


def test_a_folder_goes_though_something_still_writes_into_it() -> None:
    removing, wrote = Event(), Event()

    def write(folder: Path) -> None:
        count = 0
        while not removing.wait(0.0001) or count < 200:  # and on for a while when it is being removed
            with suppress(OSError):
                (folder / "nested").mkdir(exist_ok=True)
                (folder / "nested" / str(count % 50)).write_text("x")
            wrote.set()
            count += removing.is_set()

    with scratch("eastwest-test-") as folder:
        writer = Thread(target=write, args=(folder,))
        writer.start()
        assert wrote.wait(10)
        removing.set()
    writer.join()
    assert not folder.exists()
