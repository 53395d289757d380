"""The host reaches the datastores of the VM."""

from __future__ import annotations

from collections.abc import Iterator

from vsphere_ai.admission.base import ARRIVES, AdmissionCase, Reason, requirement
from vsphere_ai.model.cluster_rules import Object
from vsphere_ai.model.estate.indexes import Index
from vsphere_ai.model.facts import Facts


@requirement(
    "admission.datastore",
    "Datastores that the host reaches",
    occasions=ARRIVES,
    source="vSphere Web Services API, HostMountInfo and CannotAccessVmDisk",
    reads={"Datastore": ("name", "summary", "host"), "HostSystem": ("datastore",)},
    faults=("CannotAccessVmDisk", "CannotAccessVmConfig", "CannotAccessVmComponent"),
)
def datastores(case: AdmissionCase) -> Iterator[Reason]:
    """The host mounts every datastore of the VM, and may write to it.

    A datastore of one host ties its VMs to that host. LUNs of raw device mappings are not read: whether another host
    than the one where the VM runs reaches them is unknown.
    """
    for ref in case.vm.datastores:
        store = case.situation.view.estate.get(ref)
        reaches = _reaches(ref, store, case)
        if reaches is False:
            name = store.name if store else ref.partition(":")[2]
            help = "move the VM to a shared datastore, or mount that one on the host"
            yield case.no(f"it does not reach the datastore {name}", help, fault="CannotAccessVmDisk")
    if case.vm.raw_disks and case.occasion != "clone" and not case.ran_alike("raw_disks"):
        disks = ", ".join(case.vm.raw_disks)
        message = f"whether it reaches the LUN of {disks} (raw device mapping) was not read"
        yield case.unknown(message, "present the LUN to every host of the cluster")


def _reaches(ref: str, store: Facts | None, case: AdmissionCase) -> bool | None:
    mounts, there = store.get("host") if store is not None else None, case.host.get("datastore")
    if there is not None and ref not in there:
        return False
    if mounts is None:
        return None if there is None else True
    return is_mounted(ref, case)


def is_mounted(ref: str, case: AdmissionCase) -> bool:
    """Return whether the host mounts a datastore (reference), and may write to it."""
    return bool(case.situation.view.estate.by_key(BY_MOUNT, (ref, case.host.ref)))


def _mounts(store: Facts) -> Iterator[tuple[str, object]]:
    """Yield the datastore with each host that may write to it."""
    return ((store.ref, m.get("key")) for m in store.get("host") or () if _usable(m.get("mountInfo") or {}))


BY_MOUNT = Index(("Datastore",), _mounts)
"""Datastores by themselves and a host that mounts them: each has a thousand mounts in a large cluster."""


def _usable(mount: Object) -> bool:
    usable = mount.get("accessible") is not False and mount.get("mounted") is not False
    return usable and mount.get("accessMode") != "readOnly"
