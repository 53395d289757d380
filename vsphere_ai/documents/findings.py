"""Documents of findings: the one form in which every command prints them as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Self, get_args

from pydantic import Field, JsonValue

from vsphere_ai.documents.part import DocumentPart
from vsphere_ai.documents.printed import PrintedDocument
from vsphere_ai.errors import Mark
from vsphere_ai.model.facts import About
from vsphere_ai.model.finding import Finding, Subject, Verdict, worst
from vsphere_ai.model.state import Target, TargetKind

TARGETS = frozenset(get_args(TargetKind))


class SubjectDocument(DocumentPart):
    """What a finding is about; keys that say nothing of it are left out."""

    kind: Annotated[str, Field(description="datacenter, host or vm, or another word for people, such as file.")]
    name: str
    ref: Annotated[str, Field(description='Its managed object reference; "" for what is no object of vCenter.')]
    host: Annotated[str, Field(description="The host on which a VM runs.")] = ""
    part: Annotated[str, Field(description="A GPU, an adapter or an interface of it.")] = ""
    file: str = ""
    line: Annotated[int, Field(description="From 1 on.")] = 0
    column: Annotated[int, Field(description="From 1 on.")] = 0

    @classmethod
    def of(cls, subject: Target | Subject) -> Self:
        """Return a subject as JSON."""
        more: dict[str, Any] = {}
        if isinstance(subject, Subject):
            more = {"host": subject.host, "part": subject.part}
            if subject.mark is not None:
                more |= {"file": subject.mark.file, "line": subject.mark.line, "column": subject.mark.column}
        kept = {key: value for key, value in more.items() if value}
        return cls(kind=subject.kind, name=subject.name, ref=subject.ref, **kept)

    @property
    def subject(self) -> Target | Subject:
        """The subject that this is the form of."""
        if self.kind in TARGETS:
            return Target(self.kind, self.name, self.ref)  # type: ignore[arg-type]
        mark = Mark(self.file, self.line, self.column) if self.file else None
        return Subject(self.kind, self.name, self.ref, self.host, self.part, mark)


class EvidenceDocument(DocumentPart):
    """A property path, or another name, and the value seen there."""

    path: str
    value: str


class FindingDocument(DocumentPart):
    """What one rule finds of one subject."""

    target: Annotated[SubjectDocument | None, Field(description="null: the vCenter, or all that was looked at.")]
    rule: str
    verdict: Verdict
    message: str
    remedy: Annotated[str, Field(description='What to do; "" for nothing.')]
    evidence: tuple[EvidenceDocument, ...]
    source: Annotated[str, Field(description="The public page of the rule, or the side that was asked.")]
    refuses: Annotated[bool, Field(description="Whether it stops a plan.")]

    @classmethod
    def of(cls, finding: Finding) -> Self:
        """Return a finding as JSON."""
        return cls(
            target=SubjectDocument.of(finding.target) if finding.target is not None else None,
            rule=finding.rule,
            verdict=finding.verdict,
            message=finding.message,
            remedy=finding.remedy,
            evidence=tuple(EvidenceDocument(path=path, value=value) for path, value in finding.evidence),
            source=finding.source,
            refuses=finding.refuses,
        )

    @property
    def finding(self) -> Finding:
        """The finding that this is the form of."""
        on = self.target.subject if self.target is not None else None
        evidence = tuple((each.path, each.value) for each in self.evidence)
        return Finding(on, self.rule, self.verdict, self.message, self.remedy, evidence, self.source, self.refuses)


class FindingsDocument(PrintedDocument):
    """What every command with findings prints; each command has keys of its own besides, which come first."""

    verdict: Annotated[Verdict, Field(description="The worst verdict; pass without findings.")]
    findings: Annotated[tuple[FindingDocument, ...], Field(description="What each rule found of each subject.")]

    @classmethod
    def of(cls, findings: Iterable[Finding], **keys: object) -> Self:
        """Return the document of findings with the keys of its command; `ValidationError` for other keys or values."""
        every = tuple(findings)
        made = {"verdict": worst(every), "findings": tuple(map(FindingDocument.of, every))}
        return cls.model_validate({**keys, **made})

    def as_json(self) -> dict[str, JsonValue]:
        """Return the JSON form, the findings last: there may be thousands."""
        values = super().as_json()
        last = {key: values.pop(key) for key in ("verdict", "findings")}
        return {**values, **last}


class AnyFindingsDocument(FindingsDocument):
    """The findings that any command printed, as reports read them."""

    vcenter: Annotated[About | str, Field(description="The vCenter, or its name.")] = ""


class CheckDocument(FindingsDocument):
    """What `check` prints."""

    printed_by: ClassVar = ("check",)

    vcenter: About


class DoctorDocument(FindingsDocument):
    """What `doctor` prints."""

    printed_by: ClassVar = ("doctor",)
