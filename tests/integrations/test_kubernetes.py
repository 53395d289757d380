"""Manifests of `k8s/`: whole in themselves, restricted, without secrets, with command lines that the programs take."""

from __future__ import annotations

import re
from importlib.metadata import requires

import pytest
import yaml
from support.containers import base, is_image, pinned
from support.kubernetes_manifests import FILES, FOLDER, command_line, documents, everything, named, pods
from support.places import ROOT

from vsphere_ai.cli.main import command as program
from vsphere_ai.language.inventories.inventory import load_inventory

KINDS = {
    "Namespace": "v1", "Service": "v1", "ConfigMap": "v1", "PersistentVolumeClaim": "v1", "Deployment": "apps/v1",
    "Job": "batch/v1", "NetworkPolicy": "networking.k8s.io/v1", "Issuer": "cert-manager.io/v1",
    "Certificate": "cert-manager.io/v1",
}  # fmt: skip
BY_HAND = {"vcenter-berlin": "create secret generic vcenter-berlin", "fleet-plan": "create configmap fleet-plan"}
"""What is not in a manifest, and the command in a comment that makes it."""


def test_each_document_has_its_kind_its_name_and_the_namespace():
    for path in FILES:
        for each in documents(path):
            assert each["apiVersion"] == KINDS[each["kind"]], path
            assert re.fullmatch(r"[a-z0-9-]{1,63}", each["metadata"]["name"])
            assert each["kind"] == "Namespace" or each["metadata"]["namespace"] == "vsphere-ai", path
            assert "spec" in each or each["kind"] in ("Namespace", "ConfigMap")
    names = [(d["kind"], d["metadata"]["name"]) for d in everything()]
    assert len(names) == len(set(names))


def test_the_kustomization_has_every_file_but_the_one_that_changes_something():
    given = yaml.safe_load((FOLDER / "kustomization.yaml").read_text("utf-8"))
    assert {FOLDER / each for each in given["resources"]} == {p for p in FILES if p.name != "coordinator.yaml"}
    assert given["namespace"] == "vsphere-ai"


def test_selectors_select_the_pods_that_are_meant():
    labels = {name: pod["metadata"]["labels"] for name, pod in pods().items()}

    def selected(wanted):
        return {name for name, own in labels.items() if wanted.items() <= own.items()}

    for each in everything():
        name = f"{each['kind']}/{each['metadata']['name']}"
        if each["kind"] == "Deployment":
            assert selected(each["spec"]["selector"]["matchLabels"]) == {name}
        elif each["kind"] == "Service":
            assert len(selected(each["spec"]["selector"])) == 1, name
        elif each["kind"] == "NetworkPolicy" and each["spec"]["podSelector"]:
            assert selected(each["spec"]["podSelector"]["matchLabels"]), name


@pytest.mark.parametrize("name", sorted(pods()))
def test_what_is_mounted_is_there(name):
    spec = pods()[name]["spec"]
    (container,) = spec["containers"]
    volumes = {v["name"]: v for v in spec["volumes"]}
    assert {m["name"] for m in container["volumeMounts"]} == set(volumes)
    known = {
        "configMap": {d["metadata"]["name"] for d in everything() if d["kind"] == "ConfigMap"},
        "persistentVolumeClaim": {d["metadata"]["name"] for d in everything() if d["kind"] == "PersistentVolumeClaim"},
        "secret": {d["spec"]["secretName"] for d in everything() if d["kind"] == "Certificate"},
    }
    text = "".join(path.read_text("utf-8") for path in FILES)
    for each in volumes.values():
        for kind, key in (("configMap", "name"), ("secret", "secretName"), ("persistentVolumeClaim", "claimName")):
            if kind in each and each[kind][key] not in known[kind]:
                assert BY_HAND[each[kind][key]] in text
    mounts = {m["mountPath"] for m in container["volumeMounts"]}
    files = [word for word in command_line(pods()[name]) if word.startswith("/")]
    assert files
    assert all(any(file.startswith(f"{mount}/") for mount in mounts) for file in files)
    written = [m["mountPath"] for m in container["volumeMounts"] if not m.get("readOnly")]
    state = [e["value"] for e in container["env"] if e["name"] == "VSPHERE_AI_STATE_DIR"]
    assert all(any(path.startswith(mount) for mount in written) for path in state)


