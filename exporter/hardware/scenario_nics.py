"""The NICs of simulated nodes."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Nic:
    """One device with one port. `rate` is the text of ports/1/rate, `load` the mean utilisation.

    `pcie` is what the PCIe link can do (speed and lanes) and `pcie_now` what it trained, where that is less;
    `module` the transceiver's temperature in Celsius.
    """

    device: str
    pci: str
    netdev: str = ""
    driver: str = "mlx5_core"
    hca_type: str = "MT4129"
    board_id: str = "MT_0000000838"
    firmware: str = "28.41.1000"
    link_layer: str = "InfiniBand"
    rate: str = "400 Gb/sec (4X NDR)"
    speed: int = 400_000
    load: float = 0.35
    pma: bool = True
    numa: int = 0
    pcie: tuple[str, int] | None = ("32.0 GT/s PCIe", 16)
    pcie_now: tuple[str, int] | None = None
    module: float | None = 47.25


COMPUTE = ("mlx5_0", "mlx5_3", "mlx5_4", "mlx5_5", "mlx5_6", "mlx5_9", "mlx5_10", "mlx5_11")
"""The compute devices of a DGX H100, in rail order: a rail is not the number in the name."""
_SLOTS = ("18", "40", "4f", "5e", "9a", "c0", "ce", "dc")


def dgx() -> tuple[Nic, ...]:
    """The eleven NICs of a DGX H100."""
    compute = tuple(
        Nic(device, f"0000:{slot}:00.0", f"ibp{int(slot, 16)}s0", numa=int(slot > "80"))
        for device, slot in zip(COMPUTE, _SLOTS, strict=True)
    )
    storage = replace(compute[0], board_id="MT_0000000892", load=0.04, numa=0)
    return (
        *compute,
        replace(storage, device="mlx5_1", pci="0000:29:00.0", netdev="ibp41s0"),
        replace(storage, device="mlx5_7", pci="0000:aa:00.0", netdev="ibp170s0", numa=1),
        replace(
            storage,
            device="mlx5_2",
            pci="0000:29:00.1",
            netdev="enp41s0f1np1",
            link_layer="Ethernet",
            rate="100 Gb/sec (4X EDR)",
            speed=100_000,
            load=0.01,
        ),
    )


def held_back(load: float) -> tuple[Nic, ...]:
    """In synchronous training every rail moves what the slowest can: a quarter of a rail's rate at its peak."""
    return tuple(replace(nic, load=min(nic.load, load)) for nic in dgx())


def roce() -> tuple[Nic, ...]:
    """The same with its compute ports on Ethernet."""
    return tuple(
        replace(nic, link_layer="Ethernet", netdev=f"gpu{rail}rdma0") if rail < len(COMPUTE) else nic
        for rail, nic in enumerate(dgx())
    )


def efa() -> tuple[Nic, ...]:
    """Eight EFA devices of a cloud node."""
    return tuple(
        Nic(
            f"rdmap{bus}s{slot}",
            f"0000:{bus:02x}:{slot:02x}.0",
            driver="efa",
            hca_type="",
            board_id="",
            firmware="",
            link_layer="Unknown",
            rate="100 Gb/sec (4X EDR)",
            pma=False,
            pcie=None,
            module=None,
            load=0.5,
        )
        for bus in (79, 96, 113, 130)
        for slot in (27, 28)
    )


def limited() -> tuple[Nic, ...]:
    """A DGX with four bridges that belong to the Fabric Manager."""
    bridges = tuple(
        Nic(f"mlx5_{12 + index}", f"0000:05:00.{index}", board_id="MT_0000001119", load=0.0) for index in range(4)
    )
    return (*dgx(), *bridges)


def no_pma() -> tuple[Nic, ...]:
    """A DGX with an old iWARP device that has no PMA."""
    iwarp = Nic(
        "i40iw0",
        "0000:1a:00.0",
        "eno1",
        driver="i40iw",
        hca_type="I40IW",
        board_id="",
        firmware="0.2",
        link_layer="Ethernet",
        rate="10 Gb/sec (4X SDR)",
        speed=10_000,
        load=0.0,
        pcie=("8.0 GT/s PCIe", 8),
        module=None,
    )
    return (*dgx(), iwarp)


def downgraded(device: str) -> tuple[Nic, ...]:
    """A PCIe link that trained half its lanes feeds a 400 Gbit/s port with 252 Gbit/s."""
    return tuple(replace(nic, pcie_now=("32.0 GT/s PCIe", 8)) if nic.device == device else nic for nic in dgx())
