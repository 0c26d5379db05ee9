"""Every text the kernel writes, and texts it never should."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.hardware import parse

PER_LANE = {
    "SDR": 2.5, "DDR": 5, "QDR": 10, "FDR10": 10, "FDR": 14, "EDR": 25, "HDR": 50, "NDR": 100, "XDR": 200,
}  # fmt: skip
WIDTHS = (1, 2, 4, 8, 12)


@pytest.mark.parametrize(("width", "name"), list(product(WIDTHS, PER_LANE)))
def test_every_rate_the_kernel_can_print(width: int, name: str) -> None:
    gigabits = width * PER_LANE[name]
    assert parse.rate(f"{gigabits:g} Gb/sec ({width}X {name})\n".encode()) == parse.Rate(
        gigabits * 1e9 / 8, width, name
    )


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"0 GB/sec\n", parse.Rate(None, None, "")),
        (b"10 Gb/sec (4X)\n", parse.Rate(1.25e9, 4, "")),
        (b"2.5 Gb/sec (1X SDR)\n\n", parse.Rate(0.3125e9, 1, "SDR")),
        (b"800 Gb/sec (4X XDR)\n", parse.Rate(100e9, 4, "XDR")),
        (b"800 Gb/sec (8X NDR)\n", parse.Rate(100e9, 8, "NDR")),
        (b"3200 Gb/sec (8X ZDR2)\n", parse.Rate(400e9, 8, "ZDR2")),
        (b"400 Gb/sec", parse.Rate(50e9, None, "")),
        (b"", None),
        (b"fast\n", None),
        (b"-1 Gb/sec (4X NDR)\n", None),
        (b"4e2 Gb/sec (4X NDR)\n", None),
        (b"400 Gb/sec (4X NDR) and more\n", parse.Rate(50e9, 4, "NDR")),
        (b"800 Gb/sec (4X XDR-plus)\n", parse.Rate(100e9, None, "")),
        (b"800 Gb/sec (4X XDR)+2\n", parse.Rate(100e9, None, "")),
        (b"800 Gb/sec [4X]\nplanes 4\n", parse.Rate(100e9, None, "")),
        (b"800 Gb/sec \xff\x00\n", parse.Rate(100e9, None, "")),
        (b"  400 Gb/sec (4X NDR) \n\n", parse.Rate(50e9, 4, "NDR")),
        (b"400 Gb/second\n", None),
        (b"400Gb/sec (4X NDR)\n", None),
        (b"400 Mb/sec (4X NDR)\n", None),
        (b"400. Gb/sec\n", None),
        (b"nan Gb/sec\n", None),
        ("\u0664\u0660\u0660 Gb/sec (4X NDR)\n".encode(), None),
        (b"99999999999999999999 Gb/sec (4X NDR)\n", None),
        (b"\xff\xfe", None),
    ],
)
def test_rates_that_are_seen_and_rates_that_are_none(raw: bytes, expected: parse.Rate | None) -> None:
    assert parse.rate(raw) == expected


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"0\n", 0),
        (b"4294967295\n\n", 4294967295),
        (b"  17  \n", 17),
        (b"18446744073709551615\n", 2**64 - 1),
        (b"18446744073709551616\n", None),
        (b"N/A (no PMA)\n", None),
        (b"1_000\n", None),
        ("\u0663\u0664".encode(), None),
        (b"-5\n", None),
        (b"+5\n", None),
        (b"1.0\n", None),
        (b"0x10\n", None),
        (b"12 13\n", None),
        (b"7\x00\n", None),
        (b"", None),
        (b"9" * 4096, None),
    ],
)
def test_a_counter_is_decimal_digits_of_64_bits(raw: bytes, expected: int | None) -> None:
    assert parse.number(raw) == expected


@pytest.mark.parametrize(
    ("raw", "expected"),
    [(b"4: ACTIVE\n", 4), (b"1: DOWN\n", 1), (b"7: Phy Test\n", 7), (b"9: <unknown>\n", 9), (b"ACTIVE\n", None),
     (b"", None), (b"4\n", None), (b": ACTIVE\n", None), (b"99999: X\n", None)],
)  # fmt: skip
def test_states_are_their_number(raw: bytes, expected: int | None) -> None:
    assert parse.state(raw) == expected


@pytest.mark.parametrize(
    ("raw", "expected"),
    [(b"400000\n", 50e9), (b"1000\n", 125e6), (b"-1\n", None), (b"0\n", None), (b"4294967295\n", None), (b"", None)],
)
def test_netdev_speed_minus_one_is_unknown(raw: bytes, expected: float | None) -> None:
    assert parse.netdev_rate(raw) == expected


def test_uevent_gives_the_driver_of_its_own_line_only() -> None:
    raw = b"MODALIAS=pci:x\nDRIVER=mlx5_core\nPCI_ID=15B3:1021\n"
    assert (parse.uevent(raw, "DRIVER"), parse.uevent(raw, "ID"), parse.uevent(b"\xff=", "DRIVER")) == (
        "mlx5_core",
        "",
        "",
    )


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/sys/devices/pci0000:16/0000:16:01.0/0000:18:00.0", "0000:18:00.0"),
        ("/sys/devices/pci0000:16/0000:16:01.0/0000:18:00.0/mlx5_core.rdma.0", "0000:18:00.0"),
        ("/sys/devices/pci10000:00/10000:01:00.1", "10000:01:00.1"),
        ("/sys/devices/virtual/infiniband/rxe0", ""),
    ],
)
def test_pci_address_is_the_last_function_on_the_path(path: str, expected: str) -> None:
    assert parse.pci_address(path) == expected


def test_default_routes_and_no_others() -> None:
    ipv4 = (
        b"Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
        b"eth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
        b"gpu0\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
        b"gpu1\t00000000\t00000000\t0001\t0\t0\t0\t00000080\t0\t0\t0\nshort\n"
    )
    zero = b"0" * 32
    ipv6 = b"\n".join(
        b" ".join((destination, length, zero, b"00", zero, b"0", b"0", b"0", b"0", netdev))
        for destination, length, netdev in ((zero, b"00", b"bond0"), (zero, b"00", b"lo"), (zero, b"40", b"gpu2"))
    )
    assert parse.route_netdevs(ipv4) == {"eth0"}
    assert parse.route6_netdevs(ipv6) == {"bond0"}


@given(st.binary(max_size=200))
def test_no_bytes_crash_a_parser_or_give_a_number_that_is_not_there(raw: bytes) -> None:
    value = parse.number(raw)
    assert value is None or str(value) == (raw.strip().lstrip(b"0") or b"0").decode("ascii")
    rate = parse.rate(raw)
    assert rate is None or rate.bytes_per_second is None or rate.bytes_per_second > 0
    state = parse.state(raw)
    assert state is None or str(state).encode() in raw
    assert parse.text(raw).isprintable()
    assert len(parse.text(raw)) <= 128
    parse.uevent(raw, "DRIVER")
    parse.route_netdevs(raw)
    parse.route6_netdevs(raw)
    netdev = parse.netdev_rate(raw)
    assert netdev is None or netdev > 0
