"""The life of a link: whether it was ever up, when it went down, and when it came back. Pure.

Times are monotonic seconds; those of an earlier boot are negative, or simply before this process.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

DAY = 86_400.0
OWED_SECONDS = 300.0
"""How long a fall that was seen may wait for the counter to count it."""
FALLS_KEPT = 200
BEST_KEPT = 7 * DAY
BEST_RENEWED = 3600.0
FORGOTTEN_AFTER = 30 * DAY


@dataclass(frozen=True, slots=True)
class Outage:
    """A time when the link was seen to be down: when it ended, and how long it lasted, in seconds."""

    end: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Life:
    """What is known of a link.

    `up` is None while it is not listed; `since` is when it came to be so. `downed` is the last `link_downed`
    counter. `falls` are times and how many. `owed` falls were seen in the state and not yet in the counter, since
    `owed_since`. `best` is the highest rate of late, in bytes/s, last seen at `best_at`. `subject` and `role` are
    what it was called when last seen.
    """

    subject: str = ""
    role: str = ""
    ever_up: bool = False
    born: float = float("-inf")
    up: bool | None = None
    since: float = 0.0
    downed: int | None = None
    falls: tuple[tuple[float, int], ...] = ()
    outages: tuple[Outage, ...] = ()
    owed: int = 0
    owed_since: float = 0.0
    best: float | None = None
    best_at: float = 0.0

    def fallen(self, now: float, window: float) -> int:
        """How often it went down in the last `window` seconds."""
        return sum(count for at, count in self.falls if at > now - window)

    def best_since(self, now: float) -> float | None:
        """The highest rate of the last week; None where none is known."""
        return self.best if now - self.best_at <= BEST_KEPT else None

    def last_fall(self) -> float | None:
        """When it went down last."""
        return self.falls[-1][0] if self.falls else None


def live(life: Life, now: float, up: bool | None, downed: int | None) -> Life:
    """One reading later. `up` is None where the link is not listed, `downed` where its counter can't be read.

    A fall shows in the state, in the counter, or in both and then not at once: it is counted one time.
    """
    if up == life.up and downed == life.downed and (not life.falls or life.falls[0][0] > now - DAY):
        return life
    fell = int(life.up is True and up is False)
    counted = downed - life.downed if downed is not None and life.downed is not None else 0
    counted = max(0, counted)  # the counter was cleared: what came before is not known
    owed = life.owed if now - life.owed_since <= OWED_SECONDS else 0
    paid = min(owed, counted)
    new = max(fell, counted - paid)
    falls = tuple((at, count) for at, count in life.falls if at > now - DAY)
    outages = tuple(outage for outage in life.outages if outage.end > now - DAY)
    if new:
        falls = (*falls, (now, new))[-FALLS_KEPT:]
    if up and life.up is False:
        outages = (*outages, Outage(now, now - life.since))[-FALLS_KEPT:]
    owed_now = owed - paid + max(0, fell - (counted - paid))
    return replace(
        life,
        ever_up=life.ever_up or up is True,
        up=up,
        since=now if up != life.up else life.since,
        downed=life.downed if downed is None else downed,
        falls=falls,
        outages=outages,
        owed=owed_now,
        owed_since=now if owed_now > owed else life.owed_since,
    )


def ran(life: Life, now: float, rate: float | None) -> Life:
    """The link runs at `rate` bytes/s (None: unknown): keep the best of a week."""
    if rate is None:
        return life
    best = life.best_since(now)
    if best is None or rate > best or (rate == best and now - life.best_at > BEST_RENEWED):
        return replace(life, best=rate, best_at=now)
    return life


def dump(lives: Mapping[str, Life], to_wall: float) -> dict[str, Any]:
    """All of them, fit for JSON, times in Unix seconds (`to_wall` + monotonic)."""
    return {
        key: {
            "subject": life.subject,
            "role": life.role,
            "ever_up": life.ever_up,
            "born": None if life.born == float("-inf") else round(life.born + to_wall, 1),
            "up": life.up,
            "since": round(life.since + to_wall, 1),
            "downed": life.downed,
            "best": [life.best, round(life.best_at + to_wall, 1)],
            "falls": [[round(at + to_wall, 1), count] for at, count in life.falls],
            "outages": [[round(outage.end + to_wall, 1), round(outage.seconds, 1)] for outage in life.outages],
        }
        for key, life in lives.items()
    }


def load(content: Mapping[str, Any], now: float, to_wall: float, same_boot: bool) -> dict[str, Life]:
    """What an earlier process dumped. After a reboot a link that is down did not fall, and counters begin anew.

    What lies in the future (the clock was set back) is left out: it would be a fall of this moment. Raises
    ValueError and kin where the content is not that.
    """
    lives = {}
    for key, entry in content.items():
        since = min(now, float(entry["since"]) - to_wall)
        best, best_at = entry["best"]
        up = entry["up"] if entry["up"] in (True, False) and same_boot else None
        lives[str(key)] = Life(
            subject=str(entry["subject"]),
            role=str(entry["role"]),
            ever_up=entry["ever_up"] is True,
            born=float("-inf") if entry.get("born") is None else min(now, float(entry["born"]) - to_wall),
            up=up,
            since=since if same_boot or entry["up"] is None else now,
            downed=_count(entry["downed"]) if entry["downed"] is not None and same_boot else None,
            falls=tuple(
                (float(at) - to_wall, _count(count)) for at, count in entry["falls"] if float(at) - to_wall <= now
            )[-FALLS_KEPT:],
            outages=tuple(
                Outage(float(end) - to_wall, float(seconds))
                for end, seconds in entry["outages"]
                if float(end) - to_wall <= now
            )[-FALLS_KEPT:],
            best=None if best is None else float(best),
            best_at=min(now, float(best_at) - to_wall),
        )
    return lives


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is no count")
    return value


def forgotten(life: Life, now: float) -> bool:
    """Whether a link has been gone for so long that nobody waits for it."""
    return life.up is None and now - life.since > FORGOTTEN_AFTER
