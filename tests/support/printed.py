"""What commands print as JSON, against the published schema of the command: no key is there that it does not know."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache

import jsonschema

from support.places import ROOT
from tools.docgen.schemas.documents import printed_models, printed_schemas

MOST = 3
"""Documents of a schema that are judged in a process: the same command prints many alike."""
_JUDGED: Counter[str] = Counter()


def strict(node):
    """The schema of a document in which no other keys are than those that are known."""
    if isinstance(node, list):
        return [strict(each) for each in node]
    if not isinstance(node, dict):
        return node
    found = {key: strict(each) for key, each in node.items()}
    known = isinstance(node.get("properties"), dict) and node.get("type") == "object"
    return {**found, "additionalProperties": False} if known and "additionalProperties" not in node else found


@cache
def validator(name):
    schema = json.loads((ROOT / "docs" / "schemas" / f"{name}.schema.json").read_text("utf-8"))
    return jsonschema.Draft7Validator(strict(schema))


def names_of(words):
    """The schemas of what a command line prints: by its options, by its command, else by the group of its command."""
    by_command = {command: name for name, commands in printed_schemas().items() for command in commands}
    for count in (3, 2, 1):
        path = " ".join(words[:count])
        own = [command for command in printed_models() if command.split(" --")[0] == path]
        chosen = [c for c in own if " --" not in c or f"--{c.split(' --')[1]}" in words]
        if chosen:
            return [by_command[each] for each in sorted(chosen, key=len, reverse=True)]
    return []


def faults(name, document):
    return [f"{list(e.absolute_path)}: {e.message[:200]}" for e in validator(name).iter_errors(document)]


def judge(words, out):
    """Fail where what a command has printed is none of its documents; an error prints none."""
    if not out.lstrip().startswith("{"):
        return
    names = names_of(words)
    assert names, f"{' '.join(words)}: no model has it in `printed_by`"
    if all(_JUDGED[name] >= MOST for name in names):
        return
    documents = [json.loads(line) for line in out.splitlines()] if out.startswith('{"') else [json.loads(out)]
    for document in documents:
        found = {name: faults(name, document) for name in names}
        assert any(not each for each in found.values()), found
    _JUDGED.update(names)
