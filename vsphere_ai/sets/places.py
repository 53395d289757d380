"""Places of new VMs: the objects that a play names by name or inventory path, as references."""

from __future__ import annotations

from collections.abc import Iterator

from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.plain import objects
from vsphere_ai.model.vm_sets import MemberFault, MemberPlace
from vsphere_ai.resources.makes_vms import WantedSet

DEEP = "config.hardware.device"
"""Read of a VM that is looked at closely; one without snapshots has no list of them then either."""
VM_FOLDER = "VM folder"
CLUSTERS = ("ClusterComputeResource", "ComputeResource")


class ObjectMissing(Exception):
    """An object that a play names cannot be found, or is there several times."""

    def __init__(self, fault: MemberFault) -> None:
        super().__init__(fault.message)
        self.fault = fault


def place_of(wanted: WantedSet, estate: Estate) -> tuple[MemberPlace, tuple[MemberFault, ...]]:
    """Return where the VMs of a set are made, and what cannot be found of it; the host is chosen later."""
    faults: list[MemberFault] = []

    def seek(what: str, name: str, among: tuple[str, ...]) -> Facts | None:
        try:
            return named(estate, what, name, among) if name else None
        except ObjectMissing as missing:
            faults.append(missing.fault)
            return None

    source = seek("template or VM", wanted.source, ("VirtualMachine",))
    snapshot = ""
    if source is not None and wanted.snapshot:
        known = dict(_snapshots(objects((source.get("snapshot") or {}).get("rootSnapshotList"))))
        snapshot = known.get(wanted.snapshot, "")
        if not snapshot and DEEP in source.properties:
            there = ", ".join(sorted(known)) or "no snapshots"
            faults.append(
                MemberFault("no-snapshot", f"{source.name} has no snapshot '{wanted.snapshot}'", f"it has {there}")
            )
    cluster = seek("cluster", wanted.cluster, CLUSTERS)
    pool = seek("resource pool", wanted.resource_pool, ("ResourcePool",))
    if cluster is None and pool is None and not faults:
        faults.append(
            MemberFault("no-pool", "the play does not say where its VMs run", "add 'cluster:' or 'resource_pool:'")
        )
    folder = seek(VM_FOLDER, wanted.folder, ("Folder",))
    datastore = seek("datastore or datastore cluster", wanted.datastore, ("Datastore", "StoragePod"))
    more = [f.ref for name in wanted.datastores if (f := seek("datastore", name, ("Datastore",))) is not None]
    home = str(source.get("parent") or "") if source else ""
    place = MemberPlace(
        source=source.ref if source else "",
        snapshot=snapshot,
        folder=folder.ref if folder else home,
        pool=pool.ref if pool else str(cluster.get("resourcePool") or "") if cluster else "",
        datastore=datastore.ref if datastore else "",
        more_datastores=tuple(more),
    )
    return place, tuple(faults)


def named(estate: Estate, what: str, name: str, among: tuple[str, ...]) -> Facts:
    """Return the object of these types with a name or inventory path; `ObjectMissing` for none, or several."""
    every = list(estate.of_type(*among))
    if what == VM_FOLDER:
        paths = {f.ref: path for f in every if (path := _vm_folder_path(f, estate)) is not None}
        every = [f for f in every if f.ref in paths]
        matches = [f for f in every if _is_spelled(name, paths[f.ref], estate.path_of(f.ref))]
        matches = matches or [f for f in every if f.name == name]
    elif name.startswith("/"):
        matches = [f for f in every if estate.path_of(f.ref) == name]
    else:
        matches = [f for f in every if f.name == name]
    if len(matches) == 1:
        return matches[0]
    if matches:
        places = ", ".join(sorted(estate.path_of(f.ref) for f in matches))
        raise ObjectMissing(
            MemberFault("ambiguous", f"{len(matches)} objects are the {what} '{name}'", f"write the path: {places}")
        )
    known = sorted({paths[f.ref] or f.name for f in every} if what == VM_FOLDER else {f.name for f in every})[:12]
    raise ObjectMissing(
        MemberFault("not-found", f"there is no {what} '{name}'", f"there is: {', '.join(known)}" if known else "")
    )


def _vm_folder_path(folder: Facts, estate: Estate) -> str | None:
    """Return the path of a folder below the VM folder of its datacenter; None for one that holds no VMs.

    That folder has the name ``vm`` in every language; its own path is empty.
    """
    names: list[str] = []
    for facts in estate.up_from(folder.ref):
        if facts.ref.startswith("Datacenter:"):
            return "/".join(reversed(names[:-1])) if names[-1:] == ["vm"] else None
        names.append(facts.name)
    return None


def _is_spelled(name: str, below: str, whole: str) -> bool:
    """Return whether a name is one of the spellings of a VM folder.

    vCenter and govc write ``/DC0/vm/ai/training``, Terraform ``ai/training`` and Ansible ``/vm/ai/training`` too.
    """
    given = name.strip("/")
    return given in {whole.strip("/"), f"vm/{below}".strip("/")} or (given == below and "/" in f"{name}{below}")


def hosts_of(wanted: WantedSet, place: MemberPlace, estate: Estate) -> tuple[Facts, ...]:
    """Return the hosts of the compute resource in which the VMs of a set run, by name."""
    if wanted.cluster:
        owner: str = next((f.ref for f in estate.of_type(*CLUSTERS) if _is(f, wanted.cluster, estate)), "")
    else:
        pool = estate.get(place.pool)
        owner = str(pool.get("owner") or "") if pool else ""
    return tuple(estate[h.ref] for h in estate.hosts_in(owner))


def _is(facts: Facts, name: str, estate: Estate) -> bool:
    return (estate.path_of(facts.ref) if name.startswith("/") else facts.name) == name


def _snapshots(tree: Iterator[object] | object) -> Iterator[tuple[str, str]]:
    for node in objects(tree):  # type: ignore[arg-type] # a list of snapshots, or nothing
        yield str(node.get("name")), str(node.get("snapshot"))
        yield from _snapshots(node.get("childSnapshotList"))
