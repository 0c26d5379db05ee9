"""Each reason of GPUs and NVLinks at its threshold."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from exporter.checks.gpu import GpuCheck
from exporter.checks.nvlink import NvlinkCheck, NvlinkSettings
from exporter.model import Finding, Released, Unavailable
from exporter.model_gpu import Fabric, Gpu, Gpus, NvLink, XidLine


def gpu(number: int, **values: object) -> Gpu:
    """An H100 with three NVLinks, all well."""
    links = tuple(NvLink(n, 1, errors={"replay": 0, "recovery": 0, "crc_flit": 0}) for n in range(3))
    made = Gpu(number, f"GPU-{number}", f"0000:{number:02x}:00.0", "NVIDIA H100 80GB HBM3", link_count=3, links=links)
    return replace(made, throttle={"hardware_thermal": 0.0, "power_cap": 0.0}, xids={74: 0, 79: 0}, **values)  # type: ignore[arg-type]


class Machine:
    """GPUs and a kernel log that change from reading to reading."""

    def __init__(self) -> None:
        self.gpus: Sequence[Gpu] = [gpu(n) for n in range(4)]
        self.lines: tuple[XidLine, ...] = ()
        self.away: Unavailable | None = None

    def read(self) -> Gpus:
        """See GpuSource."""
        if self.away is not None:
            raise self.away
        return Gpus(tuple(self.gpus))

    def numbers(self) -> Mapping[str, int]:
        """See GpuSource."""
        return {}


class Log:
    """The kernel log of a machine, each line told once."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def read(self) -> tuple[XidLine, ...]:
        """See XidSource."""
        told, self._machine.lines = self._machine.lines, ()
        return told


class Kept:
    """What outlives a restart."""

    def __init__(self) -> None:
        self._dump: Callable[[float], Any] | None = None

    def recall(self, _name: str, load: Callable[[Mapping[str, Any], float, float, bool], None]) -> None:
        """See Keeper."""
        if self._dump is not None:
            load(self._dump(0.0), 0.0, 0.0, False)

    def keep(self, _name: str, dump: Callable[[float], Any], urgent: bool) -> None:
        """See Keeper."""
        assert isinstance(urgent, bool)
        self._dump = dump


def found(findings: Sequence[Finding]) -> dict[tuple[str, str], str]:
    """Severity by subject and reason."""
    return {(one.subject, one.reason): one.severity.value for one in findings}


def changed(machine: Machine, **values: object) -> None:
    """GPU 2 is different from now on."""
    machine.gpus = [replace(one, **values) if one.number == 2 else one for one in machine.gpus]  # type: ignore[arg-type]


@pytest.mark.parametrize(("share", "reason"), [(0.11, "degraded"), (0.09, None)])
def test_throttling(share: float, reason: str | None) -> None:
    machine, result = Machine(), {}
    check = GpuCheck(machine)
    for now in range(0, 601, 10):
        changed(machine, throttle={"hardware_thermal": share * now, "power_cap": 0.9 * now})
        result = found(check.run(float(now)).findings)
    assert result == ({("gpu2", "gpu_throttled"): reason} if reason else {})


def test_xids_by_nvml_alone_and_with_the_words_of_the_log() -> None:
    machine = Machine()
    check = GpuCheck(machine, xids=Log(machine))
    check.run(0.0)
    changed(machine, xids={74: 0, 79: 0, 149: 1, 31: 5})
    assert found(check.run(10.0).findings) == {("gpu2", "xid_error"): "degraded"}
    machine.lines = (XidLine(9.0, "0000:02:00", 149, True, 8),)
    assert found(check.run(20.0).findings) == {("gpu2", "xid_fatal"): "critical"}
    machine.lines = (XidLine(25.0, "0000:03:00", 145, False, 3), XidLine(26.0, "0000:01:00", 31))
    assert found(check.run(30.0).findings) == {
        ("gpu2", "xid_fatal"): "critical",
        ("gpu3", "xid_error"): "degraded",
    }
    assert found(check.run(3700.0).findings) == {}


def test_old_lines_of_the_ring_are_not_of_today() -> None:
    machine = Machine()
    machine.lines = (XidLine(9.0, "0000:02:00", 79),)
    assert found(GpuCheck(machine, xids=Log(machine)).run(9000.0).findings) == {}


def test_xids_counted_before_the_first_reading_are_new_ones_of_this_daemon() -> None:
    machine = Machine()
    changed(machine, xids={74: 2, 79: 0})
    assert found(GpuCheck(machine).run(0.0).findings) == {("gpu2", "xid_error"): "degraded"}


def test_a_gpu_that_is_lost_missing_or_exchanged() -> None:
    machine = Machine()
    check = GpuCheck(machine, wanted=4)
    check.run(0.0)
    healthy = list(machine.gpus)
    changed(machine, up=False)
    assert found(check.run(10.0).findings) == {("gpu2", "gpu_lost"): "critical"}
    machine.gpus = [one for one in healthy if one.number != 2]
    assert found(check.run(20.0).findings) == {("gpu2", "gpu_lost"): "critical"}
    machine.gpus = [*machine.gpus, gpu(9)]
    assert found(check.run(30.0).findings) == {}
    assert found(GpuCheck(machine, wanted=5).run(0.0).findings) == {("node", "too_few_gpus"): "critical"}


