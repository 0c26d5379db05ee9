"""What a port's own counter says of a loopback: only one that counts and has not moved is evidence."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from exporter.model import Device, Port, Ports
from exporter.probes.evidence import Reading, Witness, between, left_the_machine
from exporter.probes.launch import Stop
from tests.probes.lab import Gpus2, Host, Lab

PORT, SENT = "mlx5_0/1", "transmit_bytes"
MOVED = 2 * 10**9
STUCK = (2**32 - 1) * 4


@dataclass
class Readings:
    """Ports whose sender says these bytes, one after the other; `None`: it says none."""

    said: Sequence[int | None]
    saturated: tuple[str, ...] = ()
    driver: str = "mlx5_core"
    reads: int = 0

    def read(self) -> Ports:
        """See hardware.base.PortSource."""
        value = self.said[min(self.reads, len(self.said) - 1)]
        self.reads += 1
        counters = {} if value is None else {SENT: value}
        port = Port(Device("mlx5_0", self.driver, ""), 1, state=4, counters=counters, saturated=self.saturated)
        return Ports((port,))


def readings(source: Readings) -> tuple[Reading, Reading]:
    """Two, before and after."""
    witness = Witness(source, Gpus2(), Host(), Path("/nonexistent"))
    return witness.read(), witness.read()


@pytest.mark.parametrize(
    ("before", "after", "moved", "left"),
    [
        (10**12, 10**12 + MOVED, MOVED, True),
        (10**12, 10**12 + MOVED // 2, MOVED, True),
        (10**12, 10**12 + MOVED // 3, MOVED, False),
        (10**12, 10**12, MOVED, False),
        (0, 0, MOVED, False),
        (None, 10**12, MOVED, True),
        (10**12, None, MOVED, True),
        (None, None, MOVED, True),
        # it began anew, or a register of 32 bits came round
        (10**12, 5000, MOVED, True),
        (2**32 - 100, 2**32 + MOVED - 100 - 2**32, MOVED, True),
        # it may have come round once and more, and say little
        (1000, 5000, 2**32, True),
        (2**33, 2**33 + 5000, 2**34, True),
        # it has counted more than such a register can: it did not
        (2**35, 2**35 + 5000, 2**34, False),
        (2**33, 2**33 + 5000, 2**32, False),
    ],
)
def test_only_a_counter_that_could_have_told_is_evidence(
    before: int | None, after: int | None, moved: int, left: bool
) -> None:
    first, second = readings(Readings((before, after)))
    assert left_the_machine(first, second, PORT, moved) is left


@pytest.mark.parametrize(("before", "after"), [(STUCK, STUCK), (STUCK - 4000, STUCK)])
def test_a_counter_at_its_ceiling_is_none(before: int, after: int) -> None:
    first, second = readings(Readings((before, after), saturated=("port_xmit_data",)))
    assert left_the_machine(first, second, PORT, MOVED)
    second = replace(second, stuck={})
    assert left_the_machine(first, second, PORT, MOVED), "nor one that has left it meanwhile"
    assert not left_the_machine(replace(first, stuck={}), second, PORT, MOVED)


def test_a_ceiling_of_another_counter_says_nothing_of_this_one() -> None:
    first, second = readings(Readings((10**12, 10**12), saturated=("port_xmit_wait", "symbol_error", "no_such_file")))
    assert not left_the_machine(first, second, PORT, MOVED)


def test_a_port_that_is_not_there_is_none() -> None:
    assert left_the_machine(Reading(), Reading(), PORT, MOVED)


def test_a_register_that_is_known_to_come_round_is_counted_on() -> None:
    before = Reading({PORT: {SENT: 2**32 - 100}}, {PORT: {SENT: 2**32}})
    after = Reading({PORT: {SENT: 900}}, {PORT: {SENT: 2**32}})
    assert between(before, after)["counters"] == {PORT: {SENT: 1000}}
    assert not left_the_machine(before, after, PORT, MOVED)
    assert left_the_machine(before, after, PORT, 1500)
    assert left_the_machine(before, after, PORT, 2**32), "or it came round twice"


def test_a_saturated_port_has_results_all_the_same() -> None:
    lab, stop = Lab(), Stop()
    lab.ports.step = 0
    read = lab.ports.read

    def saturated() -> Ports:
        return Ports(tuple(replace(port, saturated=("port_xmit_data",)) for port in read().ports))

    lab.ports.read = saturated  # type: ignore[method-assign]  # the same ports, at their ceiling
    (record,) = lab.prober().round(stop, ("loopback",)).records
    stop.close()
    assert (record["result"], len(record["flows"])) == ("ok", 3)
