"""What is expected of links, and what is shown of them."""

from collections.abc import Sequence

import pytest

from exporter.checks.nvlink import NvlinkCheck, NvlinkSettings, PerLink, expected_links
from exporter.model import Fault
from exporter.model_gpu import Fabric, Gpu, Gpus, NvLink

SXM, CARD = "NVIDIA A100-SXM4-80GB", "NVIDIA A100 80GB PCIe"


def gpu(number: int, active: int, links: int = 12, model: str = SXM, **more: object) -> Gpu:
    found = tuple(NvLink(link, state=int(link < active)) for link in range(links))
    return Gpu(number, f"GPU-{number}", model=model, link_count=links, links=found, **more)  # type: ignore[arg-type]  # what a test adds


class Source:
    """Gives what it is given."""

    def __init__(self, *readings: Gpus) -> None:
        self._readings = list(readings)

    def read(self) -> Gpus:
        """The next reading."""
        return self._readings.pop(0)

    def numbers(self) -> dict[str, int]:
        """None."""
        return {}


def shown(*gpus: Gpu, per_link: PerLink = "basic", expected: int | None = None) -> dict[str, float]:
    check = NvlinkCheck(Source(Gpus(gpus)), NvlinkSettings(per_link, expected))
    return {
        f"{s.metric.name}{list(s.labels)}": s.value for s in check.run(0.0).samples if isinstance(s.value, int | float)
    }


@pytest.mark.parametrize(
    ("gpus", "expected"),
    [
        ([gpu(n, 12) for n in range(7)] + [gpu(7, 10)], dict.fromkeys(range(8), 12)),
        ([gpu(0, 12), gpu(1, 10)], {}),
        ([gpu(0, 12)], {}),
        ([gpu(n, 0, model=CARD) for n in range(4)], dict.fromkeys(range(4), 0)),
        ([gpu(n, 0) for n in range(4)], dict.fromkeys(range(4), 12)),
        ([gpu(n, 0, model="H100", fabric=Fabric(1)) for n in range(2)], {0: 12, 1: 12}),
        ([gpu(0, 12), gpu(1, 12), gpu(2, 4, model=CARD), gpu(3, 4, model=CARD)], {0: 12, 1: 12, 2: 4, 3: 4}),
        ([gpu(0, 0, mig=True), gpu(1, 12), gpu(2, 12)], {1: 12, 2: 12}),
        ([gpu(0, 12), gpu(1, 12), Gpu(2, "GPU-2", model=SXM, up=False)], {0: 12, 1: 12, 2: 12}),
    ],
    ids=["one of eight", "a tie", "alone", "no bridges", "all down on SXM", "in a fabric", "models", "mig", "lost"],
)
def test_expected_links_are_what_most_like_gpus_have(gpus: Sequence[Gpu], expected: dict[int, int]) -> None:
    assert expected_links(gpus, None) == expected
    assert set(expected_links(gpus, 4).values()) == {4}


def test_counts_of_links() -> None:
    found = shown(gpu(0, 10), gpu(1, 12), gpu(2, 12))
    assert found["eastwest_nvlink_links['0', 'active']"] == 10
    assert found["eastwest_nvlink_links['0', 'inactive']"] == 2
    assert found["eastwest_nvlink_links['0', 'expected']"] == 12
    assert found["eastwest_nvlink_up['0', '09']"] == 1
    assert found["eastwest_nvlink_up['0', '10']"] == 0


def test_an_unknown_state_is_neither_up_nor_counted() -> None:
    found = shown(Gpu(0, "a", link_count=2, links=(NvLink(0, state=1), NvLink(1))))
    assert found == {"eastwest_nvlink_up['0', '00']": 1}


@pytest.mark.parametrize(("state", "up"), [(0, 0), (1, 1), (2, 1), (3, 0)])
def test_asleep_is_up_and_barred_from_traffic_is_not(state: int, up: int) -> None:
    assert shown(Gpu(0, "a", links=(NvLink(0, state=state),)))["eastwest_nvlink_up['0', '00']"] == up


def test_in_mig_mode_links_are_disabled_and_nothing_more() -> None:
    links = tuple(NvLink(link) for link in range(18))
    assert shown(Gpu(0, "a", mig=True, link_count=18, links=links)) == {"eastwest_nvlink_links['0', 'disabled']": 18}


def test_per_link_series_by_level_and_errors_by_type_always() -> None:
    link = NvLink(3, 1, 5, 7, 26.5e9, {"replay": 2}, {"symbol": 1e-15}, "gpu", "0000:1b:00.0", 4)
    one = Gpu(0, "a", links=(link,))
    errors = {"eastwest_gpu_nvlink_errors_total['0', 'replay']"}
    basic = {f"eastwest_nvlink_{name}['0', '03']" for name in ("up", "receive_bytes_total", "transmit_bytes_total")}
    everything = {
        "eastwest_nvlink_speed_bytes_per_second['0', '03']",
        "eastwest_nvlink_errors_total['0', '03', 'replay']",
        "eastwest_nvlink_bit_error_ratio['0', '03', 'symbol']",
        "eastwest_nvlink_remote_info['0', '03', 'gpu', '0000:1b:00.0', '4']",
    }
    assert set(shown(one, per_link="none")) == errors
    assert set(shown(one, per_link="basic")) == errors | basic
    assert set(shown(one, per_link="all")) == errors | basic | everything


def test_errors_do_not_fall_when_a_link_stops_answering() -> None:
    """A sum that falls looks like a reset, and what comes back like a burst of errors."""
    both = tuple(NvLink(link, 1, errors={"replay": 30 + link}) for link in range(2))
    one = (both[0], NvLink(1, 0))
    check = NvlinkCheck(
        Source(*(Gpus((Gpu(0, "a", links=links),)) for links in (both, one, both))), NvlinkSettings("none")
    )
    totals = [[s.value for s in check.run(0.0).samples if s.metric.name.endswith("_total")] for _ in range(3)]
    assert totals == [[61], [61], [61]]


def test_faults_of_links_and_lost_gpus_are_this_checks() -> None:
    faults = tuple(Fault("nvml", subject, "unknown", "") for subject in ("gpu0", "gpu0/link03", "gpu1"))
    reading = Gpus((Gpu(0, "a"), Gpu(1, "b", up=False)), faults)
    told = NvlinkCheck(Source(reading), NvlinkSettings()).run(0.0).faults
    assert [fault.subject for fault in told] == ["gpu0/link03", "gpu1"]