def test_most_gpus_gone_at_once_are_one_finding() -> None:
    machine = Machine()
    check = GpuCheck(machine, wanted=4)
    check.run(0.0)
    healthy = list(machine.gpus)
    machine.gpus = [replace(one, up=one.number == 0) for one in healthy]
    (finding,) = check.run(10.0).findings
    assert (finding.subject, finding.reason) == ("node", "gpus_missing")
    assert finding.message.startswith("3 of 4 GPUs do not answer")
    assert finding.evidence["gpus"] == ("gpu1", "gpu2", "gpu3")
    machine.gpus = [replace(one, up=one.number < 2) for one in healthy]
    assert found(check.run(20.0).findings) == {(f"gpu{n}", "gpu_lost"): "critical" for n in (2, 3)}
    machine.gpus = healthy[:1]
    assert found(check.run(30.0).findings).keys() == {("node", "gpus_missing")}


def test_a_node_whose_driver_does_not_load_after_a_restart_is_not_one_without_gpus() -> None:
    machine, kept = Machine(), Kept()
    GpuCheck(machine, kept).run(0.0)
    machine.away = Unavailable("no NVML: libnvidia-ml.so.1 is not here")
    report = GpuCheck(machine, kept).run(10.0)
    assert found(report.findings) == {("node", "gpus_missing"): "critical"}
    assert report.samples == ()
    assert found(GpuCheck(machine, kept).run(29 * 86_400.0).findings) != {}
    with pytest.raises(Unavailable):
        GpuCheck(machine, kept).run(31 * 86_400.0)
    machine.away = Released("NVML is released for maintenance")
    with pytest.raises(Released):
        GpuCheck(machine, kept, wanted=4).run(20.0)


def test_gpus_that_are_expected_and_were_never_seen_are_missed() -> None:
    machine = Machine()
    machine.away = Unavailable("no NVML")
    with pytest.raises(Unavailable):
        GpuCheck(machine).run(0.0)
    assert found(GpuCheck(machine, wanted=8).run(0.0).findings) == {("node", "too_few_gpus"): "critical"}


@pytest.mark.parametrize(
    ("fabric", "reason"),
    [
        (Fabric(3, 0), None),
        (Fabric(3, 23), "fabric_unhealthy"),
        (Fabric(3, 0, {"route_unhealthy": True, "degraded_bandwidth": False}), "fabric_unhealthy"),
        (Fabric(3, 0, {"route_unhealthy": False}), None),
        (Fabric(2), "fabric_incomplete"),
        (Fabric(0), None),
    ],
)
def test_the_fabric(fabric: Fabric, reason: str | None) -> None:
    machine = Machine()
    machine.gpus = [replace(one, fabric=Fabric(3, 0)) for one in machine.gpus]
    changed(machine, fabric=fabric)
    assert found(GpuCheck(machine).run(0.0).findings) == ({("gpu2", reason): "critical"} if reason else {})


def test_a_fabric_that_nobody_has_joined_is_a_partition_that_waits() -> None:
    machine = Machine()
    machine.gpus = [replace(one, fabric=Fabric(2)) for one in machine.gpus]
    assert found(GpuCheck(machine).run(0.0).findings) == {}


def linked(machine: Machine, **errors: int) -> None:
    """Link 1 of GPU 2 has counted these."""
    links = [gpu(2).links[0], NvLink(1, 1, errors={"replay": 0, "recovery": 0, **errors}), gpu(2).links[2]]
    changed(machine, links=tuple(links))


@pytest.mark.parametrize(("per_hour", "reason"), [(75, True), (55, False)])
def test_replays_that_go_on(per_hour: float, reason: bool) -> None:
    machine, result = Machine(), {}
    check = NvlinkCheck(machine, NvlinkSettings())
    for now in range(0, 1201, 10):
        linked(machine, replay=int(now * per_hour / 3600))
        result = found(check.run(float(now)).findings)
    assert result == ({("gpu2/link01", "nvlink_errors"): "degraded"} if reason else {})


def test_one_recovery_is_told_for_an_hour() -> None:
    machine = Machine()
    check = NvlinkCheck(machine, NvlinkSettings())
    check.run(0.0)
    linked(machine, recovery=1)
    assert found(check.run(10.0).findings) == {("gpu2/link01", "nvlink_errors"): "degraded"}
    assert found(check.run(3590.0).findings) != {}
    assert found(check.run(3700.0).findings) == {}


def test_links_that_are_down_or_in_mig_mode() -> None:
    machine = Machine()
    check = NvlinkCheck(machine, NvlinkSettings())
    changed(machine, links=tuple(replace(link, state=0) if link.number == 1 else link for link in gpu(2).links))
    report = check.run(0.0)
    assert found(report.findings) == {("gpu2", "nvlinks_inactive"): "critical"}
    assert "link01 is down" in report.findings[0].message
    changed(machine, mig=True)
    assert found(check.run(10.0).findings) == {}
    assert found(NvlinkCheck(Machine(), NvlinkSettings(expected=4)).run(0.0).findings).keys() == {
        (f"gpu{n}", "nvlinks_inactive") for n in range(4)
    }


@pytest.mark.parametrize(("ratio", "reason"), [(2e-12, True), (1e-13, False)])
def test_bit_errors(ratio: float, reason: bool) -> None:
    machine = Machine()
    changed(machine, links=(NvLink(0, 1, bit_error_ratios={"effective": ratio, "symbol": 1e-6}),))
    result = found(NvlinkCheck(machine, NvlinkSettings()).run(0.0).findings)
    assert (("gpu2/link00", "nvlink_bit_errors") in result) is reason
