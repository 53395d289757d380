"""Playbooks, read from their files."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from vsphere_ai.language.playbooks.play import Kinds, Playbook
from vsphere_ai.language.playbooks.play_reader import PlayReader
from vsphere_ai.language.playbooks.reference import Resolve, unresolved
from vsphere_ai.language.playbooks.variables import Overrides, Variables, read_variables
from vsphere_ai.language.playbooks.varying import Filled
from vsphere_ai.language.yaml_files.document import Document, FaultCollector
from vsphere_ai.language.yaml_files.include import load_with_includes


def load_playbook(
    path: Path, kinds: Kinds, resolve: Resolve = unresolved, overrides: Overrides | None = None
) -> Playbook:
    """Read a playbook, with the files that it includes; `InputError` with every fault in them.

    `resolve` gives the values of references to outputs of other playbooks, `overrides` those of variables. `UsageError`
    when the command line gives a variable that is not declared, or a wrong value.
    """
    faults = FaultCollector()
    document = load_with_includes(path, faults)
    variables = read_variables(document, faults, overrides or Overrides())
    filled = Filled(document, kinds, faults, variables, resolve)
    outputs = PlayReader(filled.document, kinds, faults).outputs(filled.plays)
    faults.raise_any()
    digest = _digest(document, variables)
    return Playbook(
        str(path),
        digest,
        filled.plays,
        document.text,
        outputs,
        variables=filled.shown(),
        varying=filled.varying,
        texts=document.texts,
        uses=filled.uses,
        declared=tuple(variables.declared),
    )


def _digest(document: Document, variables: Variables) -> str:
    """Return the SHA-256 of a playbook's text, of all files that it includes, and of the values of its variables."""
    digest = hashlib.sha256(document.text.encode())
    for name, text in document.texts.items():
        digest.update(f"\0{name}\0{text}".encode("utf-8", "replace"))
    levels = {"": variables.low, **variables.groups, **{f"host {k}": v for k, v in variables.hosts.items()}}
    for level, values in {**levels, "--": variables.high}.items() if variables.declared else ():
        said = sorted((name, given.value) for name, given in values.items())
        digest.update(f"\0{level}\0{json.dumps(said)}".encode("utf-8", "replace"))
    return digest.hexdigest()
