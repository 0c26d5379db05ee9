"""What of the chart is made: its copies of rules and dashboards, the schema of `config`, the plain manifests.

`make manifests` writes them; tests/deploy compares. Each has one source elsewhere: deploy/prometheus,
grafana/dashboards, exporter/config.py, and the chart itself.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from deploy.helm.values_schema import SCHEMA, schema

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy/helm/eastwest"
FILES = CHART / "files"
KUBERNETES = ROOT / "deploy/kubernetes"
RULES = ROOT / "deploy/prometheus/eastwest.rules.yml"
DASHBOARDS = ROOT / "grafana/dashboards"
KUBE_VERSION = "1.25.0"
"""The oldest that the chart allows. `helm template` asks no cluster."""

OPERATOR = ("podMonitor", "prometheusRule")
VARIANTS: Mapping[str, Sequence[str]] = {
    "eastwest.yaml": (),
    "eastwest-nvidia.yaml": ("--set=nvidia.enabled=true",),
    "prometheus-operator.yaml": (
        *(f"--set={name}.enabled=true" for name in OPERATOR),
        *(f"--show-only=templates/{name.lower()}.yaml" for name in OPERATOR),
    ),
}
"""The plain manifests, and the arguments of `helm template` that make them."""


def copies() -> dict[Path, str]:
    """The chart's files that are copies, as they should be; those alone whose source is there."""
    found = {FILES / RULES.name: RULES.read_text()} if RULES.is_file() else {}
    for path in sorted(DASHBOARDS.glob("*.json")):
        # Without its spaces: a release of the chart is kept in one Secret.
        compact = json.dumps(json.loads(path.read_text()), separators=(",", ":"), ensure_ascii=False)
        found[FILES / "dashboards" / path.name] = compact + "\n"
    return found


def template(helm: str = "helm", chart: Path = CHART) -> Sequence[str]:
    """The command that renders the chart."""
    return [helm, "template", "eastwest", str(chart), "--namespace=eastwest", f"--kube-version={KUBE_VERSION}"]


def rendered(*arguments: str, helm: str = "helm", chart: Path = CHART) -> str:
    """`helm template` of the chart. Raises CalledProcessError with what helm said."""
    command = [*template(helm, chart), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def plain(name: str) -> str:
    """One of VARIANTS, with a line that says what it is."""
    flags = " ".join(flag for flag in VARIANTS[name] if not flag.startswith("--show-only"))
    head = f"# The chart deploy/helm/eastwest, rendered by `make manifests`{' with ' + flags if flags else ''}.\n"
    return (
        head
        + "# docs/kubernetes.md says how it is used; set the image to where you pushed yours.\n"
        + rendered(*VARIANTS[name])
    )


def possible(name: str) -> bool:
    """Whether its sources are there."""
    return "prometheusRule" not in "".join(VARIANTS[name]) or (FILES / RULES.name).is_file()


def main() -> int:
    """Write all of it; say what could not be."""
    SCHEMA.write_text(schema())
    current = copies()
    for path, text in current.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for old in FILES.rglob("*.json"):
        if DASHBOARDS.is_dir() and old not in current:
            old.unlink()
    for source in (RULES, DASHBOARDS):
        if not source.exists():
            sys.stdout.write(f"not there, so not copied: {source.relative_to(ROOT)}\n")
    if shutil.which("helm") is None:
        sys.stdout.write("no helm on the PATH: deploy/kubernetes is as it was\n")
        return 0
    for name in VARIANTS:
        if possible(name):
            (KUBERNETES / name).write_text(plain(name))
        else:
            sys.stdout.write(f"not made, without rules: deploy/kubernetes/{name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
