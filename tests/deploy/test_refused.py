"""Values that helm refuses: typos, what the daemon would refuse at its start, what does harm or less than it seems."""

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from deploy.helm import manifests
from tests.deploy.chart import documents

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(shutil.which("helm") is None, reason="no helm on the PATH: the chart was not rendered"),
]
BY_SCHEMA = (
    "web.prot=1",
    "web.bind=localhost",
    "config.chekcs.burst.enabled=true",
    "config.checks.infiniband.interval=5",
    "config.checks.infiniband.interval=500h",
    "config.checks.infiniband.interval=0s",
    "config.checks.infiniband.interval=400Gbit/s",
    "config.checks.infiniband.timeout=2m",
    "config.checks.burst.sample_interval=5s",
    "config.checks.infiniband.exclude[0]=",
    "config.expect.compute.rate=0Gbit/s",
    "config.expect.compute.rate=5s",
    "config.nics[0].match=,config.nics[0].role=compute",
    "config.nics[0].match=mlx5_[0-1,config.nics[0].role=compute",
    "config.nics[0].match=a,config.nics[0].role=storage,config.nics[0].rail=1",
    "config.node.labels.row=a",
    "config.node.name=gpu-1",
    "config.paths.sysfs=/sys",
    "config.probes.enabled=true",
    "nics[0].match=mlx5_0",
    "nvidia.enabled=yes",
    "tolerations[0].kye=a",
    "state.kind=pvc",
    "state.path=/etc",
    "state.path=/var/lib/kubelet",
    "state.path=/a/../etc",
    "state.path=/a/../eastwest-exporter",
    "state.path=/a/./eastwest-exporter",
    "state.path=/eastwest-exporter/..",
    "state.path=eastwest-exporter",
    "state.path=/",
    "resources.limits.mem=1Gi",
    "resources.requests.cpu=-5",
    "resources.requests.cpu=1.2.3",
    "resources.limits.memory=1K",
    "seccompProfile.type=Unconfined",
    "podMonitor.interval=30s1m",
    "extraEnv[0].nmae=A",
)
BY_CHART = {
    "networkPolicy.enabled=true": "no NetworkPolicy covers",
    "web.scheme=https": "web.secretName",
    "networkPolicy.enabled=true,hostNetwork=false": "networkPolicy.from",
    "state.path=/var/lib/eastwest": "the systemd service's",
    "state.path=/etc/eastwest": "the systemd service's",
    "podMonitor.interval=10s,podMonitor.scrapeTimeout=30s": "at most podMonitor.interval",
    "podMonitor.interval=1m,podMonitor.scrapeTimeout=1m1s": "at most podMonitor.interval",
    "podMonitor.scrapeTimeout=0s": "more than nothing",
    "seccompProfile.type=Localhost": "seccompProfile.localhostProfile: needed",
    "seccompProfile.localhostProfile=x": "seccompProfile.localhostProfile: needed",
    r"podLabels.app\.kubernetes\.io/name=x": "podLabels: app.kubernetes.io/name is set by the chart",
    "podAnnotations.checksum/config=x": "podAnnotations: checksum/config is set by the chart",
    r"podAnnotations.prometheus\.io/path=/x": "podAnnotations: prometheus.io/path is set by the chart",
    r"podMonitor.enabled=true,podMonitor.labels.app\.kubernetes\.io/name=x": "podMonitor.labels: app",
    r"prometheusRule.enabled=true,prometheusRule.labels.app\.kubernetes\.io/name=x": "prometheusRule.labels: app",
    r"dashboards.enabled=true,dashboards.labels.app\.kubernetes\.io/name=x": "dashboards.labels: app",
    "extraEnv[0].name=NVIDIA_VISIBLE_DEVICES,extraEnv[0].value=all": "extraEnv: NVIDIA_VISIBLE_DEVICES is set already",
    "extraEnv[0].name=HOST_IP": "extraEnv: HOST_IP is set already",
    "extraEnv[0].name=A,extraEnv[1].name=A": "extraEnv: A is set already",
}
WITHOUT_SCHEMA = {
    "state.path=/etc": "state.path: an absolute path",
    "state.path=/a/../eastwest-exporter": "state.path: an absolute path",
    "seccompProfile.type=Unconfined": "seccompProfile.type: RuntimeDefault or Localhost",
}
"""What must hold where helm is told to skip the schema, too."""
TAKEN = (
    r"podAnnotations.prometheus\.io/path=/x,scrapeAnnotations=false",
    "podMonitor.interval=1m,podMonitor.scrapeTimeout=60s",
    "state.path=/data/.hidden/eastwest-exporter",
    "resources.requests.cpu=0.5,resources.limits.cpu=500m",
    "config.checks.infiniband.timeout=null",
)


def refused(*arguments: str) -> str:
    """What helm says."""
    with pytest.raises(subprocess.CalledProcessError) as caught:
        manifests.rendered(*arguments)
    return str(caught.value.stderr)


@pytest.mark.parametrize("values", BY_SCHEMA)
def test_what_nothing_could_read_is_refused(values: str) -> None:
    assert "values don't meet the specifications of the schema" in refused("--set", values)


@pytest.mark.parametrize(("values", "why"), BY_CHART.items())
def test_what_would_do_harm_or_less_than_it_seems_is_refused(values: str, why: str) -> None:
    assert why in refused("--set", values)


@pytest.mark.parametrize(("values", "why"), WITHOUT_SCHEMA.items())
def test_what_would_do_harm_is_refused_without_the_schema(values: str, why: str) -> None:
    assert why in refused("--skip-schema-validation", "--set", values)


@pytest.mark.parametrize("values", TAKEN)
def test_what_is_near_and_right_is_taken(values: str) -> None:
    assert documents(manifests.rendered("--set", values))


def paths(node: Mapping[str, Any], before: str = "") -> Iterator[str]:
    """Every key of the values, with those above it."""
    for key, value in node.items():
        path = f"{before}{key.replace('.', chr(92) + '.')}"
        yield path
        if isinstance(value, Mapping):
            yield from paths(value, f"{path}.")


@pytest.mark.parametrize("path", list(paths(yaml.safe_load((manifests.CHART / "values.yaml").read_text()))))
def test_null_takes_a_default_away_or_is_refused_by_name(path: str) -> None:
    """It never ends in an error of helm's own, such as a nil pointer."""
    done = subprocess.run([*manifests.template(), "--set", f"{path}=null"], capture_output=True, text=True, check=False)
    if done.returncode:
        assert f"{path.rpartition('.')[2]} is required" in done.stderr or f" {path}: " in done.stderr
    else:
        assert re.search(r"\bnull\b", done.stdout) is None
        assert {one["kind"] for one in documents(done.stdout)} == {"DaemonSet", "ConfigMap", "ServiceAccount"}
