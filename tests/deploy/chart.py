"""The chart rendered by helm, and the values that it is rendered with: what the tests of the chart share."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from deploy.helm import manifests

Values = Mapping[str, Any]
Resource = Mapping[str, Any]
SECRET = {"web": {"secretName": "eastwest-web", "scheme": "https"}, "probes": {"kind": "tcp"}}
TERMS = [{"matchExpressions": [{"key": "rack", "operator": "Exists"}]}, {"matchExpressions": []}]
MATRIX: Mapping[str, Values] = {
    "defaults": {},
    "nvidia": {"nvidia": {"enabled": True}, "priorityClassName": "system-node-critical"},
    "no-root": {"state": {"kind": "emptyDir"}, "hostNetwork": False},
    "pod-network": {
        "hostNetwork": False,
        "networkPolicy": {"enabled": True, "from": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}]},
    },
    "operator": {
        "podMonitor": {"enabled": True, "labels": {"release": "prometheus"}, "relabelings": [{"targetLabel": "x"}]},
    },
    "tls": {
        **SECRET,
        "podMonitor": {
            "enabled": True,
            "tlsConfig": {"ca": {"secret": {"name": "ca", "key": "ca.crt"}}, "serverName": "eastwest"},
            "basicAuth": {"username": {"name": "login", "key": "user"}, "password": {"name": "login", "key": "word"}},
        },
    },
    "node-address": {
        "config": {"log": {"format": "json"}},
        "web": {"bind": "$(HOST_IP)", "port": 10500},
        "image": {"digest": f"sha256:{'0' * 64}"},
    },
    "configured": {
        "config": {
            "node": {"labels": {"rack": "on"}},
            "nics": [{"match": "mlx5_[0-7]", "role": "compute", "rail": 0}, {"match": "mlx5_9", "role": "ignore"}],
            "checks": {
                "infiniband": {"enabled": True, "interval": "5s", "vendor_counters": ["roce_slow_restart*"]},
                "burst": {"enabled": "auto", "sample_interval": "100ms"},
                "nvlink": {"per_link": "all", "timeout": "10s"},
            },
            "expect": {"compute": {"ports": 8, "rate": "400Gbit/s"}, "gpus": 8},
            "health": {"severity_cap": "degraded"},
        }
    },
    "everything-else": {
        "nvidia": {"enabled": True, "runtimeClassName": ""},
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": TERMS}}},
        "image": {"pullSecrets": [{"name": "registry"}], "tag": "main"},
        "podLabels": {"team": "network"},
        "podAnnotations": {"a": "b"},
        "extraEnv": [{"name": "A", "value": "b"}],
        "maxUnavailable": 1,
        "tolerations": [],
        "nodeSelector": {},
        "state": {"prepare": False},
        "scrapeAnnotations": False,
    },
    "state-elsewhere": {"state": {"path": "/data/eastwest-exporter"}, "resources": {"limits": {"memory": 1 << 28}}},
    "own-seccomp": {"seccompProfile": {"type": "Localhost", "localhostProfile": "profiles/eastwest.json"}},
}
NEED_FILES: Mapping[str, Values] = {
    "rules": {"prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}}},
    "dashboards": {"dashboards": {"enabled": True, "annotations": {"grafana_folder": "East-West"}}},
}


def render(values: Values, folder: Path, chart: Path = manifests.CHART) -> list[Resource]:
    path = folder / "values.yaml"
    path.write_text(yaml.safe_dump(dict(values)))
    return documents(manifests.rendered(f"--values={path}", chart=chart))


def documents(text: str) -> list[Resource]:
    """What YAML says, if no key is there twice: which one counts then is the parser's choice."""
    return [found for found in yaml.load_all(text, _Unique) if found]


class _Unique(yaml.SafeLoader):
    """SafeLoader that takes no key twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        assert len(keys) == len(set(keys)), f"twice: {sorted(keys)}"
        return super().construct_mapping(node, deep)


def of(kind: str, resources: list[Resource]) -> Any:
    (found,) = (resource for resource in resources if resource["kind"] == kind)
    return found


def pod(resources: list[Resource]) -> Any:
    return of("DaemonSet", resources)["spec"]["template"]["spec"]


def daemon(resources: list[Resource]) -> Any:
    (container,) = pod(resources)["containers"]
    return container
