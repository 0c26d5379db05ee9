"""Fixtures that several files of tests share."""

from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.replays import Replays, pool

settings.register_profile("any-machine", deadline=None)  # no time is a test: machines are noisy
settings.load_profile("any-machine")


@pytest.fixture(scope="session")
def replays(request: pytest.FixtureRequest) -> Iterator[Replays]:
    """Every scenario's end, by name; those of the tests that were chosen are begun at once."""
    workers = pool()
    found = Replays(workers)
    calls = (getattr(item, "callspec", None) for item in request.session.items)
    found.want(dict.fromkeys(call.params["scenario"] for call in calls if call and "scenario" in call.params))
    yield found
    workers.shutdown(cancel_futures=True)


@pytest.fixture(scope="session", autouse=True)
def _replays_begin_first(request: pytest.FixtureRequest) -> None:
    """The replays go on beside all other tests, in place of keeping the last ones waiting."""
    if any("replays" in getattr(item, "fixturenames", ()) for item in request.session.items):
        request.getfixturevalue("replays")
