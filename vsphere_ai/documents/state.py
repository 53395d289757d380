"""Document of `show`: the live state as a playbook, and the objects that it is of."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field, JsonValue

from vsphere_ai.documents.part import DocumentPart
from vsphere_ai.documents.printed import PrintedDocument
from vsphere_ai.model.facts import About
from vsphere_ai.model.state import TargetKind


class ShownObject(DocumentPart):
    """An object of the environment."""

    kind: TargetKind
    name: str


class StateDocument(PrintedDocument):
    """What `show` prints."""

    printed_by: ClassVar = ("show",)

    vcenter: About
    objects: tuple[ShownObject, ...]
    playbook: Annotated[JsonValue, Field(description="Its plays; null: there are none.")]
