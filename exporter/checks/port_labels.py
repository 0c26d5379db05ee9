"""The labels of the ports' metrics."""

from typing import NamedTuple


class PortLabels(NamedTuple):
    """A port."""

    device: str
    port: str


class RailLabels(NamedTuple):
    """A port, with what people join for; `rail` is empty unless the role is compute."""

    device: str
    port: str
    role: str
    rail: str


class InfoLabels(NamedTuple):
    """What stands still about a port; empty where unknown."""

    device: str
    port: str
    link_layer: str
    driver: str
    netdev: str
    pci_address: str
    numa_node: str
    board_id: str
    hca_type: str
    firmware_version: str
    node_guid: str
    gpu: str
    cage: str
    leaf: str
    virtual: str


class CounterLabels(NamedTuple):
    """A counter of a port, by its sysfs file name."""

    device: str
    port: str
    counter: str


class FlapLabels(NamedTuple):
    """A port, and how far back: 10m or 24h."""

    device: str
    port: str
    window: str


class VendorLabels(NamedTuple):
    """A counter file outside the table: its directory and name."""

    device: str
    port: str
    group: str
    counter: str
