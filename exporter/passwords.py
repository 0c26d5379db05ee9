"""Basic authentication that a flood of wrong passwords can't turn against the daemon.

bcrypt costs a quarter of a second at cost 12: it runs off the event loop, one at a time, and only for
credentials that have not been proven yet. Each address has a few tries, then one a second.
"""

import asyncio
import base64
import binascii
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import bcrypt

Key = TypeVar("Key")
Value = TypeVar("Value")

BURST = 10.0
"""Tries that an address has at once."""
PER_SECOND = 1.0
WAITING = 8
"""Unproven credentials that may wait for their turn."""
REMEMBERED = 1024
NOBODY = bcrypt.hashpw(b"nobody", bcrypt.gensalt(4)).decode()
MAX_HEADER = 512


@dataclass(slots=True)
class _Bucket:
    tokens: float
    filled: float


class Passwords:
    """Checks Authorization headers against `users` (name -> bcrypt hash), as they are at that moment."""

    def __init__(self, users: Callable[[], Mapping[str, str]], clock: Callable[[], float] = time.monotonic) -> None:
        self._users = users
        self._clock = clock
        self._secret = secrets.token_bytes(32)
        self._proven: OrderedDict[bytes, None] = OrderedDict()
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()
        self._turn = asyncio.Semaphore(1)
        self._waiting = 0

    async def status(self, header: str, address: str) -> int:
        """200 where the header proves a user (or none is asked), 401 where not, 429 where it was not even tried."""
        users = self._users()
        if not users:
            return 200
        given = _credentials(header)
        if given is None:
            return 401
        name, password = given
        expected = users.get(name, NOBODY)
        mark = hmac.digest(self._secret, b"\0".join((name.encode(), expected.encode(), password)), "sha256")
        if mark in self._proven:
            return 200
        if self._waiting >= WAITING or not self._may_try(address):
            return 429
        if not await self._matches(password, expected) or name not in users:
            return 401
        _remember(self._proven, mark, None)
        return 200

    async def _matches(self, password: bytes, expected: str) -> bool:
        self._waiting += 1
        try:
            async with self._turn:
                return await asyncio.to_thread(_check, password, expected)
        finally:
            self._waiting -= 1

    def _may_try(self, address: str) -> bool:
        now = self._clock()
        bucket = self._buckets.pop(address, None) or _Bucket(BURST, now)
        bucket.tokens = min(BURST, bucket.tokens + (now - bucket.filled) * PER_SECOND)
        bucket.filled = now
        _remember(self._buckets, address, bucket)
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True


def _remember(known: OrderedDict[Key, Value], key: Key, value: Value) -> None:
    known[key] = value
    if len(known) > REMEMBERED:
        known.popitem(last=False)


def _check(password: bytes, expected: str) -> bool:
    # bcrypt itself looks at 72 bytes; newer versions refuse more
    return bcrypt.checkpw(password[:72], expected.encode())


def _credentials(header: str) -> tuple[str, bytes] | None:
    scheme, _, encoded = header[:MAX_HEADER].partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
    except (binascii.Error, ValueError):
        return None
    if not colon or b"\0" in password:
        return None
    return name.decode("utf-8", "replace"), password
