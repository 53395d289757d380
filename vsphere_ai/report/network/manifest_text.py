"""Document of Kubernetes manifests that were checked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from vsphere_ai.documents.network.manifests import CheckedManifestsDocument, ManifestObjectDocument
from vsphere_ai.kubernetes.check import ManifestCheck
from vsphere_ai.kubernetes.objects import Manifest
from vsphere_ai.model.finding import Finding


def manifests_document(checked: ManifestCheck, findings: Iterable[Finding]) -> CheckedManifestsDocument:
    """Return the objects that were looked at as they are printed, with these findings."""
    objects, not_judged = _named(checked.objects), _named(checked.unjudged)
    keys = {"objects": objects, "not_judged": not_judged, "not_checked": len(checked.others)}
    return CheckedManifestsDocument.of(findings, **keys)


def _named(objects: Sequence[Manifest]) -> tuple[ManifestObjectDocument, ...]:
    return tuple(ManifestObjectDocument(kind=o.kind, name=o.name, namespace=o.namespace) for o in objects)
