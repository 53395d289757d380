"""Document of Kubernetes manifests that were checked."""

from __future__ import annotations

from collections.abc import Sequence

from vsphere_ai.documents.manifests import ManifestObjectDocument, ManifestsDocument
from vsphere_ai.kubernetes.check import ManifestCheck
from vsphere_ai.kubernetes.objects import Manifest


def manifests_document(checked: ManifestCheck) -> ManifestsDocument:
    """Return the objects that were looked at, as the part of a document."""
    return ManifestsDocument(
        objects=_named(checked.objects), not_judged=_named(checked.unjudged), not_checked=checked.others
    )


def _named(objects: Sequence[Manifest]) -> tuple[ManifestObjectDocument, ...]:
    return tuple(ManifestObjectDocument(kind=o.kind, name=o.name, namespace=o.namespace) for o in objects)