@pytest.mark.parametrize("name", sorted(pods()))
def test_a_pod_is_restricted(name):
    spec = pods()[name]["spec"]
    (container,) = spec["containers"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {"requests", "limits"} <= container["resources"].keys()
    if command_line(pods()[name])[0] == "vsphere-ai":
        assert spec["terminationGracePeriodSeconds"] >= 1800, "a host may be in the middle of its reboot"


def test_the_command_lines_are_those_of_the_programs(tmp_path):
    from distributed.cli.dask_scheduler import main as scheduler

    for name, pod in pods().items():
        dask, *arguments = command_line(pod)
        group, *rest = arguments
        if dask == "dask":
            assert group == "scheduler"
            (tmp_path / "any").touch()
            here = [str(tmp_path / "any") if word.startswith("/tls/") else word for word in rest]
            context = scheduler.make_context("scheduler", here)
            assert (context.params["dashboard"], context.params["host"]) == (False, "tls://0.0.0.0:8786")
            assert context.params["dashboard_address"] == "127.0.0.1:0"
            assert all(context.params[f"tls_{each}"] for each in ("ca_file", "cert", "key"))
            continue
        context = program.make_context("vsphere-ai", arguments.copy())
        command = program.get_command(context, group)
        inner = command.make_context(group, rest.copy(), parent=context)
        final = command.get_command(inner, rest[0])
        made = final.make_context(rest[0], rest[1:], parent=inner)
        assert made.params, name


def test_nothing_of_a_fleet_works_without_tls():
    """No address without it; each process has its certificate; and Dask refuses to connect or to listen without."""
    assert "tcp://" not in "".join(path.read_text("utf-8") for path in FILES)
    (container,) = pods()["Deployment/scheduler"]["spec"]["containers"]
    given = {e["name"]: e["value"] for e in container["env"]}
    assert given["DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION"] == "True"
    assert given["DASK_DISTRIBUTED__SCHEDULER__HTTP__ROUTES"] == "[]"
    for name, pod in pods().items():
        words = command_line(pod)
        assert [w for w in words if "://" in w and "tls://" not in w] == []
        options = {"--tls-ca-file" if words[0] == "dask" else "--tls-ca", "--tls-cert", "--tls-key"}
        assert options <= set(words), name


def test_the_namespace_enforces_and_warns_of_what_is_not_restricted():
    labels = named("Namespace", "vsphere-ai")["metadata"]["labels"]
    for mode in ("enforce", "audit", "warn"):
        assert labels[f"pod-security.kubernetes.io/{mode}"] == "restricted"
        assert labels[f"pod-security.kubernetes.io/{mode}-version"] == "latest"


def test_settings_of_dask_are_such():
    import dask
    import distributed  # noqa: F401 - it brings its settings

    (container,) = pods()["Deployment/scheduler"]["spec"]["containers"]
    given = {e["name"]: e["value"] for e in container["env"]}
    for name, value in given.items():
        path = name.removeprefix("DASK_").lower().replace("__", ".").replace("_", "-")
        assert dask.config.get(path, default="absent") != "absent", name
        assert value in ("True", "False", "0", "[]", "/tmp"), name


def test_ports_of_policies_services_and_command_lines_agree():
    assert named("Service", "scheduler")["spec"]["ports"][0]["port"] == 8786
    assert named("Service", "coordinator")["spec"]["ports"][0]["port"] == 8788
    assert "$(POD_IP):8788" in command_line(pods()["Job/campaign"])
    for name in ("scheduler", "coordinator"):
        port = named("Service", name)["spec"]["ports"][0]["port"]
        (rule,) = named("NetworkPolicy", name)["spec"]["ingress"]
        assert rule["ports"] == [{"protocol": "TCP", "port": port}]
        pod = pods()["Deployment/scheduler" if name == "scheduler" else "Job/campaign"]
        assert pod["spec"]["containers"][0]["ports"] == [{"name": name, "containerPort": port}]
    allowed = {p["port"] for rule in named("NetworkPolicy", "worker")["spec"]["egress"] for p in rule["ports"]}
    assert allowed == {8786, 8788, 443, 22}
    assert named("NetworkPolicy", "nothing-else")["spec"]["podSelector"] == {}


def test_the_inventory_of_a_site_is_one_and_has_what_its_worker_serves(tmp_path):
    (text,) = named("ConfigMap", "inventory-berlin")["data"].values()
    (tmp_path / "inventory.yml").write_text(text, "utf-8")
    known = load_inventory(tmp_path / "inventory.yml").vcenters
    words = command_line(pods()["Deployment/worker-berlin"])
    assert words[words.index("--vcenter") + 1] in known
    assert 'password: "cmd:cat /secrets/vcenter/password"' in text


def test_no_secret_is_in_them():
    for path in [p for p in FOLDER.rglob("*") if p.is_file()]:
        text = path.read_text("utf-8")
        assert "PRIVATE KEY" not in text
        assert not re.search(r"(?m)^kind: Secret$|stringData", text)
        assert not re.search(r"(?i)\b(password|token):\s*(?!\"cmd:)\S", text), path


def test_the_image_is_the_other_one_with_exactly_what_fleets_need():
    text = (FOLDER / "Containerfile").read_text("utf-8")
    assert text.rstrip().endswith("USER vsphere-ai")
    (install,) = re.findall(r"(?m)^RUN pip install (.+)$", text)
    assert install == "--no-cache-dir --require-hashes --requirement /tmp/requirements.lock"
    assert "COPY k8s/requirements.lock /tmp/requirements.lock" in text
    locked = (FOLDER / "requirements.lock").read_text("utf-8")
    names = re.findall(r"(?m)^([a-z0-9-]+)==([\w.]+)", locked)
    hashes = re.split(r"(?m)^[a-z0-9-]+==", locked)[1:]
    assert len(hashes) == len(names)
    assert all("--hash=sha256:" in each for each in hashes)
    from packaging.requirements import Requirement

    (needed,) = [Requirement(each) for each in requires("vsphere-ai") if each.startswith("distributed")]
    assert needed.specifier.contains(dict(names)["distributed"])
    known = dict(re.findall(r"(?m)^([a-z0-9-]+)==([\w.]+)", (ROOT / "requirements.lock").read_text("utf-8")))
    assert {name: text for name, text in names if known.get(name, text) != text} == {}, "make lock"


def test_no_image_is_built_on_a_base_without_a_digest():
    digest = "sha256:" + 64 * "0"
    text = (FOLDER / "Containerfile").read_text("utf-8")
    own = (ROOT / "integrations" / "container" / "Containerfile").read_text("utf-8")
    assert pinned(text, BASE="registry.example.com/vsphere-ai", BASE_DIGEST=digest)
    assert pinned(own, PYTHON_DIGEST=digest)
    for wrong in ("", "latest", ":latest", "sha256:", digest[:-1], "sha256:latest"):
        assert not is_image(base(text, BASE="registry.example.com/vsphere-ai", BASE_DIGEST=wrong)), wrong
        assert not is_image(base(own, PYTHON_DIGEST=wrong)), wrong
    assert not is_image(base(text))
    assert not is_image(base(own))


def test_every_pod_runs_one_image_that_is_named_by_its_digest():
    """That of the manifests is none that is there: until it is replaced, nothing is pulled in its name."""
    images = {pod["spec"]["containers"][0]["image"] for pod in pods().values()}
    assert images == {"registry.example.com/vsphere-ai-fleet@sha256:" + 64 * "0"}
