"""Bursts of the compute ports: how busy they were in samples of a tenth of a second. Off unless asked for."""

from collections.abc import Callable, Iterator, Sequence

from exporter.checks.base import Report
from exporter.checks.port_labels import PortLabels
from exporter.hardware.base import BurstSource
from exporter.metrics import Distribution, Sample, gauge, histogram
from exporter.model import BURST_BOUNDS, BurstReading, Device, Role
from exporter.rails import Memory, NicRule, first_match

_SOURCE = "From the byte counters, read in a thread of their own"
RECEIVE = histogram(
    "port_receive_utilization_ratio", f"Share of the rate received in each sample. {_SOURCE}.", PortLabels, BURST_BOUNDS
)
TRANSMIT = histogram(
    "port_transmit_utilization_ratio",
    f"Share of the rate transmitted in each sample. {_SOURCE}.",
    PortLabels,
    BURST_BOUNDS,
)
RECEIVE_PEAK = gauge(
    "port_receive_peak_bytes_per_second", f"Busiest sample since the check's previous run. {_SOURCE}.", PortLabels
)
TRANSMIT_PEAK = gauge(
    "port_transmit_peak_bytes_per_second", f"Busiest sample since the check's previous run. {_SOURCE}.", PortLabels
)
INTERVAL = gauge(
    "port_burst_interval_seconds",
    "How far apart the last two samples were: longer than asked for where reads are slow, since reads take at most "
    "1 % of the time.",
    PortLabels,
)


class BurstCheck:
    """Reads what was sampled. `recall` gives the remembered role of each port, `rules` the operator's word on it."""

    def __init__(self, source: BurstSource, rules: Sequence[NicRule], recall: Callable[[], Memory]) -> None:
        self._source = source
        self._rules = rules
        self._recall = recall

    def run(self, now: float) -> Report:  # noqa: ARG002 - the sampler has a clock of its own
        """See checks.base.Check."""
        memory = self._recall()
        readings = self._source.read(lambda device, number: compute(device, number, self._rules, memory))
        return Report(tuple(sample for reading in readings for sample in _samples(reading)))


def compute(device: Device, number: int, rules: Sequence[NicRule], memory: Memory) -> bool:
    """Whether the port carries East-West traffic, as far as is known."""
    rule = first_match(rules, device.name)
    if rule is not None:
        return rule.role is Role.COMPUTE
    known = memory.get(f"{device.pci_address or device.name}/{number}")
    return known is not None and known.role is Role.COMPUTE


def _samples(reading: BurstReading) -> Iterator[Sample]:
    labels = PortLabels(reading.device, str(reading.number))
    for direction, shares, peak in (
        (reading.receive, RECEIVE, RECEIVE_PEAK),
        (reading.transmit, TRANSMIT, TRANSMIT_PEAK),
    ):
        if any(direction.counts):
            yield shares(labels, Distribution(direction.counts, direction.total))
        if direction.peak is not None:
            yield peak(labels, direction.peak)
    if reading.interval is not None:
        yield INTERVAL(labels, reading.interval)
