"""JSON Schemas of the tool's files and documents, which the package carries beside its documentation."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from vsphere_ai.errors import UsageError
from vsphere_ai.model.names.suggestion import suggest
from vsphere_ai.security.files import SMALL, read_text, write_private

OF_FILES = {
    "playbook": "playbooks",
    "inventory": "inventories",
    "values": "files of values for --vars-file",
    "job": "training jobs",
    "profile": "profiles of health",
    "baseline": "baselines of benchmarks",
}
"""Name of the schema of a file that is written by hand -> what it is of."""
ENDING = ".schema.json"
PACKAGED = "docs/schemas"
_WORDS = {"Document": "", "One line": "the lines of ", "File": "files of "}
_PRINTED = re.compile(r'(?m)^  "title": "(Document|One line|File) of vsphere-ai (.*), schema_version \d+",?$')
OF_PROJECT = ("playbook", "inventory")
FOLDER = "schemas"
"""Folder of a project with its schemas."""


class WrittenSchema(NamedTuple):
    """A file with a schema, and whether it was there already, the same."""

    path: Path
    unchanged: bool


@cache
def schemas() -> Mapping[str, str]:
    """Return the schemas by their names, each with what it is of: files first, then what commands print."""
    folder = resources.files("vsphere_ai") / PACKAGED
    names = sorted(each.name.removesuffix(ENDING) for each in folder.iterdir() if each.name.endswith(ENDING))
    return {**OF_FILES, **{name: _printed_by(_read(name)) for name in names if name not in OF_FILES}}


def schema(name: str) -> str:
    """Return the text of a schema by its name; `UsageError` where there is none."""
    if name not in schemas():
        raise UsageError(f"there is no schema of '{name}'", suggest(name, schemas(), "there are"), rule="usage.schema")
    return _read(name)


def _read(name: str) -> str:
    return (resources.files("vsphere_ai") / PACKAGED / f"{name}{ENDING}").read_text("utf-8")


def _printed_by(text: str) -> str:
    """Return which commands print what a schema is of."""
    title = _PRINTED.search(text)
    return "" if title is None else f"{_WORDS[title[1]]}{title[2]}"


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
                f"{path} is there, and is no schema of {schemas()[name]}",
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
