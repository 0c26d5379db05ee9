"""RDMA as programs see it: whether devices open, and the MTU they get. From libibverbs, by pyverbs; else not there."""

from collections.abc import Iterator

from exporter.checks.base import Report
from exporter.checks.port_labels import PortLabels
from exporter.checks.roce import DeviceLabels
from exporter.hardware.base import VerbsSource
from exporter.metrics import NoLabels, Sample, gauge
from exporter.model_verbs import VerbsReading

USABLE = gauge(
    "nic_user_space_usable",
    "1 if this daemon's user could open the device as programs do (provider, device node, permission), else 0. "
    "From ibv_open_device.",
    DeviceLabels,
)
MTU = gauge(
    "port_active_mtu_bytes",
    "Path MTU of the port: for RoCE what the netdev's MTU leaves room for, 256 to 4096. From ibv_query_port.",
    PortLabels,
)
EXCLUSIVE = gauge(
    "rdma_namespaces_exclusive",
    "1 if an RDMA device belongs to one network namespace and is seen in no other, 0 if all share them. From "
    "ib_core's netns_mode.",
    NoLabels,
)


class VerbsCheck:
    """Asks user-space RDMA."""

    def __init__(self, source: VerbsSource) -> None:
        self._source = source

    def run(self, now: float) -> Report:  # noqa: ARG002 - nothing is a rate
        """See checks.base.Check."""
        reading = self._source.read()
        return Report(tuple(_samples(reading)))


def _samples(reading: VerbsReading) -> Iterator[Sample]:
    for device in reading.devices:
        yield USABLE(DeviceLabels(device.name), int(not device.error))
        for number, port in device.ports.items():
            if port.active_mtu is not None:
                yield MTU(PortLabels(device.name, str(number)), port.active_mtu)
    if reading.exclusive is not None:
        yield EXCLUSIVE(NoLabels(), int(reading.exclusive))
