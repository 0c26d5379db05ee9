"""The gate: what is free, and every reason why not."""

from dataclasses import replace
from pathlib import Path

import pytest

from exporter.hardware.gpu_load import GpuLoad
from exporter.probes.gate import Allocations, Limits, NicLoad, Permission, Refusal, Situation, allowed, idle, work

LIMITS = Limits()
FREE = Situation(
    (Allocations("slurm"), Allocations("kubernetes")),
    tuple(GpuLoad(number, utilisation=0, memory=4 << 20) for number in range(8)),
    (NicLoad("mlx5_0/1", 0.01),),
)
GPU = GpuLoad(3, utilisation=0, memory=0)


def test_a_free_node_is_free() -> None:
    assert list(idle(FREE, LIMITS)) == []
    assert list(allowed(Permission(), LIMITS)) == []


def test_what_is_not_there_has_no_say() -> None:
    assert list(idle(Situation(), LIMITS)) == []


@pytest.mark.parametrize(
    ("situation", "reason"),
    [
        (replace(FREE, allocations=(Allocations("slurm", ("job 7",)),)), "slurm_allocation"),
        (replace(FREE, allocations=(Allocations("kubernetes", ("ml/train-0",)),)), "kubernetes_allocation"),
        (replace(FREE, allocations=(Allocations("kubernetes", failure="timeout"),)), "kubernetes_unreadable"),
        (replace(FREE, failures=(("nvml", "hangs"),)), "nvml_unreadable"),
        (replace(FREE, failures=(("ports", "eio"),)), "ports_unreadable"),
        (replace(FREE, gpus=(replace(GPU, processes=(77,)),)), "gpu_process"),
        (replace(FREE, gpus=(replace(GPU, failure="no permission"),)), "nvml_unreadable"),
        (replace(FREE, gpus=(replace(GPU, utilisation=1),)), "gpu_busy"),
        (replace(FREE, gpus=(replace(GPU, memory=2 << 30),)), "gpu_memory"),
        (replace(FREE, gpus=(replace(GPU, mig=True),)), "mig"),
        (replace(FREE, nics=(NicLoad("mlx5_0/1", 0.05),)), "nic_busy"),
    ],
)
def test_each_condition_by_itself_is_enough(situation: Situation, reason: str) -> None:
    assert [refusal.reason for refusal in idle(situation, LIMITS)] == [reason]


@pytest.mark.parametrize(
    ("permission", "reason"),
    [
        (Permission(paused=True), "paused"),
        (Permission(unusable="no such folder"), "journal_unusable"),
        (Permission(quiet=True), "quiet"),
        (Permission(since_last=3600), "min_gap"),
        (Permission(seconds_used=60), "budget"),
        (Permission(bytes_used=64 << 30), "budget"),
        (Permission(locked=True), "locked"),
        (Permission(stuck=4711), "stuck"),
    ],
)
def test_each_limit_by_itself_is_enough(permission: Permission, reason: str) -> None:
    assert [refusal.reason for refusal in allowed(permission, LIMITS)] == [reason]


def test_every_limit_is_in_the_documentation() -> None:
    everything = Permission(0, 1e9, 1 << 60, True, "", "no folder", True, True, 4711)
    table = (Path(__file__).parents[2] / "docs" / "probes.md").read_text()
    found = {refusal.reason for refusal in allowed(everything, LIMITS)}
    assert len(found) == 7
    assert [reason for reason in found if f"`{reason}`" not in table] == []


def test_after_the_gap_it_may_again() -> None:
    assert list(allowed(Permission(since_last=6 * 3600), LIMITS)) == []


def test_everything_against_is_told_not_only_the_first() -> None:
    situation = Situation((Allocations("slurm", ("job 7",)),), (replace(GPU, processes=(1,), utilisation=100),))
    assert [str(refusal) for refusal in idle(situation, LIMITS)] == [
        "slurm_allocation (job 7)",
        "gpu_process (gpu3: 1)",
        "gpu_busy (gpu3: 100 %)",
    ]


def test_while_it_runs_its_own_processes_are_no_work_and_its_load_is_none() -> None:
    running = Situation(gpus=(replace(GPU, processes=(10, 11), utilisation=100, memory=4 << 30),))
    assert list(work(running, frozenset({10, 11}), 0)) == []
    assert [refusal.reason for refusal in work(running, frozenset({10}), 0)] == ["gpu_process"]


def test_in_a_pid_namespace_one_process_on_a_gpu_may_be_its_own_and_a_second_is_not() -> None:
    assert list(work(Situation(gpus=(replace(GPU, processes=(500,)),)), frozenset({7}), 1)) == []
    assert list(work(Situation(gpus=(replace(GPU, processes=(500, 501)),)), frozenset({7}), 1)) == [
        Refusal("gpu_process", "gpu3: 500, 501")
    ]
