"""What fails beside what works: public bug reports of tools that lost a whole node over one file."""

import errno
import os
import shutil
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from exporter.board import CheckView, Outcome, Snapshot, Timing
from exporter.checks.infiniband import InfinibandCheck, Settings
from exporter.exposition import Exposition
from exporter.hardware.files import Files
from exporter.hardware.portmap import PortMap
from exporter.hardware.refusals import RETRY_SECONDS
from exporter.hardware.selection import Selection
from exporter.model import Port, SourceError, Unavailable
from tests.trees import ACTIVE, COUNTERS, HEALTHY, Clock, Recorder, by_subject, plant, put, reader

LO_SPEED = Path("/sys/class/net/lo/speed")
PMA = "ports/1/counters/"


def answers_einval(path: Path) -> bool:
    try:
        path.read_bytes()
    except OSError as error:
        return error.errno == errno.EINVAL
    return False


def complete(port: Port) -> bool:
    return (port.state, port.rate, len(port.counters)) == (4, 50e9, 5)


def test_one_broken_device_of_each_kind_beside_healthy_ones(tmp_path: Path) -> None:
    if not answers_einval(LO_SPEED):
        pytest.skip(f"{LO_SPEED} does not answer EINVAL on this machine")
    refused = plant(
        tmp_path,
        {"mlx5_0": HEALTHY, "mlx5_1": HEALTHY, "mlx5_2": HEALTHY, "mlx5_3": HEALTHY, "mlx5_4": {"hca_type": "MT4129"}},
    )
    for file in sorted((refused / "mlx5_1").rglob("*")):
        if file.is_file() and "device" not in file.relative_to(refused / "mlx5_1").parts:
            file.unlink()
            file.symlink_to(LO_SPEED)
    (refused / "mlx5_8").symlink_to("../../nowhere/mlx5_8")
    put(refused / "mlx5_2" / PMA / "port_rcv_data", "N/A (no PMA)")
    (refused / "mlx5_3" / PMA / "symbol_error").unlink()
    (refused / "mlx5_3" / PMA / "symbol_error").mkdir()
    reading = reader(tmp_path).read()
    ports = by_subject(reading.ports)
    assert complete(ports["mlx5_0/1"])
    assert len(ports["mlx5_2/1"].counters) == len(ports["mlx5_3/1"].counters) == 4
    assert ports["mlx5_1/1"] == Port(ports["mlx5_1/1"].device, 1)
    reasons = Counter((fault.subject, fault.reason) for fault in reading.faults)
    assert reasons == {
        ("mlx5_1/1", "einval"): 5,  # state, phys_state, and three counters before it gives up
        ("mlx5_2/1", "not_a_number"): 1,
        ("mlx5_3/1", "eisdir"): 1,
        ("mlx5_4", "enoent"): 1,
        ("mlx5_8", "enoent"): 1,
    }


@pytest.mark.parametrize(
    "number", [errno.EINVAL, errno.EIO, errno.ENODEV, errno.EACCES, errno.ETIMEDOUT, errno.EOPNOTSUPP]
)
@pytest.mark.parametrize("file", ["state", "phys_state", "rate", "counters/port_xmit_data", "counters/link_downed"])
def test_an_errno_costs_its_own_value_only(tmp_path: Path, number: int, file: str) -> None:
    plant(tmp_path, {"mlx5_0": HEALTHY, "mlx5_1": HEALTHY})
    reading = reader(tmp_path, files=Recorder(errnos={f"mlx5_0/ports/1/{file}": number})).read()
    ports = by_subject(reading.ports)
    assert complete(ports["mlx5_1/1"])
    assert [(fault.subject, fault.reason) for fault in reading.faults] == [
        ("mlx5_0/1", errno.errorcode[number].lower())
    ]
    damaged = ports["mlx5_0/1"]
    assert [damaged.state, damaged.physical_state, damaged.rate, len(damaged.counters)] == {
        "state": [None, 5, None, 5],
        "phys_state": [4, None, 50e9, 5],
        "rate": [4, 5, None, 5],
        "counters/port_xmit_data": [4, 5, 50e9, 4],
        "counters/link_downed": [4, 5, 50e9, 4],
    }[file]


