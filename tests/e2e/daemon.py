"""The real command, started and ended by the tests; and waiting without sleeping blindly."""

import re
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import httpx

Found = TypeVar("Found")
_LISTENING = re.compile(r"listening on (http\S+)")


@dataclass(frozen=True, slots=True)
class Daemon:
    """A running `eastwest serve`, and where it answers."""

    process: "subprocess.Popen[str]"
    url: str

    def get(self, path: str, accept: str = "*/*") -> httpx.Response:
        """One page."""
        return httpx.get(self.url + path, headers={"Accept": accept}, timeout=5)

    def value(self, series: str) -> float | None:
        """The value of one series as written in /metrics, or None where it is absent."""
        for line in self.get("/metrics").text.splitlines():
            if line.startswith(series + " "):
                return float(line.rpartition(" ")[2])
        return None


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "exporter", *arguments]


@contextmanager
def serving(*arguments: str, listen: str = "127.0.0.1:0") -> Iterator[Daemon]:
    """The daemon on a free port; ended with the context if it still runs."""
    process = subprocess.Popen(
        command("serve", "--listen", listen, *arguments), stderr=subprocess.PIPE, text=True, bufsize=1
    )
    try:
        yield Daemon(process, _url(process))
    finally:
        process.terminate()
        try:
            process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def eventually(what: Callable[[], Found | None], seconds: float = 15.0) -> Found:
    """What `what` gives as soon as it gives something true; fails after `seconds`."""
    end = time.monotonic() + seconds
    while True:
        if found := what():
            return found
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.05)


def ended(process: "subprocess.Popen[str]", seconds: float) -> float:
    """Wait for the end; how long it took."""
    began = time.monotonic()
    process.wait(timeout=seconds)
    return time.monotonic() - began


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def _url(process: "subprocess.Popen[str]") -> str:
    assert process.stderr is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stderr, selectors.EVENT_READ)
        end = time.monotonic() + 20
        while time.monotonic() < end:
            if selector.select(timeout=0.2) and (match := _LISTENING.search(process.stderr.readline())):
                return match[1]
            assert process.poll() is None, "the daemon ended before it listened"
    raise AssertionError("the daemon did not listen within 20 s")
