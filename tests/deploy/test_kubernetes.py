"""The manifests of deploy/kubernetes: they fit Kubernetes's schemas, and agree with the program and its image."""

import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import msgspec
import pytest

from sepu import limits
from sepu.cli.serve import serve

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "deploy" / "kubernetes"
PAGE = (ROOT / "docs" / "kubernetes.md").read_text("utf-8")
OBJECTS: dict[str, dict[str, Any]] = {
    f"{file.name}: {one['kind']}": one
    for file in sorted(MANIFESTS.iterdir())
    for one in map(msgspec.yaml.decode, file.read_text("utf-8").split("\n---\n"))
}
# As in the Dockerfile: the service, the owner's commands, and people's.
USERS = {"sepu-service": 10001, "sepu-owner": 10004, "sepu-accounts": 10005}


def pod(one: dict[str, Any]) -> dict[str, Any] | None:
    """The pod of an object, if it creates one."""
    spec = one["spec"]
    if one["kind"] == "CronJob":
        spec = spec["jobTemplate"]["spec"]
    found: dict[str, Any] | None = spec if one["kind"] == "Pod" else spec.get("template", {}).get("spec")
    return found


PODS = {name: found for name, one in OBJECTS.items() if (found := pod(one))}


@pytest.mark.parametrize("name", OBJECTS)
def test_a_manifest_fits_the_schemas_that_the_page_names(name: str) -> None:
    (versions,) = re.findall(r"Kubernetes (1\.\d+) and (1\.\d+)", PAGE)
    for version in versions:
        assert kubernetes_validate.validate(OBJECTS[name], version, strict=True) == version


@pytest.mark.parametrize("name", PODS)
def test_a_pod_can_do_little(name: str) -> None:
    spec = PODS[name]
    (container,) = spec["containers"]
    ((volume, secret),) = [(one["name"], one["secret"]["secretName"]) for one in spec["volumes"] if "secret" in one]
    (mount,) = [one["mountPath"] for one in container["volumeMounts"] if one["name"] == volume]
    assert {"name": "PGSERVICEFILE", "value": f"{mount}/pg_service.conf"} in container["env"]
    assert spec["enableServiceLinks"] is spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"]
    assert spec["securityContext"]["runAsUser"] == USERS[secret]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["resources"]["limits"].keys() == {"memory"}


def test_roles_get_the_rights_that_they_get_with_containers() -> None:
    files = (ROOT / "compose.yaml", MANIFESTS / "migrate.yaml")
    composed, ours = (dict(re.findall(r"sepu db grant (\w+) --for ([\w-]+)", file.read_text())) for file in files)
    assert ours == {role: composed[role] for role in ("sepu_service", "sepu_accounts")}


def test_the_service_is_started_asked_and_stopped_as_it_expects() -> None:
    spec = PODS["sepu.yaml: Deployment"]
    (container,) = spec["containers"]
    settings = {one["name"]: one["value"] for one in container["env"]}
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    defaults = {option.envvar: option.default for option in serve.params}
    assert settings.keys() - {"PGSERVICEFILE"} <= defaults.keys()
    assert ports == {"http": defaults["SEPU_PORT"], "metrics": int(settings["SEPU_METRICS_BIND"].rpartition(":")[2])}
    probes = {kind: container[f"{kind}Probe"]["httpGet"]["path"] for kind in ("liveness", "readiness")}
    assert probes == {"liveness": "/healthz", "readiness": "/readyz"}
    assert OBJECTS["sepu.yaml: Deployment"]["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    waited = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert waited + limits.workers.GRACEFUL_SECONDS < spec["terminationGracePeriodSeconds"]


def test_labels_and_ports_meet() -> None:
    deployment, service = OBJECTS["sepu.yaml: Deployment"]["spec"], OBJECTS["sepu.yaml: Service"]["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    for selector in (
        deployment["selector"]["matchLabels"],
        service["selector"],
        OBJECTS["sepu.yaml: PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        OBJECTS["sepu.yaml: NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
    ):
        assert selector == labels
    (path,) = OBJECTS["sepu.yaml: Ingress"]["spec"]["rules"][0]["http"]["paths"]
    (port,) = service["ports"]
    assert path["backend"]["service"] == {"name": "sepu", "port": {"name": port["name"]}}
    (container,) = PODS["sepu.yaml: Deployment"]["containers"]
    assert port["targetPort"] in {one["name"] for one in container["ports"]}
    admitted = {
        one["from"][0]["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"]: one["ports"]
        for one in OBJECTS["sepu.yaml: NetworkPolicy"]["spec"]["ingress"]
    }
    assert admitted == {"ingress": [{"port": port["targetPort"]}], "monitoring": [{"port": "metrics"}]}


def test_the_page_names_each_file() -> None:
    assert set(re.findall(r"deploy/kubernetes/([\w-]+\.yaml)", PAGE)) == {file.name for file in MANIFESTS.iterdir()}
