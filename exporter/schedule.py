"""Periodic runs. The only importer of apscheduler."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from threading import Lock

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

BEAT_SECONDS = 1.0
SPREAD_SECONDS = 0.05
logging.getLogger("apscheduler").setLevel(logging.ERROR)  # it logs every run, and warns where a beat is late


class Schedule:
    """Calls functions that return at once, each at its interval, the first time now.

    A late run is run, not dropped, and several late ones count as one. `beat` is called every second: while it
    is, the loop turns.
    """

    def __init__(self, beat: Callable[[], None]) -> None:
        self._lock = Lock()
        self._scheduler = BackgroundScheduler(
            timezone=UTC,
            daemon=True,
            executors={"default": ThreadPoolExecutor(1)},
            job_defaults={"misfire_grace_time": None, "coalesce": True, "max_instances": 1},
        )
        self._add("beat", BEAT_SECONDS, beat, 0.0)

    def start(self) -> None:
        """Let it turn."""
        self._scheduler.start()

    def replace(self, jobs: dict[str, tuple[float, Callable[[], None]]]) -> None:
        """Have exactly these jobs: name -> (interval in seconds, function)."""
        with self._lock:
            for job in self._scheduler.get_jobs():
                if job.id != "beat":
                    job.remove()
            for position, (name, (interval, function)) in enumerate(jobs.items()):
                self._add(name, interval, function, position * SPREAD_SECONDS)

    def stop(self) -> None:
        """Start nothing more. What runs goes on."""
        self._scheduler.shutdown(wait=False)

    def _add(self, name: str, interval: float, function: Callable[[], None], delay: float) -> None:
        self._scheduler.add_job(
            function,
            "interval",
            seconds=interval,
            id=name,
            next_run_time=datetime.now(UTC) + timedelta(seconds=delay),
        )
