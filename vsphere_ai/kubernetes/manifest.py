"""Manifests as they are written: YAML documents, each below comments that say what it rests on."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import yaml
from pydantic import JsonValue

from vsphere_ai.model.text import safe

Object = dict[str, JsonValue]
WIDTH = 100
_NUMBER = re.compile(r"[-+]?(\.\d+|\d+(\.\d*)?)([eE][-+]?\d+)?|0o[0-7]+|0x[0-9a-fA-F]+")
"""Texts that YAML 1.2 takes for numbers; PyYAML, which knows 1.1, writes some of them without quotes."""


@dataclass(frozen=True)
class WrittenObject:
    """An object, and the sentences above it."""

    data: Mapping[str, JsonValue]
    comments: tuple[str, ...] = ()


def kubernetes_object(api: str, kind: str, name: str, spec: Object, namespace: str = "") -> Object:
    """Return an object; `api` is ``group/version``."""
    metadata: Object = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec}


class _Dumper(yaml.SafeDumper):
    """Writes short mappings and lists of plain values in one line, everything else in lines of their own."""

    def serialize_node(self, node: yaml.Node, parent: object, index: object) -> None:
        if isinstance(node, yaml.CollectionNode) and node.end_mark is None and len(_words(node)) > WIDTH - 20:
            node.flow_style = False
        super().serialize_node(node, parent, index)


def _words(node: yaml.Node) -> str:
    if isinstance(node, yaml.ScalarNode):
        return str(node.value)
    return ", ".join(_words(part) for each in node.value for part in (each if isinstance(each, tuple) else (each,)))


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else '"' if _NUMBER.fullmatch(value) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def manifest_text(head: Sequence[str], objects: Sequence[WrittenObject]) -> str:
    """Return objects as one text; names in comments come from elsewhere and cannot end them."""
    parts = [comment_text(head)]
    for each in objects:
        body = yaml.dump(dict(each.data), Dumper=_Dumper, sort_keys=False, default_flow_style=None, width=WIDTH)
        parts.append(f"---\n{comment_text(each.comments)}{body}")
    return "".join(parts)


def comment_text(sentences: Sequence[str]) -> str:
    """Return sentences as comments, a line or more each."""
    wrapped = (
        textwrap.wrap(safe(sentence), WIDTH - 2, subsequent_indent="  ", break_on_hyphens=False)
        for sentence in sentences
    )
    return "".join(f"# {line}\n" for lines in wrapped for line in lines)
