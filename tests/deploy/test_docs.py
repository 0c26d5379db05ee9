"""What README and docs tell an operator to do: links lead somewhere, commands stop what they say, examples run."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.deploy.files import ROOT

PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\(([^)\s]+)\)")
SLURM = ROOT / "docs/scheduler.md"


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    heads = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def code(page: Path) -> Iterator[str]:
    """Lines of code blocks, and inline code."""
    for part in re.findall(r"^```\w*\n(.*?)^```|`([^`\n]+)`", page.read_text(), re.MULTILINE | re.DOTALL):
        yield from "".join(part).splitlines()


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), target


def test_each_way_to_run_it_is_ended_as_it_was_begun() -> None:
    """A release is of a namespace, a manifest is a file, and the textfile's timer is a unit of its own."""
    found = [line for page in PAGES for line in code(page)]
    uninstalls = [line for line in found if "helm uninstall" in line]
    assert uninstalls
    assert all(" -n eastwest" in line for line in uninstalls)
    deletes = [line for line in found if "kubectl delete" in line and " -f " in line]
    assert deletes
    assert all((ROOT / re.split(r" -f ([^\s,]+)", line)[1]).is_file() for line in deletes)
    disables = [line for line in found if "systemctl disable" in line]
    assert disables
    assert all({"eastwest.service", "eastwest-textfile.timer"} <= set(line.split()) for line in disables)


def test_the_ways_to_stop_are_the_same_everywhere() -> None:
    tables = [
        re.findall(r"^\| (hand|systemd|docker|helm) \| ([^|]+) \|", page.read_text(), re.MULTILINE)
        for page in (ROOT / "README.md", ROOT / "docs/troubleshooting.md")
    ]
    assert len(tables[0]) == 4
    assert tables[0] == tables[1]


def test_what_it_costs_is_the_same_everywhere() -> None:
    """README and the chart say what the table of docs/performance.md says, rounded."""
    text = (ROOT / "docs/performance.md").read_text()
    series, core, memory = re.findall(r"not scraped \| ([\d,]+) \| ([\d.]+) % of a core[^|]*\| (\d+) MiB", text)[0]
    ratios = re.findall(r"^\| \*?\*?ratio\D*\| \*?\*?([\d.]+)", text, re.MULTILINE)
    assert len(ratios) == 2
    readme = " ".join((ROOT / "README.md").read_text().split())
    assert f"**{series} series, {float(core):g} % of one core, {memory} MiB of memory**" in readme
    assert all(ratio in readme for ratio in ratios)
    values = (ROOT / "deploy/helm/eastwest/values.yaml").read_text()
    assert f"{float(core):g} % of a core and {memory} MiB with GPUs" in values


def health_check(folder: Path, arguments: str) -> Mapping[str, str]:
    """Run the script of docs/scheduler.md with a node of these arguments; what it told scontrol, and its own end."""
    (script,) = re.findall(r"^```sh\n(#!/bin/sh\n.*?)^```", SLURM.read_text(), re.MULTILINE | re.DOTALL)
    assert "/opt/eastwest/bin/eastwest check" in script
    path = folder / "eastwest-health"
    path.write_text(
        script.replace("/opt/eastwest/bin/eastwest check", f"{sys.executable} -m exporter check {arguments}")
    )
    stand_in = folder / "scontrol"
    stand_in.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {folder}/told\n')
    stand_in.chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    done = subprocess.run(["/bin/sh", str(path)], env=environment, capture_output=True, text=True, check=False)
    told = folder / "told"
    lines = told.read_text().splitlines() if told.exists() else []
    return {"status": str(done.returncode)} | {line.partition("=")[0]: line.partition("=")[2] for line in lines}


@pytest.mark.e2e
def test_slurm_is_told_which_link_it_is(tmp_path: Path) -> None:
    told = health_check(tmp_path, "--simulate slow-port")
    assert told["state"] == "drain"
    assert told["reason"].startswith("eastwest: mlx5_5/1 (rail 3) runs at 100 Gbit/s")
    assert told["reason"] in SLURM.read_text().replace("\n", " ")


@pytest.mark.e2e
@pytest.mark.parametrize(
    "arguments", ["--simulate healthy", "--simulate pfc-storm", "--simulate nonsense", "--nonsense"]
)
def test_slurm_drains_nothing_else(arguments: str, tmp_path: Path) -> None:
    """Neither what is well, nor what is degraded, nor where the check itself fails."""
    assert "state" not in health_check(tmp_path, arguments)


@pytest.mark.e2e
def test_what_the_docs_show_of_a_check_is_what_it_prints() -> None:
    line = [sys.executable, "-m", "exporter", "check", "--simulate", "slow-port"]
    said = subprocess.run(line, env={**os.environ, "TZ": "UTC"}, capture_output=True, text=True, check=False).stdout
    (shown,) = re.findall(
        r"^```console\n\$ eastwest check --simulate slow-port\n(.*?)^```", SLURM.read_text(), re.MULTILINE | re.DOTALL
    )
    assert said.startswith(shown)
