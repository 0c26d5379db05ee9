"""What a finding's reason is: an entry of a closed list, with all that docs/findings.md says of it."""

from dataclasses import dataclass

from exporter.model import Severity


@dataclass(frozen=True, slots=True)
class Reason:
    """One kind of finding.

    `severity` is the worst that it is given (a storage port gets less, see exporter/judge). `delay` is how long
    it must last before it is raised, `hold` how long it must be gone before it is cleared; seconds. The texts are
    sentences: `meaning`; `computation` (with the metric or file it rests on); `threshold` with its source;
    `not_evidence` of what it must not be read as; `action`, what to do next.
    """

    name: str
    severity: Severity
    meaning: str
    computation: str
    threshold: str
    not_evidence: str
    action: str
    delay: float = 0.0
    hold: float = 0.0
