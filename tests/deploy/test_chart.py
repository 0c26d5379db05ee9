"""The chart, rendered by helm over a matrix of values; what comes out is held to schemas and to our own list."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.helm import manifests
from exporter.config import load
from tests.deploy.chart import MATRIX, NEED_FILES, Resource, Values, daemon, of, pod, render
from tests.deploy.operator_kinds import mistakes
from tests.e2e.daemon import command, eventually, serving

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(shutil.which("helm") is None, reason="no helm on the PATH: the chart was not rendered"),
]


@pytest.fixture(scope="module", params=MATRIX)
def resources(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Resource]:
    """What one row of the matrix renders to."""
    return render(MATRIX[request.param], tmp_path_factory.mktemp("values"))


def with_files(tmp_path: Path) -> Path:
    """The chart as `make manifests` completes it; rules and a dashboard of our own where their sources aren't there."""
    chart = tmp_path / "chart"
    shutil.copytree(manifests.CHART, chart)
    rule = '{alert: A, expr: up == 0, for: 5m, annotations: {summary: "{{ $labels.node }} is down."}}'
    rules = chart / "files" / manifests.RULES.name
    dashboards = chart / "files/dashboards"
    dashboards.mkdir(parents=True, exist_ok=True)
    if not rules.exists():
        rules.write_text(f"# comment\ngroups:\n  - name: g\n    rules:\n      - {rule}\n")
    if not list(dashboards.iterdir()):
        (dashboards / "eastwest-ports.json").write_text('{"title": "Ports", "legend": "{{device}}"}\n')
    return chart


