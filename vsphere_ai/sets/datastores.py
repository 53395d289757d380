"""Datastores of new members where a play names a datastore cluster: for each VM that with the most space left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.vm_sets import Member, MemberFault, MemberPlace
from vsphere_ai.resources.makes_vms import WantedSet
from vsphere_ai.sets.placement import in_service
from vsphere_ai.sets.places import hosts_of

POD = "StoragePod"
GIB = 1 << 30


def with_datastores(members: Sequence[Member], wanted: WantedSet, estate: Estate) -> Iterator[Member]:
    """Yield members; of new ones whose place is a datastore cluster, each with a datastore of it, and why.

    What their disks may grow to is counted for those before them, so that they are spread by space.
    """
    taken: Counter[str] = Counter()
    for member in members:
        pod = estate.get(member.place.datastore) if member.place.datastore.startswith(POD) else None
        if pod is None or member.exists:
            yield member
            continue
        usable, unfit = _usable(pod, member.place, wanted, estate)
        if not usable:
            why = "; ".join(unfit) or "it has none"
            help = "see what each datastore lacks, or name another one"
            fault = MemberFault("no-datastore", f"no datastore of {pod.name} can be used: {why}", help)
            yield replace(member, place=replace(member.place, datastore=""), faults=(*member.faults, fault))
            continue
        store = max(usable, key=lambda s: (_reached(s, member.place, wanted, estate), _free(s) - taken[s.ref], s.name))
        left = max(0, _free(store) - taken[store.ref]) // GIB
        taken[store.ref] += _size(member.place, estate)
        words = f"on datastore {store.name}: {left} GB free, the most of {pod.name}"
        words = f"on datastore {store.name}: that of its source" if wanted.linked else words
        yield replace(member, place=replace(member.place, datastore=store.ref), why_store=words)


def _usable(pod: Facts, place: MemberPlace, wanted: WantedSet, estate: Estate) -> tuple[list[Facts], list[str]]:
    """Return the datastores of a datastore cluster that can be used, and why the others cannot."""
    source = estate.get(place.source)
    own = tuple(str(ref) for ref in (source.get("datastore") if source else None) or ())
    usable, unfit = [], []
    for store in sorted((f for f in estate.of_type("Datastore") if f.get("parent") == pod.ref), key=lambda f: f.name):
        summary: Mapping[str, Any] = store.get("summary") or {}
        reasons = (
            "it is not accessible" if summary.get("accessible") is False else "",
            "it is in maintenance mode" if summary.get("maintenanceMode", "normal") != "normal" else "",
            "no host in service reaches it" if not _reached(store, place, wanted, estate) else "",
            "a linked clone stays on the datastore of its source" if wanted.linked and store.ref not in own else "",
        )
        why = next(filter(None, reasons), "")
        if why:
            unfit.append(f"{store.name}: {why}")
        else:
            usable.append(store)
    return usable, unfit


def _reached(store: Facts, place: MemberPlace, wanted: WantedSet, estate: Estate) -> int:
    """Return how many hosts in service of the set's cluster have mounted a datastore."""
    hosts = {h.ref for h in in_service(hosts_of(wanted, place, estate), estate)}
    mounts: Sequence[Mapping[str, Any]] = store.get("host") or ()
    return sum(m["key"] in hosts and (m.get("mountInfo") or {}).get("accessible") is not False for m in mounts)


def _free(store: Facts) -> int:
    return int((store.get("summary") or {}).get("freeSpace") or 0)


def _size(place: MemberPlace, estate: Estate) -> int:
    """Return the bytes that the disks of a clone may take at most."""
    source = estate.get(place.source)
    devices: Sequence[Mapping[str, Any]] = (source.get("config.hardware.device") if source else None) or ()
    return sum(int(d.get("capacityInKB") or 0) * 1024 for d in devices if d.get("_typeName") == "VirtualDisk")
