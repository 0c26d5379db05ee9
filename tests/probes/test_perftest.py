"""What perftest prints, in each form that is known."""

import pytest

from exporter.probes.engines.perftest import Measured, fault, read

HEAD = " #bytes     #iterations    BW peak[{unit}]    BW average[{unit}]   MsgRate[Mpps]\n"
LINE = "-" * 88 + "\n"
TABLE = LINE + HEAD + " 65536      5000             391.50             391.46                    0.746644\n" + LINE
LATENCY = (
    " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]"
    "   99% percentile[usec]   99.9% percentile[usec] \n"
    " 8       1000          1.74           9.05         1.77     \t       1.78 \t0.05 \t\t1.90 \t\t9.05   \n"
)
REAL = """{
"test_info": {"test": "RDMA_Write_BW_Test", "Device": "mlx5_0", "Mtu": 4096},
"results": {"MsgSize": 65536, "n_iterations": 5000, "BW_peak": 391.5, "BW_average": 391.46, "MsgRate": 0.746644}
}"""
BROKEN = """{
test_info: {
test: RDMA_Write_BW_Test,
Dual_port: OFF,
Device: "mlx5_0",
},
results: {
MsgSize: 65536,
n_iterations: 5000,
BW_peak: 391.50,
BW_average: 391.46,
MsgRate: 0.746644,
}
},
"""
BROKEN_LATENCY = (
    "{\nresults: {\nMsgSize: 8,\nn_iterations: 1000,\nt_min: 1.74,\nt_typical: 1.77,\npercentile_99.9: 9.05,\n}\n}\n"
)
GBIT = 1e9 / 8
EXPECTED = Measured(65536, 5000, 391.46 * GBIT, 391.5 * GBIT)


@pytest.mark.parametrize("output", [TABLE.format(unit="Gb/sec"), REAL, BROKEN])
def test_gigabits(output: str) -> None:
    assert read(output, "Gb/sec") == EXPECTED


@pytest.mark.parametrize("unit", ["MB/sec", "MiB/sec"])
def test_what_is_called_megabytes_is_mebibytes(unit: str) -> None:
    found = read(TABLE.format(unit=unit), "Gb/sec")
    assert found is not None
    assert found.bandwidth == 391.46 * 2**20


def test_json_has_the_unit_that_was_asked_for() -> None:
    found = read(REAL, "MiB/sec")
    assert found is not None
    assert found.bandwidth == 391.46 * 2**20


@pytest.mark.parametrize("output", [LATENCY, BROKEN_LATENCY])
def test_latency_is_microseconds_one_way(output: str) -> None:
    assert read(output, "Gb/sec") == Measured(8, 1000, latency=1.77e-6)


def test_the_table_of_a_timed_latency_run() -> None:
    output = " #bytes   #iterations   t_avg[usec]    tps average\n 8     561234     2.00     526315.79\n"
    assert read(output, "Gb/sec") == Measured(8, 561234, latency=2e-6)


def test_a_column_more_does_not_shift_the_others() -> None:
    output = (
        " #bytes    sl    #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
        " 65536    3           5000           391.50            391.46                  0.746644\n"
    )
    assert read(output, "Gb/sec") == EXPECTED


def test_of_several_sizes_the_last() -> None:
    output = HEAD.format(unit="Gb/sec") + " 2  5000 0.10 0.09 1.0\n 65536 5000 391.50 391.46 0.7\n"
    assert read(output, "Gb/sec") == EXPECTED


@pytest.mark.parametrize(
    "output",
    [
        "",
        HEAD.format(unit="Gb/sec"),
        HEAD.format(unit="Gb/sec") + " 65536 5000 0.00 0.00 0.0\n",
        HEAD.format(unit="furlongs") + " 65536 5000 1 1 1\n",
        "{",
        '{"results": []}',
        "results: { MsgSize: many }",
        HEAD.format(unit="Gb/sec") + " 65536 5000 nan nan nan\n",
    ],
)
def test_no_number_is_none_and_never_zero(output: str) -> None:
    found = read(output, "Gb/sec")
    assert found is None or found.bandwidth is None


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("Couldn't allocate MR\n", "memlock"),
        (" Unable to find the Infiniband/RoCE device\n", "no_device"),
        (" Couldn't connect to 127.0.0.1:18515\n", "no_peer"),
        (" Completion with error at client\n Failed status 12: wr_id 0 syndrom 0x81\n", "retry_exceeded"),
        (" Failed status-transport retry counter exceeded (12): wr_id 0 syndrom 0x81\n", "retry_exceeded"),
        ("Found Incompatibility issue with GID types.\n", "wrong_gid"),
        ("something else\n", "perftest_failed"),
        ("", "perftest_failed"),
    ],
)
def test_why_it_failed(output: str, reason: str) -> None:
    assert fault(output)[0] == reason
