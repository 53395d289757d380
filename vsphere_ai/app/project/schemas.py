"""JSON Schemas of the tool's files and documents, which the package carries beside its documentation."""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from vsphere_ai.errors import UsageError
from vsphere_ai.model.names.suggestion import suggest
from vsphere_ai.security.files import SMALL, read_text, write_private

SCHEMAS = {
    "playbook": "playbooks",
    "inventory": "inventories",
    "values": "files of values for --vars-file",
    "job": "training jobs",
    "profile": "profiles of health",
    "plan": "plans: plan -o json, and saved ones",
    "check": "check -o json",
    "verify": "verify -o json",
    "capacity": "capacity -o json",
    "trace": "rdma trace -o json",
    "doctor": "doctor -o json",
    "assess": "assess -o json",
    "health": "health -o json",
    "health-idle": "health --idle -o json",
    "ipam-show": "ipam show -o json",
    "ipam-verify": "ipam verify -o json",
    "run": "the lines of apply -o json",
    "fleet-plan": "plans of fleets: fleet plan -o json, and saved ones",
    "fleet-apply": "fleet apply -o json, fleet resume -o json",
    "fleet-status": "fleet status -o json",
}
"""Name of a schema -> what it is of."""

OF_PROJECT = ("playbook", "inventory")
FOLDER = "schemas"
"""Folder of a project with its schemas."""


class WrittenSchema(NamedTuple):
    """A file with a schema, and whether it was there already, the same."""

    path: Path
    unchanged: bool


def schema(name: str) -> str:
    """Return the text of a schema by its name; `UsageError` where there is none."""
    if name not in SCHEMAS:
        raise UsageError(f"there is no schema of '{name}'", suggest(name, SCHEMAS, "there are"), rule="usage.schema")
    return (resources.files("vsphere_ai") / "docs" / "schemas" / f"{name}.schema.json").read_text("utf-8")


def project_schemas(folder: Path) -> dict[Path, str]:
    """Return the schemas that the files of a project name, by their paths, without those that are there."""
    paths = {name: folder / FOLDER / f"{name}.schema.json" for name in OF_PROJECT}
    return {path: schema(name) for name, path in paths.items() if not path.exists()}


def schema_near(name: str, folder: Path) -> str:
    """Return the path of a schema from a folder in which, or in whose `schemas`, it is; empty where it is not."""
    near = (Path(f"{name}.schema.json"), Path(FOLDER) / f"{name}.schema.json")
    return next((path.as_posix() for path in near if (folder / path).is_file()), "")


def write_schema(name: str, path: Path) -> WrittenSchema:
    """Write a schema to a file. `UsageError` where another file than a schema of the same name is there."""
    text = schema(name)
    try:
        present = read_text(path, SMALL) if os.path.lexists(path) else None
        if present == text:
            return WrittenSchema(path, unchanged=True)
        if present is not None and _title(present) != _title(text):
            raise UsageError(
                f"{path} is there, and is no schema of {SCHEMAS[name]}",
                "choose another name, or remove the file",
                rule="usage.not-overwritten",
            )
        write_private(path, text.encode())
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise UsageError(f"{path} cannot be written: {reason}", "choose another file", rule="usage.schema") from error
    return WrittenSchema(path, unchanged=False)


def _title(text: str) -> str:
    """Return the line that names what a schema is of, which holds for each version of it; empty in other files."""
    lines = text.splitlines()[:6]
    known = any('"$schema": "http://json-schema.org/' in line for line in lines)
    return next((line for line in lines if known and line.startswith('  "title": ')), "")
