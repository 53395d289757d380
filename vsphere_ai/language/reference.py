"""References ``${ref:PLAYBOOK.NAME}`` in the values of a playbook: where they are, and the document without them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from vsphere_ai.errors import Mark
from vsphere_ai.language.document import Document, DocumentPath, Faults
from vsphere_ai.language.output import KEY
from vsphere_ai.language.yaml import Node

Scalar = str | int | float | bool
Resolved = Scalar | tuple[Scalar, ...]
_REFERENCE = re.compile(r"\$\{ref:([^{}]*)\}")
_NAMED = re.compile(r"([^\0]+)\.([a-z][a-z0-9_]{0,39})")
SUFFIXES = ("", ".yml", ".yaml")


@dataclass(frozen=True)
class Reference:
    """A reference as it is written, and its place; `file` is the other playbook, `name` its output."""

    text: str
    file: Path
    name: str
    mark: Mark


class Unresolved(ValueError):
    """A reference that has no value; `help` is what would work."""

    def __init__(self, message: str, help: str = "") -> None:
        super().__init__(message)
        self.message, self.help = message, help


Resolve = Callable[[Reference], Resolved]


def unresolved(reference: Reference) -> Resolved:
    """Raise `Unresolved`: no vCenter is asked."""
    raise Unresolved(f"{reference.text} has no value where no vCenter is asked")


def resolved(document: Document, resolve: Resolve, faults: Faults) -> Document:
    """Return a document with the values of its references in their place; what has none is noted.

    A value that is one reference takes the type of the output; in a longer text it is written as text.
    """
    if "${ref:" not in document.text:
        return document
    root = _resolved(document.root, (), document, (resolve, faults))
    return replace(document, root=root, data=root.plain())


def _resolved(node: Node, path: DocumentPath, document: Document, how: tuple[Resolve, Faults]) -> Node:
    if isinstance(node.value, dict):
        return replace(node, value={k: _resolved(v, (*path, k), document, how) for k, v in node.value.items()})
    if isinstance(node.value, list):
        return replace(node, value=[_resolved(v, (*path, n), document, how) for n, v in enumerate(node.value)])
    if not isinstance(node.value, str) or "${ref:" not in node.value:
        return node
    values = dict(_values(node, path, document, how))
    whole = _REFERENCE.fullmatch(node.value)
    if whole is not None:
        return _node(node, values.get(whole[0], node.value), outputs=path[1:2] == (KEY,))
    texts = {written: _text(value, outputs=path[1:2] == (KEY,)) for written, value in values.items()}
    return replace(node, value=_REFERENCE.sub(lambda m: texts.get(m[0], m[0]), node.value))


def _values(
    node: Node, path: DocumentPath, document: Document, how: tuple[Resolve, Faults]
) -> Iterator[tuple[str, Resolved]]:
    resolve, faults = how
    for found in _REFERENCE.finditer(node.value):
        mark = _place(found[0], node, document)
        try:
            value = resolve(_reference(found, mark, document))
            if isinstance(value, tuple) and found[0] != node.value:
                raise Unresolved("this output is a list, and it stands in a text", "make it a value of its own")
            yield found[0], value
        except Unresolved as wrong:
            faults.add(mark, wrong.message, wrong.help, excerpt=document.excerpt(mark, len(found[0])))


def _reference(found: re.Match[str], mark: Mark, document: Document) -> Reference:
    named = _NAMED.fullmatch(found[1].strip())
    help = "write e.g. ${ref:network.rdma_port_group}: a playbook beside this one, and one of its outputs"
    if named is None:
        raise Unresolved(f"'{found[0]}' does not name a playbook and an output", help)
    folder = Path(document.name).parent
    beside = [folder / f"{named[1]}{suffix}" for suffix in SUFFIXES]
    try:
        file = next((f for f in beside if f.is_file()), None)
        inside = file is not None and file.resolve().is_relative_to(folder.resolve())
    except (OSError, ValueError, RuntimeError):
        file, inside = None, False
    if file is None:
        raise Unresolved(f"there is no playbook {beside[1]}", help)
    if not inside:
        raise Unresolved(f"{file} is not below the folder of {document.name}", "put it beside this playbook")
    return Reference(found[0], file, named[2], mark)


def _place(written: str, node: Node, document: Document) -> Mark:
    """Return the place of a reference, where it is on the line on which its value begins."""
    lines = document.text.splitlines()
    line = lines[node.line] if node.line < len(lines) else ""
    column = line.find(written, node.column)
    return Mark(document.name, node.line + 1, (column if column >= 0 else node.column) + 1)


def _node(node: Node, value: Resolved, *, outputs: bool) -> Node:
    if isinstance(value, tuple):
        return replace(node, value=[_node(node, each, outputs=outputs) for each in value], source="")
    kept = _text(value, outputs=outputs) if isinstance(value, str) else value
    return replace(node, value=kept, source=str(value))


def _text(value: Resolved, *, outputs: bool) -> str:
    """Return a value as text; in outputs, where ``${`` means something, as one that means itself."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text.replace("${", "$${") if outputs else text
