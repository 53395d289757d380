"""Titles of plays: which targets a play is for, in the words of a person who knows the estate. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from vsphere_ai.gpu.devices import found_gpus
from vsphere_ai.model.facts import Estate, grouped
from vsphere_ai.model.state import Target, TargetKind

DEVICES = "hardware.pciDevice"
NOUNS: Mapping[TargetKind, str] = {"datacenter": "datacenters", "host": "hosts", "vm": "VMs"}


class Titles:
    """Titles of plays of one estate: ``All hosts``, ``GPU hosts of cluster gpu-a``, ``3 VMs in folder ai``."""

    def __init__(self, estate: Estate) -> None:
        self._estate = estate
        self._known: dict[frozenset[Target], str] = {}
        for kind in NOUNS:
            for title, targets in self._sets(kind):
                self._known.setdefault(frozenset(targets), title)

    def of(self, targets: Sequence[Target]) -> str:
        """Return the title of a play for several targets of one kind; empty for one target, which has a name."""
        if len(targets) == 1:
            return ""
        places = self._by_place(targets)
        where = next(iter(places)) if len(places) == 1 else ""
        some = f"{len(targets)} {NOUNS[targets[0].kind]} {where}".strip()
        return self._known.get(frozenset(targets), some)

    def _sets(self, kind: TargetKind) -> Iterator[tuple[str, Sequence[Target]]]:
        """Yield the sets of targets that have a title of their own, the widest first."""
        noun, every = NOUNS[kind], self._estate.targets(kind)
        yield f"All {noun}", every
        places = {where: own for where, own in self._by_place(every).items() if where}
        for where, own in places.items():
            yield f"{noun[0].upper()}{noun[1:]} {where}", own
        if kind == "host":
            for where, own in {"": every, **places}.items():
                if any(self._estate[h.ref].get(DEVICES) is None for h in own):
                    continue  # of some it was not read, and they may have GPUs
                gpus = [h for h in own if found_gpus(self._estate[h.ref].get(DEVICES) or ())]
                yield f"GPU hosts {where}".strip(), gpus

    def _by_place(self, targets: Sequence[Target]) -> dict[str, tuple[Target, ...]]:
        """Return targets by the words for where they are: hosts by cluster, VMs by folder; "" outside of these."""
        return grouped(targets, self._place)

    def _place(self, target: Target) -> str:
        if target.kind == "host":
            cluster = self._estate.cluster_of(target.ref)
            return f"of cluster {cluster.name}" if cluster and cluster.ref.startswith("ClusterComputeResource:") else ""
        folder = self._estate.parent_of(self._estate[target.ref]) if target.kind == "vm" else None
        above = self._estate.parent_of(folder) if folder else None  # the folder of all VMs is that of a datacenter
        named = folder and folder.ref.startswith("Folder:") and above and not above.ref.startswith("Datacenter:")
        return f"in folder {folder.name}" if folder and named else ""
