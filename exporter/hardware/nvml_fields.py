"""The fields of one GPU: tried alone, since one that fails can spoil a batch (NVIDIA/DCGM#265), then batched."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from exporter.hardware import nvml_codes as codes
from exporter.hardware.nvml import FieldKey, FieldValue, NvmlError

CHUNK = 128
"""Fields in one call: the driver's own limit is not documented."""
PENDING_AT_ONCE = 32
"""Fields tried again in one poll."""
_OF_THE_GPU = frozenset({codes.LINK_COUNT, *codes.THROTTLE_FIELDS})
Standing = Literal["batch", "alone", "pending", "absent"]
"""Answers in a batch; answers when asked alone; failed in passing, to be tried again; this GPU has none."""


class GoneError(Exception):
    """The GPU as a whole does not answer; `code` says why, `call` what was asked."""

    def __init__(self, call: str, code: int) -> None:
        super().__init__(f"{call}: {codes.reason(code)}")
        self.call = call
        self.code = code


@dataclass(slots=True)
class Answers:
    """What one poll gave: `[field, scope, value type, bits]`; and what should have: what, its code, the link or -1."""

    values: list[tuple[int, int, int, int]] = field(default_factory=list)
    faults: list[tuple[str, int, int]] = field(default_factory=list)

    def take(self, key: FieldKey, answer: FieldValue) -> None:
        """A field that answered."""
        self.values.append((*key, answer.value_type, answer.bits))

    def fault(self, key: FieldKey, code: int) -> None:
        """A field that did not."""
        self.faults.append((f"field {key[0]}", code, -1 if key[0] in _OF_THE_GPU else key[1]))


class Fields:
    """Knows which fields answer, and how. `ask` is nvmlDeviceGetFieldValues; `say` is for what is worth saying once."""

    def __init__(self, ask: Callable[[Sequence[FieldKey]], list[FieldValue]], say: Callable[[str], None]) -> None:
        self._ask = ask
        self._say = say
        self._standing: dict[FieldKey, Standing] = {}

    def try_each(self, keys: Iterable[FieldKey]) -> None:
        """Ask each alone and remember how it stands. Raises GoneError."""
        for key in keys:
            self._try(key)

    def has(self, key: FieldKey) -> bool:
        """Whether the field has answered."""
        return self._standing.get(key) in ("batch", "alone")

    def forget(self, fields: Iterable[int]) -> None:
        """Ask for these fields no more."""
        dropped = set(fields)
        self._standing = {key: how for key, how in self._standing.items() if key[0] not in dropped}

    def retry(self, link: int) -> None:
        """The link changed: what it did not have, it may have now."""
        for key, how in self._standing.items():
            if how == "absent" and key[1] == link and key[0] not in _OF_THE_GPU:
                self._standing[key] = "pending"

    def read(self) -> Answers:
        """Every field that there is. Raises GoneError."""
        found = Answers()
        batch = [key for key, how in self._standing.items() if how == "batch"]
        alone = [key for key, how in self._standing.items() if how == "alone"]
        pending = [key for key, how in self._standing.items() if how == "pending"][:PENDING_AT_ONCE]
        for start in range(0, len(batch), CHUNK):
            keys = batch[start : start + CHUNK]
            answers = self._answers(keys)
            self._whole(keys, answers)
            for key, answer in zip(keys, answers, strict=True):
                if answer.code == codes.SUCCESS:
                    found.take(key, answer)
                elif self._again(key, found):
                    self._standing[key] = "alone"
        for key in alone:
            self._again(key, found)
        for key in pending:
            del self._standing[key]  # to the end of the queue
            answer = self._try(key)
            if answer.code == codes.SUCCESS:
                found.take(key, answer)
            elif self._standing[key] == "pending":
                found.fault(key, answer.code)
        return found

    def single(self, key: FieldKey) -> FieldValue:
        """One field, alone. Raises GoneError."""
        return self._answers([key])[0]

    def _whole(self, keys: Sequence[FieldKey], answers: Sequence[FieldValue]) -> None:
        """A GPU that fell off the bus may say "unknown error" to everything: then it is gone, not each field."""
        told = {answer.code for answer in answers}
        if len(told) == 1 and not told & (codes.ABSENT | {codes.SUCCESS}) and self.single(keys[0]).code in told:
            raise GoneError(_name(keys[0]), told.pop())

    def _again(self, key: FieldKey, found: Answers) -> bool:
        """A field that answered before, asked alone; one that a link has lost is no fault, it comes and goes."""
        answer = self.single(key)
        if answer.code == codes.SUCCESS:
            found.take(key, answer)
            return True
        if answer.code in codes.ABSENT and key[0] not in _OF_THE_GPU:
            self._standing[key] = "absent"
        else:
            self._standing[key] = "pending"
            found.fault(key, answer.code)
        return False

    def _try(self, key: FieldKey) -> FieldValue:
        answer = self.single(key)
        if answer.code == codes.SUCCESS:
            self._standing[key] = "batch"
        elif answer.code in codes.ABSENT:
            self._standing[key] = "absent"
            if answer.code == codes.NO_PERMISSION:
                self._say(f"{_name(key)} is not for this user (no_permission)")
        else:
            self._standing[key] = "pending"
        return answer

    def _answers(self, keys: Sequence[FieldKey]) -> list[FieldValue]:
        """A call that fails as a whole has failed for each field in it; values of failed fields are rubbish."""
        try:
            answers = self._ask(keys)
        except NvmlError as error:
            answers = [FieldValue(error.code, 0, 0)] * len(keys)
        for key, answer in zip(keys, answers, strict=True):
            if answer.code in codes.LOST or answer.code in codes.GONE:
                raise GoneError(_name(key), answer.code)
        return answers


def _name(key: FieldKey) -> str:
    return f"field {key[0]}" if key[0] in _OF_THE_GPU else f"field {key[0]} of link {key[1]}"
