"""Basic authentication against bcrypt hashes, at a bounded cost.

A check at cost 12 takes a quarter of a second of processor. Right passwords are remembered (by a keyed digest, in
memory alone), so a scraper pays once; what is left is checked on one thread, by few at a time, and from one
address not more often than FAILURES_PER_SECOND.
"""

import asyncio
import base64
import binascii
import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from functools import partial

import bcrypt

FAILURES_PER_SECOND = 1.0
BURST = 5.0
PENDING = 8
REMEMBERED = 256
ADDRESSES = 1024
MAX_PASSWORD_BYTES = 72
"""What bcrypt looks at; a longer password can't have been hashed."""


class Verdict(Enum):
    """What becomes of a request; BUSY: too many checks, ask again later."""

    ALLOWED = "allowed"
    DENIED = "denied"
    BUSY = "busy"


class Passwords:
    """Decides by the Authorization header. `users` maps a name to its bcrypt hash; `clock` is monotonic seconds."""

    def __init__(
        self,
        users: Mapping[str, str],
        clock: Callable[[], float] = time.monotonic,
        check: Callable[[bytes, bytes], bool] = bcrypt.checkpw,
    ) -> None:
        self.users = users
        self._clock = clock
        self._check = check
        self._key = secrets.token_bytes(32)
        self._known: OrderedDict[bytes, bool] = OrderedDict()
        self._budgets: OrderedDict[tuple[str, str], tuple[float, float]] = OrderedDict()
        self._pending = 0
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="bcrypt")

    async def decide(self, header: bytes, address: str) -> Verdict:
        """On one request of a client at `address`."""
        given = credentials(header)
        if given is None:
            return Verdict.DENIED
        user, password = given
        hashed = self.users.get(user)
        digest = self._digest(user, hashed or "", password)
        if (known := self._known.get(digest)) is not None:
            self._known.move_to_end(digest)
            return Verdict.ALLOWED if known else Verdict.DENIED
        bucket = address, user if hashed else ""
        if self._pending >= PENDING or not self._may_try(bucket):
            return Verdict.BUSY
        self._pending += 1
        try:
            loop = asyncio.get_running_loop()
            right = await loop.run_in_executor(self._worker, partial(self._right, hashed, password))
        finally:
            self._pending -= 1
        if right:
            self._budgets.pop(bucket, None)
        self._remember(digest, right)
        return Verdict.ALLOWED if right else Verdict.DENIED

    def close(self) -> None:
        """End the thread."""
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _right(self, hashed: str | None, password: bytes) -> bool:
        """An unknown user costs as much as a known one, so that names can't be told by time."""
        against = hashed or self._decoy()
        try:
            return self._check(password[:MAX_PASSWORD_BYTES], against.encode()) and hashed is not None
        except ValueError:
            return False  # a NUL in the password

    def _decoy(self) -> str:
        cost = max((hashed[4:6] for hashed in self.users.values()), default="10")
        return f"$2b${cost}${'.' * 53}"

    def _may_try(self, bucket: tuple[str, str]) -> bool:
        """Take one try from the budget of an address and user; it fills at FAILURES_PER_SECOND up to BURST."""
        now = self._clock()
        left, since = self._budgets.pop(bucket, (BURST, now))
        left = min(BURST, left + (now - since) * FAILURES_PER_SECOND)
        allowed = left >= 1
        self._budgets[bucket] = (left - 1 if allowed else left), now
        if len(self._budgets) > ADDRESSES:
            self._budgets.popitem(last=False)
        return allowed

    def _remember(self, digest: bytes, right: bool) -> None:
        """Right and wrong answers; a wrong one must never push out a right one."""
        self._known[digest] = right
        if len(self._known) > REMEMBERED:
            oldest = next((known for known, value in self._known.items() if not value), None)
            self._known.pop(oldest) if oldest is not None else self._known.popitem(last=False)

    def _digest(self, user: str, hashed: str, password: bytes) -> bytes:
        text = b"\0".join((user.encode(), hashed.encode(), hashlib.sha256(password).digest()))
        return hmac.digest(self._key, text, "sha256")


def credentials(header: bytes) -> tuple[str, bytes] | None:
    """User and password of `Basic ...` (RFC 7617), or None for anything else and passwords too long to be right."""
    scheme, _, encoded = header.strip().partition(b" ")
    if scheme.lower() != b"basic":
        return None
    try:
        user, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
        name = user.decode("utf-8")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return (name, password) if colon and len(password) <= MAX_PASSWORD_BYTES else None
