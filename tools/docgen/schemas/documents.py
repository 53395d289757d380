"""JSON Schemas of jobs, profiles of health, and of every document that a command prints: of its model alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, reduce
from importlib import import_module
from operator import or_
from pathlib import Path

from pydantic import BaseModel

import vsphere_ai
from tools.docgen.schemas.draft7 import DRAFT, Schema, schema_of
from vsphere_ai.benchmarks.baseline_file import BaselineFile
from vsphere_ai.documents.part import DocumentPart
from vsphere_ai.documents.printed import SCHEMA_VERSION, PrintedDocument, PrintedLine
from vsphere_ai.health.profile import HealthProfile
from vsphere_ai.training.job import TrainingJob

_PROGRAMS = ("script", "module", "command")
Models = tuple[type[DocumentPart], ...]


def job_schema() -> Schema:
    """Return the schema of training jobs."""
    made = _file(TrainingJob, "Training job of vsphere-ai")
    program = [{"required": [each], "properties": {each: {"not": {"type": "null"}}}} for each in _PROGRAMS]
    return {**made, "oneOf": program}


def baseline_schema() -> Schema:
    """Return the schema of baselines of benchmarks."""
    return _file(BaselineFile, "Baseline of benchmarks of vsphere-ai")


def profile_schema() -> Schema:
    """Return the schema of profiles of health."""
    return _file(HealthProfile, "Profile of health of vsphere-ai")


def _file(model: type[BaseModel], title: str) -> Schema:
    definitions: dict[str, Schema] = {}
    made = schema_of(model, definitions)
    return {"$schema": DRAFT, "title": title, **made, "definitions": dict(sorted(definitions.items()))}


@cache
def printed_models() -> Mapping[str, Models]:
    """Return the models of what each command prints, by the command as it is typed; of several, it prints one."""
    root = Path(vsphere_ai.__file__).parent
    for path in sorted(root.rglob("*.py")):
        if "printed_by: ClassVar" in path.read_text("utf-8"):
            import_module(".".join(("vsphere_ai", *path.relative_to(root).with_suffix("").parts)))
    found: dict[str, list[type[DocumentPart]]] = {}
    for model in (*_below(PrintedDocument), *_below(PrintedLine)):
        for command in vars(model).get("printed_by", ()):
            found.setdefault(command, []).append(model)
    return {command: tuple(dict.fromkeys(models)) for command, models in sorted(found.items())}


def _below(model: type[DocumentPart]) -> Iterator[type[DocumentPart]]:
    for each in model.__subclasses__():
        yield each
        yield from _below(each)


@cache
def printed_schemas() -> Mapping[str, tuple[str, ...]]:
    """Return the commands of each schema, by its name: that of the first command whose models it is of."""
    named: dict[str, list[str]] = {}
    of: dict[Models, str] = {}
    by_rank = sorted(printed_models(), key=_rank)
    for command in by_rank:
        name = of.setdefault(printed_models()[command], command.replace(" --", " ").replace(" ", "-"))
        named.setdefault(name, []).append(command)
    return {name: tuple(commands) for name, commands in sorted(named.items())}


def _rank(command: str) -> tuple[int, str]:
    """Return by what commands are sorted: as the model of the first one names them."""
    first = printed_models()[command][0]
    return vars(first)["printed_by"].index(command), command


def printed_schema(name: str) -> Schema:
    """Return the schema of what commands print, by its name in `printed_schemas`."""
    commands = printed_schemas()[name]
    models = printed_models()[commands[0]]
    definitions: dict[str, Schema] = {}
    made = schema_of(reduce(or_, models), definitions, mode="serialization")
    what = "One line" if issubclass(models[0], PrintedLine) else "Document"
    by = f"{', '.join(commands)} -o json"
    if commands[0].endswith(" --to"):
        what, by = "File", commands[0]
    title = f"{what} of vsphere-ai {by}, schema_version {SCHEMA_VERSION}"
    for each in (made, *definitions.values()):
        if "schema_version" in each.get("properties", {}) and each.get("type") == "object":
            each["required"] = list(dict.fromkeys(("schema_version", *each.get("required", ()))))
    return {"$schema": DRAFT, "title": title, **made, "definitions": dict(sorted(definitions.items()))}
