"""Fixtures that several files of tests share."""

from collections.abc import Iterator

import pytest

from tests.replays import Replays, pool


@pytest.fixture(scope="session")
def replays(request: pytest.FixtureRequest) -> Iterator[Replays]:
    """Every scenario's end, by name; those of the tests that were chosen are begun at once."""
    workers = pool()
    found = Replays(workers)
    calls = (getattr(item, "callspec", None) for item in request.session.items)
    found.want(dict.fromkeys(call.params["scenario"] for call in calls if call and "scenario" in call.params))
    yield found
    workers.shutdown(cancel_futures=True)
