"""docs/security.md against the chart, both ways: a privilege that is not listed fails, and a line that is no more."""

import shutil
from pathlib import Path

import pytest

from deploy.helm import manifests
from tests.deploy.chart import MATRIX, Resource, documents, render
from tests.deploy.privileges import ALWAYS, Privilege, documented, had

helm = pytest.mark.skipif(shutil.which("helm") is None, reason="no helm on the PATH: the chart was not rendered")
CHOSEN = {"containers.eastwest.ports.metrics.containerPort"}
"""Fields whose value is the operator's."""
USERS_OWN = {
    "state-elsewhere": [("volumes.state.hostPath.path", "/data/eastwest-exporter")],
    "own-seccomp": [
        ("securityContext.seccompProfile.type", "Localhost"),
        ("securityContext.seccompProfile.localhostProfile", "profiles/eastwest.json"),
    ],
}
"""What rows of the matrix choose themselves."""
VALUES = sorted(documented().keys() - {ALWAYS})


def plain(name: str) -> list[Resource]:
    return documents((manifests.KUBERNETES / name).read_text())


def with_values(values: str) -> set[Privilege]:
    return had(documents(manifests.rendered("--set", values)))


def test_the_plain_manifest_has_what_is_listed_and_no_more() -> None:
    assert had(plain("eastwest.yaml")) == documented()[ALWAYS]


def test_the_plain_manifest_for_gpus_adds_what_is_listed_and_no_more() -> None:
    added = had(plain("eastwest-nvidia.yaml")) - documented()[ALWAYS]
    assert added == documented()["nvidia.enabled=true"]


@pytest.mark.e2e
@helm
@pytest.mark.parametrize("values", VALUES)
def test_each_value_adds_what_is_listed_for_it_and_no_more(values: str) -> None:
    assert with_values(values) - documented()[ALWAYS] == documented()[values]


@pytest.mark.e2e
@helm
@pytest.mark.parametrize("name", MATRIX)
def test_no_combination_has_a_privilege_that_is_not_listed(name: str, tmp_path: Path) -> None:
    listed = set().union(*documented().values())
    found = {one for one in had(render(MATRIX[name], tmp_path)) if one.field not in CHOSEN}
    assert found - listed - {Privilege(field, value) for field, value in USERS_OWN.get(name, ())} == set()


@pytest.mark.parametrize(
    ("where", "changed"),
    [
        ("hostPID", {"hostPID": True}),
        ("volumes.more.hostPath.path", {"volumes": [{"name": "more", "hostPath": {"path": "/"}}]}),
        (
            "containers.other.securityContext.privileged",
            {"containers": [{"name": "other", "securityContext": {"privileged": True}}]},
        ),
        (
            "containers.eastwest.volumeMounts.sys",
            {"containers": [{"name": "eastwest", "volumeMounts": [{"name": "sys", "mountPath": "/host/sys"}]}]},
        ),
    ],
)
def test_a_new_privilege_is_seen(where: str, changed: Resource) -> None:
    (daemons,) = (one for one in plain("eastwest.yaml") if one["kind"] == "DaemonSet")
    daemons["spec"]["template"]["spec"] |= changed
    assert where in {one.field for one in had([daemons]) - documented()[ALWAYS]}
