"""The ethtool decoder on the structures that the kernel fills: made by hand, hostile, and the kernel's own."""

import ctypes
import errno
import os
import struct
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.hardware.ethtool import GET_SET_INFO, GET_STRINGS, ChangingError, Ethtool, KernelEthtool
from exporter.hardware.nic_counters import nic_table
from exporter.hardware.simulated_ethtool import Row, answer

CLONE_NEWNET = 0x40000000


@dataclass
class Netdev:
    """One netdev whose rows a test changes; `swap` are the rows after so many more requests for names."""

    rows: Sequence[Row]
    swaps: list[Sequence[Row]] = field(default_factory=list)

    def ioctl(self, _netdev: str, request: bytearray) -> None:
        """See hardware.base.EthtoolSource."""
        if struct.unpack_from("=I", request)[0] == GET_STRINGS and self.swaps:
            self.rows = self.swaps.pop(0)
        answer(request, "x", "0000:18:00.0", self.rows, 0.0)


WANTED = {"a": 1, "b": 1}


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([("a", 1), ("x", 7), ("b", 1 << 63)], {"a": 1, "b": 1 << 63}),
        ([("b ", 5)], {"b": 5}),
        ([("a", 1), ("a", 2)], {"a": 1}),
        ([("x", 1)], {}),
        ([], {}),
        ([("é" * 16, 1), ("", 2), ("a", 3)], {"a": 3}),
    ],
    ids=["named", "padded with a blank", "repeated", "unknown", "none", "hostile"],
)
def test_values_by_name(rows: list[Row], expected: dict[str, int]) -> None:
    decoder = Ethtool(Netdev(rows))
    assert decoder.statistics("eth0", WANTED) == expected
    assert decoder.statistics("eth0", WANTED) == expected


def test_names_that_change_at_the_same_count_never_mix() -> None:
    netdev = Netdev([("a", 1), ("x", 2)])
    decoder = Ethtool(netdev)
    assert decoder.statistics("eth0", WANTED) == {"a": 1}
    netdev.rows = [("x", 9), ("b", 4)]
    assert decoder.statistics("eth0", WANTED) == {"b": 4}


def test_names_that_never_settle_are_an_error_and_not_a_guess() -> None:
    flip: list[Sequence[Row]] = [[("a", 1)], [("b", 1)]] * 4
    with pytest.raises(ChangingError):
        Ethtool(Netdev([("x", 0)], flip)).statistics("eth0", WANTED)


@given(st.binary(max_size=600), st.integers(0, (1 << 32) - 1), st.integers(0, (1 << 32) - 1))
def test_any_answer_gives_values_or_an_oserror(noise: bytes, mask: int, count: int) -> None:
    class Hostile:
        def ioctl(self, _netdev: str, request: bytearray) -> None:
            if struct.unpack_from("=I", request)[0] == GET_SET_INFO:
                struct.pack_into("=QI", request, 8, mask, count % 5000)
            else:
                size = min(len(noise), len(request) - 4)
                request[4 : 4 + size] = noise[:size]

    try:
        found = Ethtool(Hostile()).statistics("eth0", WANTED)
    except OSError:
        return
    assert all(0 <= value < 1 << 64 for value in found.values())


def test_kernel_says_nothing_of_loopback() -> None:
    decoder = Ethtool(KernelEthtool())
    assert decoder.statistics("lo", WANTED) == {}


@pytest.mark.parametrize("name", ["no-such-dev0", "", "x" * 16, "a\0b", "../lo"])
def test_a_netdev_that_is_not_there_is_enodev(name: str) -> None:
    with pytest.raises(OSError) as caught:  # noqa: PT011 - the errno is what is looked at
        Ethtool(KernelEthtool()).statistics(name, WANTED)
    assert caught.value.errno == errno.ENODEV


def test_kernel_counts_of_a_veth_pair() -> None:
    """A thread in a network namespace of its own: the process' namespace is left alone."""
    if os.geteuid() != 0:
        pytest.skip("a network namespace of one's own needs root")
    found: list[object] = []

    def inside() -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(CLONE_NEWNET) != 0:
            found.append(f"unshare: {os.strerror(ctypes.get_errno())}")
            return
        try:
            made = subprocess.run(
                ["ip", "link", "add", "veth0", "type", "veth", "peer", "name", "veth1"],
                capture_output=True,
                check=False,
            )
        except FileNotFoundError:
            found.append("no ip command")
            return
        if made.returncode:
            found.append(made.stderr.decode())
            return
        decoder = Ethtool(KernelEthtool())
        found.append(decoder.statistics("veth0", {"peer_ifindex": 1, "no_such_name": 1}))

    thread = threading.Thread(target=inside)
    thread.start()
    thread.join(10)
    if isinstance(found[0], str):
        pytest.skip(found[0])
    assert isinstance(found[0], dict)
    assert found[0].keys() == {"peer_ifindex"}
    assert found[0]["peer_ifindex"] > 0


def test_no_unknown_driver_has_a_table() -> None:
    assert nic_table("veth") is None
