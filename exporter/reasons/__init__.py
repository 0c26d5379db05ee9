"""Every reason a finding can have: a closed list, from which docs/findings.md is made. Standard library only."""

from collections.abc import Mapping

from exporter.reasons.base import Reason
from exporter.reasons.gpus import GPUS
from exporter.reasons.ports import PORTS
from exporter.reasons.probes import PROBES
from exporter.reasons.traffic import TRAFFIC

__all__ = ["GPUS", "PORTS", "PROBES", "REASONS", "TRAFFIC", "Reason"]

REASONS: Mapping[str, Reason] = {reason.name: reason for reason in (*PORTS, *TRAFFIC, *GPUS, *PROBES)}
