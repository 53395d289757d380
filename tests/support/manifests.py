"""Manifests with one fault each: the faulty line says the rule, and a replacement makes the good twin."""

from __future__ import annotations

import re

from vsphere_ai.kubernetes.check import FAMILIES, ManifestCheck, check_documents
from vsphere_ai.language.yaml_files.document import FaultCollector, parse_stream

_MARKED = re.compile(r"\s*# <- (.+)$")


def checked(text: str) -> ManifestCheck:
    faults = FaultCollector()
    found = check_documents(parse_stream(text, "m.yaml", faults), tuple(FAMILIES))
    faults.raise_any()
    return found


def said(text: str) -> set[tuple[int, str]]:
    return {(fault.target.mark.line, fault.rule) for fault in checked(text).findings}


def marked(text: str) -> set[tuple[int, str]]:
    """The lines that end in ``# <- rule rule`` with these rules."""
    found = ((at, _MARKED.search(line)) for at, line in enumerate(text.splitlines(), 1))
    return {(at, rule) for at, mark in found if mark for rule in mark[1].split()}


def twin(text: str, *fixes: tuple[str, str]) -> str:
    for old, new in fixes:
        assert old in text, old
        text = text.replace(old, new)
    return re.sub(r"\s*# <- .+", "", text)