def test_no_class_folder_and_an_empty_one_are_no_hardware(tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        reader(tmp_path).read()
    plant(tmp_path, {})
    with pytest.raises(Unavailable):
        reader(tmp_path).read()


def test_a_class_folder_that_can_not_be_listed_is_an_error_of_the_source(tmp_path: Path) -> None:
    class Denied(Recorder):
        def names(self, path: str) -> list[str]:
            raise OSError(errno.EACCES, "Permission denied", path)

    with pytest.raises(SourceError) as caught:
        reader(tmp_path, files=Denied()).read()
    assert caught.value.reason == "eacces"


def test_a_port_that_refuses_every_counter_is_asked_three_times_and_then_hourly(tmp_path: Path) -> None:
    plant(tmp_path, {"mlx5_0": HEALTHY})
    files, clock = Recorder(), Clock()
    files.errnos = {f"counters/{name}": errno.EINVAL for name in ("port_rcv_data", "port_xmit_data", "port_rcv_packets",
                                                                 "symbol_error", "link_downed")}  # fmt: skip
    source = reader(tmp_path, files=files, clock=clock)

    def asked() -> int:
        files.reads.clear()
        source.read()
        return sum("/counters/" in path for path in files.reads)

    assert [asked() for _ in range(5)] == [3, 3, 3, 0, 0]
    clock.now += RETRY_SECONDS - 1
    assert asked() == 0
    clock.now += 2
    assert asked() == 3
    files.errnos = {}
    clock.now += RETRY_SECONDS + 1
    assert asked() == 5
    assert complete(source.read().ports[0])


def test_one_file_that_refuses_is_left_alone_and_the_rest_is_read(tmp_path: Path) -> None:
    plant(tmp_path, {"mlx5_0": HEALTHY})
    files = Recorder(errnos={"counters/link_downed": errno.EINVAL})
    source = reader(tmp_path, files=files)
    faults = [len(source.read().faults) for _ in range(5)]
    assert faults == [1, 1, 1, 0, 0]
    assert sum(path.endswith("link_downed") for path in files.reads) == 3
    assert len(source.read().ports[0].counters) == 4


def test_a_folder_of_counters_that_is_none_is_a_fault_and_the_port_stands(tmp_path: Path) -> None:
    base = plant(tmp_path, {"mlx5_0": ACTIVE, "mlx5_1": ACTIVE})
    put(base / "mlx5_0/ports/1/counters", "a file")
    (base / "mlx5_1/ports/1/hw_counters").symlink_to("nowhere")
    reading = reader(tmp_path).read()
    assert [(fault.subject, fault.reason) for fault in reading.faults] == [
        ("mlx5_0/1", "enotdir"),
        ("mlx5_1/1", "enoent"),
    ]
    assert [port.rate for port in reading.ports] == [50e9, 50e9]


def test_a_root_that_is_not_there_is_no_bare_machine(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="is no directory"):
        reader(tmp_path / "typo").read()


def test_a_fault_other_than_a_refusal_is_reported_as_long_as_it_lasts(tmp_path: Path) -> None:
    plant(tmp_path, {"mlx5_0": HEALTHY})
    source = reader(tmp_path, files=Recorder(errnos={"counters/link_downed": errno.EIO}))
    assert [len(source.read().faults) for _ in range(5)] == [1] * 5


@pytest.mark.parametrize("number", [errno.ENOENT, errno.ENODEV])
@pytest.mark.parametrize("file", ["state", "counters/link_downed"])
def test_a_file_that_goes_is_a_fault_once_it_stays_away(tmp_path: Path, number: int, file: str) -> None:
    """A driver that is reloaded takes the files away one by one: a poll that falls in between is no broken source."""
    plant(tmp_path, {"mlx5_0": HEALTHY, "mlx5_1": HEALTHY})
    files = Recorder()
    source = reader(tmp_path, files=files)
    told = []
    for gone in (False, True, False, True, True, True, False, True):
        files.errnos = {f"mlx5_1/ports/1/{file}": number} if gone else {}
        told.append(len(source.read().faults))
    assert told == [0, 0, 0, 0, 1, 1, 0, 0]


def test_a_device_that_goes_while_the_devices_are_listed_is_gone_and_no_fault(tmp_path: Path) -> None:
    class Stale(Recorder):
        """Lists a device that is no longer there."""

        gone: tuple[str, ...] = ()

        def names(self, path: str) -> list[str]:
            return [*super().names(path), *(self.gone if path.endswith("/infiniband") else ())]

    plant(tmp_path, {"mlx5_0": HEALTHY})
    files = Stale()
    source = reader(tmp_path, files=files)
    told = []
    for gone in ((), ("mlx5_9",), (), ("mlx5_9",), ("mlx5_9",)):
        files.gone = gone
        reading = source.read()
        assert [f"{port.device.name}/{port.number}" for port in reading.ports] == ["mlx5_0/1"]
        told.append([(fault.subject, fault.reason) for fault in reading.faults])
    assert told == [[], [], [], [], [("mlx5_9", "enoent")]]


@pytest.mark.parametrize("state", ["1: DOWN", "2: INIT", "3: ARMED", "5: ACTIVE_DEFER"])
def test_the_rate_of_a_port_that_is_not_active_is_not_even_read(tmp_path: Path, state: str) -> None:
    plant(tmp_path, {"mlx5_0": {**HEALTHY, "ports/1/state": state, "ports/1/rate": "10 Gb/sec (4X SDR)"}})
    files = Recorder()
    (port,) = reader(tmp_path, files=files).read().ports
    assert (port.rate, port.active) == (None, False)
    assert not any(path.endswith("/rate") for path in files.reads)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(file=st.sampled_from(sorted([*HEALTHY, "node_guid", "fw_ver"])), content=st.binary(max_size=64))
def test_arbitrary_bytes_in_any_file_neither_crash_nor_harm_the_other_port(
    tmp_path: Path, file: str, content: bytes
) -> None:
    root = tmp_path / str(len(list(tmp_path.iterdir())))
    plant(root, {"mlx5_0": {**HEALTHY, file: content}, "mlx5_1": HEALTHY})
    ports = by_subject(reader(root).read().ports)
    assert complete(ports["mlx5_1/1"])
    written = content.strip()
    for name, value in ports["mlx5_0/1"].counters.items():
        if file.endswith("port_rcv_data") and name == "receive_bytes":
            assert value == 4 * int(written)
        elif value not in (8884894436, 4000, 77, 0, 3):
            assert value == int(written)


def test_active_alone_is_a_port_without_counters(tmp_path: Path) -> None:
    plant(tmp_path, {"mlx5_0": ACTIVE})
    reading = reader(tmp_path).read()
    assert reading.faults == ()
    assert reading.ports[0].counters == {}


def test_a_device_that_goes_takes_no_memory_of_refusals_of_one_whose_name_begins_alike(tmp_path: Path) -> None:
    base = plant(tmp_path, {"mlx5_1": HEALTHY, "mlx5_10": HEALTHY})
    files = Recorder(errnos={"mlx5_10/ports/1/counters/link_downed": errno.EINVAL})
    source = reader(tmp_path, files=files)
    for _ in range(3):
        source.read()
    shutil.rmtree(base / "mlx5_1")
    files.reads.clear()
    assert source.read().faults == ()
    assert not [path for path in files.reads if path.endswith("mlx5_10/ports/1/counters/link_downed")]


@pytest.mark.parametrize("file", ["counters/link_downed", "phys_state"])
def test_only_refusals_in_a_row_are_for_good(tmp_path: Path, file: str) -> None:
    plant(tmp_path, {"mlx5_0": HEALTHY})
    files = Recorder()
    source = reader(tmp_path, files=files)
    for _ in range(4):
        files.errnos = {file: errno.EINVAL}
        assert [len(source.read().faults) for _ in range(2)] == [1, 1]
        files.errnos = {}
        assert source.read().faults == ()
    assert complete(source.read().ports[0])


def test_a_folder_that_answers_again_is_not_left_out_at_its_next_refusals(tmp_path: Path) -> None:
    plant(tmp_path, {"mlx5_0": HEALTHY})
    files = Recorder()
    source = reader(tmp_path, files=files)
    for _ in range(4):
        files.errnos = dict.fromkeys((f"counters/{name.rpartition('/')[2]}" for name in COUNTERS), errno.EINVAL)
        assert [len(source.read().faults) for _ in range(2)] == [3, 3]
        files.errnos = {}
        assert complete(source.read().ports[0])


BAD = os.fsdecode(b"\xff\xe9")
"""A name that is no UTF-8, as Python has it of a directory's listing."""


def test_names_that_are_not_utf8_become_labels_like_any_text(tmp_path: Path) -> None:
    files = {**HEALTHY, f"ports/1/counters/odd{BAD}": "7", f"ports/1/counters/{BAD}port_rcv_data": "8"}
    base = plant(tmp_path, {f"mlx5_{BAD}": files, "mlx5_9": HEALTHY})
    netdev = f"eth{BAD}"
    put(base / f"mlx5_{BAD}/device/net" / netdev / "dev_port", "0")
    put(tmp_path / "class/net" / netdev / "bonding/mode", "x")
    put(tmp_path / "class/net" / netdev / f"lower_{netdev}/speed", "x")
    source = reader(tmp_path, Selection(vendor_counters=["*"]), Recorder(errnos={f"odd{BAD}": errno.EIO}))
    found = by_subject(source.read().ports)["mlx5_\ufffd\ufffd/1"]
    assert (found.netdev, found.slaves) == ("eth\ufffd\ufffd", ("eth\ufffd\ufffd",))
    assert [(vendor.file, vendor.value) for vendor in found.vendor] == [("\ufffd\ufffdport_rcv_data", 8)]
    report = InfinibandCheck(source, Settings(), {}, lambda _memory: None).run(0.0)
    outcome = Outcome("infiniband", "ok", report, 0.0, 0.0, 0.0)
    view = CheckView("infiniband", Timing(5, 5), outcome, outcome)
    snapshot = Snapshot(0.0, 0.0, (view,), {}, reload_successful=True)
    text = Exposition("n", "", process=False).render(snapshot).decode()
    assert 'eastwest_port_up{device="mlx5_\ufffd\ufffd",port="1",' in text
    assert 'netdev="eth\ufffd\ufffd"' in text


@pytest.mark.parametrize("entry", ["\u0661", "\u00b2", "01", "-1", "+1", "1_0", "all", "", "9" * 20])
def test_a_folder_that_is_no_number_is_no_port(tmp_path: Path, entry: str) -> None:
    base = plant(tmp_path, {"mlx5_0": HEALTHY})
    (base / "mlx5_0/ports" / entry).mkdir(exist_ok=True)
    assert [port.number for port in reader(tmp_path).read().ports] == [1]
    assert [port.number for port in PortMap(tmp_path, Selection(), Files(), Clock()).ports()] == [1]
