"""Documents of `trust`: the identity that a vCenter, hosts or guests have shown, and whether it was stored."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from vsphere_ai.documents.part import DocumentPart
from vsphere_ai.documents.printed import PrintedDocument

Verdict = Literal["known", "new", "changed", "revoked", "absent"]


class VcenterTrustDocument(PrintedDocument):
    """What `trust vcenter` prints."""

    printed_by: ClassVar = ("trust vcenter",)

    vcenter: str
    address: str
    sha256: Annotated[str, Field(description="Fingerprint of the certificate that it shows, with colons.")]
    trusted: Annotated[bool, Field(description="Whether it was trusted before, by `trusted_by`.")]
    trusted_by: Annotated[str, Field(description="What the inventory checks it against, and the result, in words.")]
    confirmed: Annotated[bool | None, Field(description="The answer; null where nothing was asked.")]
    file: Annotated[str | None, Field(description="The file that the certificate was written to.")]
    inventory_line: Annotated[str, Field(description='Line for the inventory that trusts it; "": none is needed.')]


class ShownKeyDocument(DocumentPart):
    """An SSH host key that was shown."""

    name: Annotated[str, Field(description="Host or VM.")]
    verdict: Annotated[
        Verdict,
        Field(description="Against the known_hosts file; absent: no key was shown, and `error` says why."),
    ]
    type: Annotated[str | None, Field(description="Type of the key, such as ssh-ed25519.")]
    fingerprint: str | None
    fingerprint_before: Annotated[str | None, Field(description="Of a changed key: what is stored.")]
    vouched: Annotated[bool, Field(description="vCenter shows the same key, so that no answer is needed.")]
    stored: bool
    error: str | None


class KeyTrustDocument(PrintedDocument):
    """What `trust host` and `trust guest` print."""

    printed_by: ClassVar = ("trust host", "trust guest")

    known_hosts: Annotated[str, Field(description="The file of known keys.")]
    keys: tuple[ShownKeyDocument, ...]
