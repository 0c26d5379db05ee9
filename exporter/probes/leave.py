"""Whether a round may go on: asked before each launch, for a node that was free before the last may be in use now."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from exporter.probes.gate import Refusal, Situation, idle
from exporter.probes.launch import Stop
from exporter.probes.pause import Pause

if TYPE_CHECKING:
    from exporter.probes.prober import Means, Settings

FRESH_SECONDS = 3.0
"""A look at the node that is this young still holds for the next launch."""
DEADLINE = "deadline"
"""As Stop.reason: the time for this round is over."""
STOPPED = "stopped"
"""The round was told to end, or its time is over: nothing that holds a probe off, so it is not counted as such."""


@dataclass(slots=True)
class Leave:
    """Of one round: `until` by means.clock, `situation` as the last look has it."""

    settings: "Settings"
    means: "Means"
    stop: Stop
    until: float | None
    by_hand: bool
    pause: Pause
    situation: Situation = Situation()  # noqa: RUF009 - frozen
    _looked: float | None = None

    def refused(self) -> Sequence[Refusal]:
        """What is against a launch now; a look that is no longer fresh is taken anew."""
        if ended := self.ended():
            return ended
        if self._looked is None or self.means.clock() - self._looked > FRESH_SECONDS:
            self.situation = self.means.survey.idle(lambda: self.stop.reason, self.until)
            self._looked = self.means.clock()
            # a look that ran out of time proves no idleness, but what it has seen, or waited for in vain, is said
            if self.stop.reason in ("", DEADLINE) and (busy := list(idle(self.situation, self.settings.limits))):
                return busy
            if ended := self.ended():
                return ended
        return self.unwanted()

    def ended(self) -> Sequence[Refusal]:
        """Whether the round was stopped, or has no time left."""
        if not self.stop.reason and (self.until is None or self.means.clock() < self.until):
            return ()
        return (Refusal(STOPPED, self.stop.reason or "no time left"),)

    def unwanted(self) -> Sequence[Refusal]:
        """What an operator may have said since the round began: it holds for what runs, too."""
        now = self.means.wall()
        paused = [Refusal("paused", self.pause.trouble)] if self.pause.holds(now) else []
        quiet = not self.by_hand and any(window.holds(now) for window in self.settings.quiet)
        return [*paused, *([Refusal("quiet")] if quiet else [])]
