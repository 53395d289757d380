"""Documents of acceptance: the certificate as its file and `accept` have it, and what has changed since."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields
from datetime import datetime
from typing import Annotated, ClassVar, Self

from pydantic import Field

from vsphere_ai.documents.findings import FindingsDocument
from vsphere_ai.documents.part import DocumentPart
from vsphere_ai.documents.printed import PrintedDocument
from vsphere_ai.documents.stored import read_document
from vsphere_ai.health.certificate import Certificate, FactChange, Gate
from vsphere_ai.model.bounded import require_few_values
from vsphere_ai.model.finding import Verdict

MOST_VALUES = 500_000
"""Values of a certificate: 1,000 VMs have some 100 facts each. The reader of JSON takes 1 KB for each at most."""


class _CertifiedPart(PrintedDocument):
    """What a certificate says; its digest is of this."""

    vcenter: str
    set: str
    tool: Annotated[str, Field(description="Version of vsphere-ai.")]
    issued: datetime
    gates: tuple[Gate, ...]
    facts: Annotated[
        dict[str, dict[str, str]], Field(description="Part, such as `host:esx01` -> name of a fact -> its value.")
    ] = Field(default_factory=dict)
    inputs: Annotated[dict[str, str], Field(description="Files that gates read -> SHA-256.")] = Field(
        default_factory=dict
    )
    not_asked: Annotated[dict[str, str], Field(description="VMs whose guests could not be asked, and why.")] = Field(
        default_factory=dict
    )
    left_out: Annotated[tuple[str, ...], Field(description="Gates that were not carried out.")] = ()
    status: Annotated[Verdict, Field(description="The worst gate; unknown where gates were left out.")]
    statuses: Annotated[dict[str, Verdict], Field(description="Of each gate.")]

    @classmethod
    def certified(cls, certificate: Certificate) -> Self:
        """Return what a certificate says as a document."""
        statuses = {gate.name: gate.status for gate in certificate.gates}
        content = {key: value for key, value in vars(certificate).items() if value or key != "left_out"}
        return cls(**content, status=certificate.status, statuses=statuses)  # earlier certificates have no `left_out`


class CertificateDocument(FindingsDocument, _CertifiedPart):
    """A certificate as its file has it and `accept` prints it."""

    printed_by: ClassVar = ("accept",)

    digest: Annotated[str, Field(description="SHA-256 of all but the findings: a file that was edited is refused.")]


class RepeatedTestDocument(DocumentPart):
    """A test that has to be taken again."""

    gate: str
    test: str
    parts: tuple[str, ...]


class CertificateStateDocument(FindingsDocument):
    """What `accept --verify` prints."""

    printed_by: ClassVar = ("accept --verify",)

    changes: Annotated[tuple[FactChange, ...], Field(description="Facts that are not as certified.")]
    tests: Annotated[tuple[RepeatedTestDocument, ...], Field(description="Tests that have to be taken again.")]


def digest_of(certificate: Certificate) -> str:
    """Return the SHA-256 of what a certificate says."""
    values = _CertifiedPart.certified(certificate).as_json()
    return hashlib.sha256(json.dumps(values, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def certificate_document(certificate: Certificate) -> CertificateDocument:
    """Return a certificate as its file has it, with its findings and its digest."""
    certified = _CertifiedPart.certified(certificate).keywords
    return CertificateDocument.of(certificate.findings, **certified, digest=digest_of(certificate))


def open_certificate(content: bytes, file: str) -> Certificate:
    """Return the certificate of a file's content; `ValueError` when it is none, or was edited."""
    require_few_values(content, MOST_VALUES)
    read = read_document(CertificateDocument, content, file)
    names = [each.name for each in fields(Certificate)]
    made = Certificate(**{name: getattr(read, name) for name in names})
    if read.digest != digest_of(made):
        raise ValueError(f"{file}: the certificate was edited: its digest is not that of its content")
    return made
