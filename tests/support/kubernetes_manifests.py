"""The manifests of `k8s/`: their documents, pods, and command lines."""

from __future__ import annotations

import yaml

from support.places import ROOT

FOLDER = ROOT / "k8s"
FILES = sorted(p for p in FOLDER.rglob("*.yaml") if p.name != "kustomization.yaml")


def documents(path):
    return [each for each in yaml.safe_load_all(path.read_text("utf-8")) if each]


def everything():
    return [each for path in FILES for each in documents(path)]


def named(kind, name):
    (found,) = (d for d in everything() if d["kind"] == kind and d["metadata"]["name"] == name)
    return found


def pods():
    """The template of each workload, by its kind and name."""
    return {
        f"{d['kind']}/{d['metadata']['name']}": d["spec"]["template"]
        for d in everything()
        if d["kind"] in ("Deployment", "Job")
    }


def command_line(pod):
    """The command and the arguments of the one container of a pod."""
    (container,) = pod["spec"]["containers"]
    return [*container["command"], *container["args"]]
