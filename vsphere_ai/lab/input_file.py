"""YAML files of the lab, read as nodes: scalars as they are written, and every fault with its place."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from vsphere_ai.errors import Mark
from vsphere_ai.language.yaml_files.document import Document, FaultCollector, load, parse
from vsphere_ai.language.yaml_files.yaml import MAX_NODES, YamlNode


class InputFile:
    """A file that is being read; `faults` collects everything that is wrong with it."""

    def __init__(self, document: Document, faults: FaultCollector) -> None:
        self.document, self.root, self.faults = document, document.root, faults

    @classmethod
    def of(cls, source: Path | str, name: str = "", most: int = MAX_NODES) -> InputFile:
        """Read a file, or a text that `name` stands for; `InputError` when it is not YAML, or has too many values."""
        faults = FaultCollector()
        read = load(source, faults, most) if isinstance(source, Path) else parse(source, name, faults, most)
        return cls(read, faults)

    def mark(self, node: YamlNode) -> Mark:
        """Return where a value starts."""
        return Mark(self.document.name, node.line + 1, node.column + 1)

    def fault(self, node: YamlNode, message: str, help: str = "") -> None:
        """Note a fault of a value."""
        mark = self.mark(node)
        self.faults.add(mark, message, help, excerpt=self.document.excerpt(mark, node.width))

    def key(self, node: YamlNode, key: str) -> YamlNode:
        """Return a key of a mapping as a node, for a fault of it."""
        return YamlNode(key, *node.keys[key], width=max(1, len(key)))

    def unknown(self, node: YamlNode, key: str, known: Iterable[str], what: str) -> None:
        """Note that `what` has no field of this name."""
        near = difflib.get_close_matches(key, known, 1)
        help = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(known)}"
        self.fault(self.key(node, key), f"unknown field '{key}' of a {what}", help)


def is_scalar(node: YamlNode) -> bool:
    """Whether a node is a single value."""
    return not isinstance(node.value, dict | list)


def written(node: YamlNode) -> Any:
    """Return what is written at a node as nested tuples of texts, by which it can be compared and shown."""
    if isinstance(node.value, dict):
        return tuple((key, written(below)) for key, below in node.value.items())
    if isinstance(node.value, list):
        return tuple(written(below) for below in node.value)
    return node.source
