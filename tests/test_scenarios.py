"""Every scenario's verdict: exactly its findings, and nobody troubled where nothing is wrong."""

import json

import pytest
from markupsafe import escape

from exporter.hardware.scenarios import SCENARIOS
from exporter.hardware.simulated import EPOCH
from exporter.reasons import REASONS
from exporter.verdict import text
from tests.replays import Replays

Found = dict[tuple[str, str], str]
QUIET = ("healthy", "bare", "a100-pcie", "limited-pf", "roce", "efa", "b200", "v100", "mig", "no-pma")
FINDINGS: dict[str, Found] = {
    **{name: {} for name in QUIET},
    "slow-port": {("mlx5_5/1", "width_reduced"): "critical"},
    "flapping": {("mlx5_4/1", "port_flapping"): "critical"},
    "port-down": {("mlx5_6/1", "port_down"): "critical"},
    "leaf-down": {("node", "ports_down"): "critical"},
    "symbol-errors": {("mlx5_9/1", "symbol_errors"): "degraded"},
    "saturated": {("mlx5_3/1", "counter_saturated"): "degraded", ("node", "counters_saturated"): "info"},
    "congested": {("node", "congestion"): "info"},
    "einval": {("mlx5_6/1", "unreadable"): "unknown"},
    "hang": {("node", "check_failing"): "unknown"},
    "pcie-downgrade": {("mlx5_5/pcie", "pcie_downgraded"): "critical"},
    "pfc-storm": {("mlx5_6/1", "pause_storm"): "degraded"},
    "nvlink-down": {("gpu2", "nvlinks_inactive"): "critical"},
    "nvlink-errors": {("gpu4/link11", "nvlink_errors"): "degraded"},
    "gpu-lost": {("gpu5", "gpu_lost"): "critical"},
    "fabric-unhealthy": {("gpu1", "fabric_unhealthy"): "critical", ("gpu6", "fabric_incomplete"): "critical"},
    "throttled": {("gpu3", "gpu_throttled"): "degraded"},
}
STATUS = {"critical": 3, "unknown": 2, "degraded": 1, "ok": 0, "info": 0}


def test_every_scenario_has_its_line() -> None:
    assert set(FINDINGS) == set(SCENARIOS)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_exactly_its_findings_and_no_other(scenario: str, replays: Replays) -> None:
    health = replays[scenario].health
    found = {(one["subject"], one["reason"]): one["severity"] for one in health["findings"]}
    assert found == FINDINGS[scenario]
    assert STATUS[health["status"]] == max((STATUS[severity] for severity in found.values()), default=0)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_each_has_a_time_evidence_and_plain_words(scenario: str, replays: Replays) -> None:
    shown = replays[scenario]
    remarkable = SCENARIOS[scenario].remarkable.partition("/")[0]
    for one in shown.health["findings"]:
        assert EPOCH <= one["since"] <= shown.health["time"]
        assert not one["message"][0].isupper()
        assert not one["message"].endswith(".")
        assert REASONS[one["reason"]].action == one["next"]
        assert one["severity"] == "info" or one["evidence"] or one["reason"] == "gpu_lost"
        assert escape(one["message"])[:20] in shown.page
    named = {one["subject"].partition("/")[0] for one in shown.health["findings"] if one["severity"] != "info"}
    assert not remarkable or remarkable in named or named == {"node"}
    said = text(json.loads(json.dumps(shown.health)))
    assert max(len(line) for line in said.splitlines()) <= 122  # a word longer than a line stays whole
    assert all(one["reason"] in said for one in shown.health["findings"])
