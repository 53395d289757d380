"""Merge keys: ``<<: *NAME`` in the mappings of a file, as YAML 1.1 describes them (https://yaml.org/type/merge.html).

They are shallow: own keys win, and of a list the earlier mapping.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from vsphere_ai.language.yaml_files import document as documents
from vsphere_ai.language.yaml_files.document import Document, FaultCollector, describe
from vsphere_ai.language.yaml_files.yaml import MAX_NODES, MERGE, YamlNode

HELP = "write '<<: *NAME', or '<<: [*ONE, *TWO]', each the alias of a mapping"


def load(path: Path, faults: FaultCollector, most: int = MAX_NODES, *, included: bool = False) -> Document:
    """Read a YAML file as `document.load` does, with what its merge keys mean in their place.

    Of a file that another one includes, each value knows the file.
    """
    document = documents.load(path, faults, most)
    return merged(document, faults, document.name) if included else merged(document, faults)


def merged(document: Document, faults: FaultCollector, file: str = "") -> Document:
    """Return a document with what its merge keys mean in their place; each value is of `file`, where that is given."""
    if MERGE not in document.text and not file:
        return document
    root = _Merging(document, faults, file).node(document.root)
    return replace(document, root=root, data=root.plain())


class _Merging:
    """Makes new nodes; those that are used several times, by aliases, once."""

    def __init__(self, document: Document, faults: FaultCollector, file: str) -> None:
        self.document, self.faults, self.file = document, faults, file
        self.made: dict[int, YamlNode] = {}

    def node(self, node: YamlNode) -> YamlNode:
        """Return a node whose mappings have no merge keys any more."""
        known = self.made.get(id(node))
        if known is None:
            known = self.made[id(node)] = self._made(node)
        return known

    def _made(self, node: YamlNode) -> YamlNode:
        if isinstance(node.value, list):
            return replace(node, value=[self.node(each) for each in node.value], file=self.file)
        if not isinstance(node.value, dict):
            return replace(node, file=self.file) if self.file else node
        own = {key: self.node(each) for key, each in node.value.items() if key != MERGE}
        places = {key: place for key, place in node.keys.items() if key != MERGE}
        for other in self._sources(node):
            own |= {key: each for key, each in other.value.items() if key not in own}
            places = {**other.keys, **places}
        return replace(node, value=own, keys=places, file=self.file)

    def _sources(self, node: YamlNode) -> list[YamlNode]:
        """Return the mappings that a merge key takes; the later ones of a list give what is not there yet."""
        if MERGE not in node.value:
            return []
        given = node.value[MERGE]
        items = given.value if isinstance(given.value, list) else [given]
        for item in items:
            if not isinstance(item.value, dict):
                mark = self.document.mark_at(item)
                text = f"'<<' takes a mapping, or a list of mappings, but this is {describe(item.plain(), item.source)}"
                self.faults.add(mark, text, HELP, excerpt=self.document.excerpt(mark, item.width))
        return [self.node(item) for item in items if isinstance(item.value, dict)]
