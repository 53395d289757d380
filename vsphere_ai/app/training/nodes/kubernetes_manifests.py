"""Kubernetes manifests: whether objects of Spiderpool and of the NVIDIA Network Operator keep their rules."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vsphere_ai.kubernetes.check import FAMILIES, MAX_VALUES, ManifestCheck, check_documents
from vsphere_ai.language.yaml_files.document import (
    MAX_BYTES,
    Document,
    FaultCollector,
    decode,
    parse_stream,
    quotable_text,
    require,
)
from vsphere_ai.model.finding import Finding

STDIN = "-"


@dataclass(frozen=True)
class ManifestsRequest:
    """Files of manifests in YAML or JSON, ``-`` being standard input, and whose objects are checked.

    `families` are of `spiderpool` and `network-operator`.
    """

    files: Sequence[Path]
    families: Sequence[str] = tuple(FAMILIES)


@dataclass(frozen=True)
class ManifestsResult:
    """What was found in manifests."""

    checked: ManifestCheck

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was checked, and what is wrong with it."""
        return (*self.checked.summary, *self.checked.findings)


def check_manifests(request: ManifestsRequest) -> ManifestsResult:
    """Check objects alone and together, over all files; `InputError` when a file is no YAML.

    What another project's objects say is not looked at; they are counted.
    """
    faults = FaultCollector()
    documents = [document for file in request.files for document in _documents(file, faults)]
    faults.raise_any()
    return ManifestsResult(check_documents(documents, request.families))


def _documents(file: Path, faults: FaultCollector) -> list[Document]:
    if str(file) == STDIN:
        text, name = decode(sys.stdin.buffer.read(MAX_BYTES + 1), "stdin"), "stdin"
    else:
        require(file, "file")
        text, name = quotable_text(file), str(file)
    return parse_stream(text, name, faults, MAX_VALUES)
