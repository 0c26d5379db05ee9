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
from typing import Any

from exporter.config import Config

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy/helm/eastwest"
FILES = CHART / "files"
SCHEMA = CHART / "values.schema.json"
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

QUANTITY = r"^[0-9]+(\.[0-9]+)?\s*((ms|s|m|h|d)|[KMGT]?(bit|B)/s)$"
_UNSAID = {"title", "default"}
_NOT_IN_CHART = {"Config": ("paths", "web", "probes"), "NodeConfig": ("name",)}
"""What the chart sets; what no two nodes share; and probes: this pod can't see who else works on the node."""


def copies() -> dict[Path, str]:
    """The chart's files that are copies, as they should be; those alone whose source is there."""
    found = {FILES / RULES.name: RULES.read_text()} if RULES.is_file() else {}
    for path in sorted(DASHBOARDS.glob("*.json")):
        # Without its spaces: a release of the chart is kept in one Secret.
        compact = json.dumps(json.loads(path.read_text()), separators=(",", ":"), ensure_ascii=False)
        found[FILES / "dashboards" / path.name] = compact + "\n"
    return found


def schema() -> str:
    """values.schema.json with the definitions of `config` as the models are now."""
    document = json.loads(SCHEMA.read_text())
    models = Config.model_json_schema(ref_template="#/definitions/{model}")
    wanted = {**models.pop("$defs"), "Config": models}
    for name, keys in _NOT_IN_CHART.items():
        for key in keys:
            del wanted[name]["properties"][key]
    reached = _reached(wanted, "Config")
    kept = {name: what for name, what in document["definitions"].items() if not name.endswith("Config")}
    kept.pop("Role", None)
    document["definitions"] = kept | {name: _plain(wanted[name]) for name in sorted(reached)}
    return json.dumps(document, indent=1) + "\n"


def _reached(definitions: Mapping[str, Any], name: str) -> set[str]:
    text = json.dumps(definitions[name])
    inner = [other for other in definitions if f'"#/definitions/{other}"' in text]
    return {name}.union(*(_reached(definitions, other) for other in inner))


def _plain(node: Any) -> Any:
    """Without titles and defaults; what pydantic shows as a number is written with its unit."""
    if isinstance(node, list):
        return [_plain(item) for item in node]
    if not isinstance(node, dict):
        return node
    if node.get("type") == "number":
        return {"type": "string", "pattern": QUANTITY} | {key: node[key] for key in ("description",) if key in node}
    return {
        key: {name: _plain(inner) for name, inner in value.items()} if key == "properties" else _plain(value)
        for key, value in node.items()
        if key not in _UNSAID
    }


def rendered(*arguments: str, helm: str = "helm", chart: Path = CHART) -> str:
    """`helm template` of the chart. Raises CalledProcessError with what helm said."""
    command = [helm, "template", "eastwest", str(chart), "--namespace=eastwest", f"--kube-version={KUBE_VERSION}"]
    return subprocess.run([*command, *arguments], check=True, capture_output=True, text=True).stdout


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
