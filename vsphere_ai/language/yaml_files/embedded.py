"""YAML documents inside of others: as text in a ConfigMap or Helm values, or one of several in a file; with places.

An operator has a program's configuration as it is deployed, not as the program reads it. What is found keeps the lines
and columns of the file. The programs are written in Go: values are as those take them (`go_values`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from vsphere_ai.errors import InputError
from vsphere_ai.language.yaml_files.document import Document, FaultCollector, parse, parse_stream, text_of
from vsphere_ai.language.yaml_files.go_values import go_data
from vsphere_ai.language.yaml_files.merge_keys import merged
from vsphere_ai.language.yaml_files.yaml import YamlNode


@dataclass(frozen=True)
class _Held:
    """A document that has the key, and the name of the object that it lies in; empty for one that stands alone."""

    document: Document
    owner: str


def load_holding(path: Path, key: str, faults: FaultCollector) -> Document:
    """Read the document with a key of a YAML file, however it is wrapped, with the values that a program in Go reads.

    Several of them become one, where each key below `key` has the name of its object before it if another has it, too.
    Where no document has the key, the first one is returned as it is. A key that is given twice is a fault where the
    values differ: the program takes the last one without a word.
    """
    text = text_of(path)
    roots = parse_stream(text, str(path), faults, repeated=True)
    held = [each for root in roots for each in _held(root, key, faults)]
    if not held:
        return roots[0] if roots else parse(text, str(path), faults, repeated=True)
    holding = merged(held[0].document if len(held) == 1 else _joined(held, key), faults)
    return replace(holding, data=go_data(holding.root))


def _held(document: Document, key: str, faults: FaultCollector) -> Iterator[_Held]:
    root = document.root
    if isinstance(root.value, dict) and key in root.value:
        yield _Held(document, "")
        return
    yield from _below(document, root, key, "", faults)


def _below(document: Document, node: YamlNode, key: str, owner: str, faults: FaultCollector) -> Iterator[_Held]:
    owner = _name(node) or owner
    below = node.value.values() if isinstance(node.value, dict) else node.value if isinstance(node.value, list) else ()
    for child in below:
        if isinstance(child.value, str):
            if re.search(rf"^\s*[\"']?{re.escape(key)}[\"']?\s*:", child.value, re.MULTILINE):
                yield from ((_Held(each, owner)) for each in _opened(document, child, key, faults))
        else:
            yield from _below(document, child, key, owner, faults)


def _name(node: YamlNode) -> str:
    """Return the name of a Kubernetes object, or of a part of Helm values that has one."""
    meta = node.child("metadata")
    named = (meta if meta is not None else node).child("name") if isinstance(node.value, dict) else None
    return named.value if named is not None and isinstance(named.value, str) else ""


def _opened(document: Document, node: YamlNode, key: str, faults: FaultCollector) -> list[Document]:
    """Return the document in a scalar where it has a key."""
    inner = opened(document, node, faults, repeated=True)
    return [inner] if inner is not None and isinstance(inner.root.value, dict) and key in inner.root.value else []


def opened(document: Document, node: YamlNode, faults: FaultCollector, *, repeated: bool = False) -> Document | None:
    """Return the document in a scalar: of a block (``|``) with the places that it has in the file.

    None, with the fault noted, where it is no YAML. `repeated`: see `read_stream`.
    """
    block = _block(document.text, node)
    own = FaultCollector()
    try:
        if block is None:
            inner = parse(node.value, f"{document.name}:{node.line + 1}", own, repeated=repeated)
        else:
            padded = parse(block, document.name, own, repeated=repeated)
            inner = Document(document.name, document.text, padded.root, padded.data)
    except InputError as error:
        faults.include(error)
        return None
    faults.include(InputError(own.found))
    return inner


def _block(text: str, node: YamlNode) -> str | None:
    """Return the lines of a literal block at their places in the file, the lines before them empty; None for others."""
    lines = text.split("\n")
    if not re.search(r"\|[-+0-9]*\s*(#.*)?\r?$", lines[node.line]):
        return None
    first = node.line + 1
    while first < len(lines) and not lines[first].strip():
        first += 1
    indent = len(lines[first]) - len(lines[first].lstrip(" ")) if first < len(lines) else 0
    last = first
    while last < len(lines) and (not lines[last].strip() or lines[last].startswith(" " * max(indent, 1))):
        last += 1
    return "\n" * first + "\n".join(lines[first:last])


def _joined(held: Sequence[_Held], key: str) -> Document:
    """Return one document of several: their keys, of which the first counts, and together what is below `key`."""
    first = held[0].document
    below: dict[str, YamlNode] = {}
    keys: dict[str, tuple[int, int]] = {}
    root = YamlNode({}, first.root.line, first.root.column)
    for document, owner in ((each.document, each.owner) for each in held):
        for name, node in document.root.value.items():
            if name != key:
                root.value.setdefault(name, node)
                root.keys.setdefault(name, document.root.keys[name])
        part = document.root.value[key]
        for name, node in part.value.items() if isinstance(part.value, dict) else ():
            unique = name if name not in below else f"{owner or f'document {len(below)}'}/{name}"
            below[unique], keys[unique] = node, part.keys[name]
    for name in set(root.value):
        missing = next((e.document for e in held if name not in e.document.root.value), None)
        if missing is not None:  # what one of them lacks is missing, at its place
            del root.value[name], root.keys[name]
            root.line, root.column = missing.root.line, missing.root.column
    root.value[key] = YamlNode(below, first.root.value[key].line, first.root.value[key].column, keys=keys)
    root.keys[key] = first.root.keys[key]
    return Document(first.name, first.text, root, root.plain())