def test_helm_has_no_complaint() -> None:
    """`helm lint --strict`: warnings fail too."""
    line = ["helm", "lint", "--strict", f"--kube-version={manifests.KUBE_VERSION}", str(manifests.CHART)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", NEED_FILES)
def test_what_was_not_packed_is_an_error(name: str, tmp_path: Path) -> None:
    chart = with_files(tmp_path)
    shutil.rmtree(chart / "files")
    with pytest.raises(subprocess.CalledProcessError) as refused:
        render(NEED_FILES[name], tmp_path, chart)
    assert "make manifests" in refused.value.stderr


def test_the_rules_are_the_operators_unchanged(tmp_path: Path) -> None:
    """Prometheus' own templates are not helm's."""
    chart = with_files(tmp_path)
    rule = of("PrometheusRule", render(NEED_FILES["rules"], tmp_path, chart))
    assert rule["spec"] == yaml.safe_load((chart / "files" / manifests.RULES.name).read_text())
    assert mistakes(rule) == []
    assert rule["metadata"]["labels"]["release"] == "prometheus"


def test_each_dashboard_is_a_config_map_unchanged(tmp_path: Path) -> None:
    """Each small enough for the annotation of `kubectl apply`, 256 KiB."""
    chart = with_files(tmp_path)
    found = [one for one in render(NEED_FILES["dashboards"], tmp_path, chart) if "-" in one["metadata"]["name"]]
    wanted = {path.name: path.read_text() for path in (chart / "files/dashboards").iterdir()}
    assert {name: text for one in found for name, text in one["data"].items()} == wanted
    assert all(one["metadata"]["labels"]["grafana_dashboard"] == "1" for one in found)
    assert max(len(json.dumps(one)) for one in found) < 256 << 10
    assert len({one["metadata"]["name"] for one in found}) == len(wanted)


def test_what_is_rendered_fits_the_schemas_of_kubernetes(resources: list[Resource], tmp_path: Path) -> None:
    """Strictly: an unknown field is an error. The oldest version that the chart allows, and the newest there is."""
    program = Path(sys.executable).with_name("kubernetes-validate")
    found = str(program) if program.exists() else shutil.which("kubernetes-validate")
    if found is None:
        pytest.skip("no kubernetes-validate: pip install --require-hashes -r tests/deploy/kubernetes.lock")
    native = [resource for resource in resources if "monitoring.coreos.com" not in resource["apiVersion"]]
    path = tmp_path / "all.yaml"
    path.write_text(yaml.safe_dump_all(native))
    for version in ("1.25", "1.37"):
        line = [found, "--strict", "-k", version, str(path)]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert (done.stdout + done.stderr).count(" passed ") == len(native)


def test_what_is_rendered_fits_the_operators_schema(resources: list[Resource]) -> None:
    assert [wrong for resource in resources for wrong in mistakes(resource)] == []


def test_the_configuration_is_one_the_daemon_takes(resources: list[Resource], tmp_path: Path) -> None:
    """By `eastwest config check`, which looks into web.yml too: here in a folder of the test's."""
    path, secret = tmp_path / "eastwest.yml", "/etc/eastwest-web"
    path.write_text(of("ConfigMap", resources)["data"]["eastwest.yml"].replace(secret, str(tmp_path)))
    (tmp_path / "web.yml").write_text("basic_auth_users: {}\n")
    done = subprocess.run(command("config", "check", str(path)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    config = load(path)
    mounts = {mount["mountPath"].replace(secret, str(tmp_path)) for mount in daemon(resources)["volumeMounts"]}
    assert {str(config.paths.sysfs), str(config.paths.state)} <= mounts
    assert config.web.config_file is None or str(config.web.config_file.parent) in mounts


def test_nobody_is_root_where_the_state_is_not_on_the_node(tmp_path: Path) -> None:
    assert "initContainers" not in pod(render(MATRIX["no-root"], tmp_path))


def test_gpus_are_taken_only_where_wanted(tmp_path: Path) -> None:
    """The image asks for all of them, and an open NVML blocks an upgrade of the driver."""

    def visible(values: Values) -> list[str]:
        environment = daemon(render(values, tmp_path))["env"]
        return [one["value"] for one in environment if one["name"] == "NVIDIA_VISIBLE_DEVICES"]

    assert visible({}) == ["void"]
    assert "runtimeClassName" not in pod(render({}, tmp_path))
    assert visible(MATRIX["nvidia"]) == ["all"]
    assert pod(render(MATRIX["nvidia"], tmp_path))["runtimeClassName"] == "nvidia"


@pytest.mark.parametrize("label", ["nvidia.com/gpu.deploy.client", "nvidia.com/gpu.deploy.dcgm-exporter"])
def test_the_pod_leaves_while_the_driver_is_replaced(label: str, tmp_path: Path) -> None:
    """And stays on every other node, whatever else is required of it."""
    for name, base in (("nvidia", {}), ("everything-else", {"rack": "r1"})):
        affinity = pod(render(MATRIX[name], tmp_path))["affinity"]
        assert scheduled(affinity, base)
        assert scheduled(affinity, base | {label: "true"})
        assert scheduled(affinity, base | {label: "false"})
        assert not scheduled(affinity, base | {label: "paused-for-driver-upgrade"})
        assert not scheduled(affinity, base | {label: "paused-for-mig-change"})
        assert scheduled(affinity, {}) == (not base)


def scheduled(affinity: Any, labels: Mapping[str, str]) -> bool:
    """As the scheduler reads it: terms are alternatives, expressions all hold; an empty term matches nothing."""
    hold: Mapping[str, Callable[[Any], bool]] = {
        "Exists": lambda one: one["key"] in labels,
        "NotIn": lambda one: labels.get(one["key"]) not in one["values"],
    }
    terms = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    return any(
        term["matchExpressions"] and all(hold[one["operator"]](one) for one in term["matchExpressions"])
        for term in terms
    )


def test_another_configuration_makes_other_pods(tmp_path: Path) -> None:
    def checksum(values: Values) -> str:
        template = of("DaemonSet", render(values, tmp_path))["spec"]["template"]
        return str(template["metadata"]["annotations"]["checksum/config"])

    assert checksum({}) == checksum(MATRIX["nvidia"]) != checksum(MATRIX["configured"])


def test_prometheus_scrapes_a_pod_once(resources: list[Resource]) -> None:
    """By annotations or by the operator, never by both; and where it is told, the daemon listens."""
    template = of("DaemonSet", resources)["spec"]["template"]
    container = daemon(resources)
    ways = ["prometheus.io/scrape" in template["metadata"]["annotations"]]
    ways += [resource["kind"] == "PodMonitor" for resource in resources]
    assert sum(ways) <= 1
    port = container["ports"][0]["containerPort"]
    assert [argument for argument in container["args"] if re.fullmatch(rf"--listen=\S+:{port}", argument)]
    if ways[0]:
        assert template["metadata"]["annotations"]["prometheus.io/port"] == str(port)


def test_the_daemon_answers_the_probes(tmp_path: Path) -> None:
    """The real one, with the rendered configuration; liveness never by its verdict."""
    resources = render(MATRIX["configured"], tmp_path)
    path = tmp_path / "eastwest.yml"
    path.write_text(of("ConfigMap", resources)["data"]["eastwest.yml"])
    container = daemon(resources)
    assert container["args"][:2] == ["serve", "--config=/etc/eastwest/eastwest.yml"]
    pages = {kind: container[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "liveness", "readiness")}
    assert pages == {"startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"}
    with serving("--config", str(path), "--simulate", "slow-port") as serves:
        assert serves.get(pages["liveness"]).status_code == 200
        assert eventually(lambda: serves.get(pages["readiness"]).status_code == 200)


@pytest.mark.parametrize("name", manifests.VARIANTS)
def test_the_plain_manifests_are_the_chart_rendered(name: str) -> None:
    """`make manifests` after a change of the chart or of what it copies."""
    if not manifests.possible(name):
        pytest.skip(f"without rules there is no deploy/kubernetes/{name}")
    assert (manifests.KUBERNETES / name).read_text() == manifests.plain(name)
