"""Document of `rdma trace`: the paths of RDMA link by link, each a finding with its fix, and the pairs of VMs."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field

from vsphere_ai.documents.findings import FindingDocument
from vsphere_ai.documents.part import DocumentPart
from vsphere_ai.documents.printed import PrintedDocument
from vsphere_ai.model.facts import About
from vsphere_ai.model.finding import Finding, Verdict


class FixDocument(DocumentPart):
    """The fix of a link."""

    target: Annotated[str, Field(description="The target of the play.")]
    line: Annotated[str, Field(description="A line of a play.")]


class LinkDocument(FindingDocument):
    """A link of a path: the finding about it, whose target has its name, and its fix."""

    part: Annotated[Literal["vm", "path", "host"], Field(description="What the link belongs to.")]
    fix: Annotated[FixDocument | None, Field(description="null: none, or none by a playbook.")]

    @classmethod
    def with_fix(cls, finding: Finding, part: str, fix: FixDocument | None) -> Self:
        """Return a link as JSON; `part` is ``vm``, ``path`` or ``host``."""
        return cls.model_validate({**FindingDocument.of(finding).as_json(), "part": part, "fix": fix})


class PathDocument(DocumentPart):
    """A path of RDMA traffic: one adapter of a VM, followed on the host that the VM is on."""

    vm: str
    host: str | None
    adapter: Annotated[str, Field(description='"": the VM has no PVRDMA adapter.')]
    port_group: str
    protocol: Annotated[str | None, Field(description="RoCE version; null: by default, or not known.")]
    rdma_mtu: Annotated[int | None, Field(description="Bytes; null: not known.")] = None
    verdict: Annotated[Verdict, Field(description="The worst of its links; fail: the path is broken.")]
    healthy: Annotated[bool, Field(description="Whether no link is broken or not known.")]
    links: tuple[LinkDocument, ...]


class PairCauseDocument(DocumentPart):
    """A link that keeps a pair from RDMA, and whose it is."""

    target: str
    link: str
    message: str = ""


class PairDocument(DocumentPart):
    """What the traffic between two VMs uses."""

    vms: tuple[str, str]
    use: Literal["roce", "memory-copy", "tcp", "unknown", "none"]
    why: str
    causes: tuple[PairCauseDocument, ...]


class TraceDocument(PrintedDocument):
    """What `rdma trace` prints."""

    printed_by: ClassVar = ("rdma trace",)

    vcenter: About
    verdict: Annotated[Verdict, Field(description="The worst of all links.")]
    traces: tuple[PathDocument, ...]
    pairs: tuple[PairDocument, ...]
    playbook: Annotated[str, Field(description='The fixes; "" where there are none.')]
    unchanged: Annotated[tuple[str, ...], Field(description="What the playbook does not change, and why.")] = ()
