"""Printed documents: every command with `-o json` has one, and every document has a command that prints it."""

from __future__ import annotations

import click
import pytest
from support.printed import names_of

from tools.docgen.schemas.documents import printed_models, printed_schemas
from vsphere_ai.cli.main import command as root
from vsphere_ai.documents.printed import PrintedDocument, PrintedLine


def commands(group=root, path=()):
    """Every command with the words that call it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        if isinstance(found, click.Group):
            yield from commands(found, (*path, name))
        else:
            yield (*path, name), found


EVERY = {" ".join(path): found for path, found in commands()}
WITH_JSON = [
    path
    for path, found in EVERY.items()
    for option in found.params
    if "-o" in option.opts and "json" in getattr(option.type, "choices", ())
]


def test_commands_with_json_are_found():
    assert {"plan", "apply", "launch torchrun", "bench nccl", "mig explain", "lab judge"} <= set(WITH_JSON)


@pytest.mark.parametrize("path", WITH_JSON)
def test_a_command_with_json_has_a_model(path):
    assert names_of(path.split()) or names_of([*path.split(), "--check"])


def test_what_a_model_is_printed_by_is_a_command_with_this_option():
    wrong = []
    groups = {path.rpartition(" ")[0] for path in EVERY}
    for each in printed_models():
        path, _, option = each.partition(" --")
        of_group = [EVERY[p] for p in EVERY if p.rpartition(" ")[0] == path] if path in groups else []
        found = [EVERY[path]] if path in EVERY else of_group
        if not found or (option and not any(f"--{option}" in p.opts for f in found for p in f.params)):
            wrong.append(each)
    assert wrong == []


def test_a_schema_is_of_each_printed_model():
    of_schemas = {m for commands in printed_schemas().values() for c in commands for m in printed_models()[c]}
    concrete = {m for models in printed_models().values() for m in models}
    assert of_schemas == concrete
    names = [model.__name__ for model in concrete]
    assert len(names) == len(set(names))
    assert all(issubclass(model, PrintedDocument | PrintedLine) for model in concrete)


def test_a_document_has_its_schema_version_first_and_its_findings_last():
    for models in printed_models().values():
        for model in models:
            if issubclass(model, PrintedDocument):
                assert next(iter(model.model_fields)) == "schema_version", model
