"""Which fields are asked, and how: on a driver of three lines."""

from collections.abc import Mapping, Sequence

import pytest

from exporter.hardware.nvml import FieldKey, FieldValue, NvmlError
from exporter.hardware.nvml_fields import CHUNK, Fields, GoneError

LINK = 164


class Driver:
    """Answers by `codes` (0 where a key is not in it); `batch` has other codes for fields in company."""

    def __init__(self, codes: Mapping[FieldKey, int], batch: Mapping[FieldKey, int] | None = None) -> None:
        self.codes = dict(codes)
        self.batch = dict(batch or {})
        self.asked: list[Sequence[FieldKey]] = []

    def ask(self, keys: Sequence[FieldKey]) -> list[FieldValue]:
        """As nvmlDeviceGetFieldValues: it fails as a whole where no field was filled."""
        self.asked.append(keys)
        company = self.batch if len(keys) > 1 else {}
        answers = [FieldValue(company.get(key, self.codes.get(key, 0)), 1, key[1]) for key in keys]
        if all(answer.code for answer in answers):
            raise NvmlError("nvmlDeviceGetFieldValues", answers[0].code)
        return answers


def fields(driver: Driver, keys: Sequence[FieldKey]) -> tuple[Fields, list[str]]:
    said: list[str] = []
    made = Fields(driver.ask, said.append)
    made.try_each(keys)
    driver.asked.clear()
    return made, said


def keys(count: int) -> list[FieldKey]:
    return [(LINK, link) for link in range(count)]


def test_fields_that_answered_are_asked_together_and_those_that_there_are_not_never() -> None:
    driver = Driver({(LINK, 1): 3, (LINK, 2): 2})
    made, said = fields(driver, keys(4))
    assert [key for key, *_ in made.read().values] == [LINK, LINK]
    assert driver.asked == [[(LINK, 0), (LINK, 3)]]
    assert said == []


def test_a_field_without_permission_is_said_once_and_left() -> None:
    driver = Driver({(LINK, 1): 4})
    made, said = fields(driver, keys(2))
    assert made.read().faults == []
    assert said == ["field 164 of link 1 is not for this user (no_permission)"]


def test_one_that_fails_in_company_alone_is_asked_alone_from_then_on() -> None:
    driver = Driver({}, batch={(LINK, 1): 3})
    made, _ = fields(driver, keys(3))
    for _ in range(2):
        assert sorted(link for _, link, *_ in made.read().values) == [0, 1, 2]
    assert driver.asked[-2:] == [[(LINK, 0), (LINK, 2)], [(LINK, 1)]]


def test_a_passing_failure_is_a_fault_and_tried_again() -> None:
    driver = Driver({(LINK, 1): 21})
    made, _ = fields(driver, keys(2))
    assert made.read().faults == [("field 164", 21, 1)]
    driver.codes.clear()
    answers = made.read()
    assert (len(answers.values), answers.faults) == (2, [])


@pytest.mark.parametrize("code", [15, 16, 1, 9])
def test_a_lost_gpu_or_session_ends_the_reading(code: int) -> None:
    driver = Driver({})
    made, _ = fields(driver, keys(3))
    driver.codes = {(LINK, 1): code}
    with pytest.raises(GoneError) as caught:
        made.read()
    assert caught.value.code == code


def test_unknown_error_to_everything_is_a_lost_gpu_but_to_one_field_is_not() -> None:
    driver = Driver({})
    made, _ = fields(driver, keys(3))
    driver.codes = dict.fromkeys(keys(3), 999)
    with pytest.raises(GoneError):
        made.read()
    driver.codes = {(LINK, 0): 999}
    assert made.read().faults == [("field 164", 999, 0)]


def test_batches_have_a_limit() -> None:
    driver = Driver({})
    made, _ = fields(driver, keys(CHUNK + 1))
    made.read()
    assert [len(asked) for asked in driver.asked] == [CHUNK, 1]


def test_what_is_forgotten_is_not_asked_and_what_is_absent_is_tried_when_its_link_changes() -> None:
    driver = Driver({(LINK, 1): 3})
    made, _ = fields(driver, [*keys(2), (165, 0)])
    made.forget([165])
    driver.codes.clear()
    made.read()
    assert driver.asked == [[(LINK, 0)]]
    made.retry(1)
    assert sorted(link for _, link, *_ in made.read().values) == [0, 1]
    assert made.has((LINK, 1))
