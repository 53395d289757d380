"""StorageResourceManager: which datastore of a datastore cluster is recommended for a clone, and the clone on it."""

from __future__ import annotations

import copy
from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed import Call, changes, datastores, reads
from vsphere_ai.lab.managed.refusals import invalid_argument, not_supported
from vsphere_ai.lab.managed.vm_tasks.clone import bytes_of_clone, clone_now
from vsphere_ai.lab.sessions import now
from vsphere_ai.lab.store import ManagedObject, fill
from vsphere_ai.lab.tasks import TaskWork

WANTED = "recommended"


@reads(vim.StorageResourceManager, "RecommendDatastores")
def recommend(call: Call, storageSpec: Any) -> Any:
    """Recommend datastores for a clone, the emptiest first; none while Storage DRS is off, or where it does not fit.

    A recommendation keeps no space, so that the next call may get the same one, unless the call asks for a lease.
    """
    farm, spec = call.farm, storageSpec
    if spec.type != "clone" or spec.vm is None or spec.cloneSpec is None or not spec.cloneName:
        raise not_supported("the lab recommends datastores for clones only")
    pod = spec.podSelectionSpec.storagePod
    if pod is None:
        raise invalid_argument("storageSpec.podSelectionSpec.storagePod", "the lab places all disks in one cluster")
    source, wanted = farm.store.get(spec.vm), spec.cloneSpec
    size = bytes_of_clone(farm, source, wanted)
    found = _fitting(farm, farm.store.get(pod), wanted.location.host, size)
    made = [_recommendation(call.mo, store, spec, size) for store in found]
    if found and spec.resourceLeaseDurationSec:
        datastores.lease(found[0], spec.resourceLeaseDurationSec, size)
    return vim.storageDrs.StoragePlacementResult(recommendations=made)


def _fitting(farm: Farm, pod: ManagedObject, host: Any, size: int) -> list[ManagedObject]:
    if not pod["podStorageDrsEntry"].storageDrsConfig.podConfig.enabled:
        return []
    members = [farm.store.get(ref) for ref in pod["childEntity"]]
    if host is not None:
        members = [store for store in members if datastores.reaches(farm.store.get(host), [store.ref])]
    fitting = [s for s in members if s["summary"].accessible and datastores.free_of_leases(s) >= size]
    return sorted(fitting, key=lambda store: -datastores.free_of_leases(store))


def _recommendation(manager: ManagedObject, store: ManagedObject, spec: Any, size: int) -> Any:
    where = copy.copy(spec.cloneSpec.location)
    where.datastore = store.ref
    known = manager.extra.setdefault(WANTED, {})
    key, capacity = str(len(known) + 1), store["summary"].capacity
    known[key] = (spec, store)
    used = capacity - store["summary"].freeSpace
    action = vim.storageDrs.StoragePlacementAction(
        type="StoragePlacementV1",
        target=store.ref,
        vm=spec.vm,
        relocateSpec=where,
        destination=store.ref,
        spaceUtilBefore=100.0 * used / capacity,
        spaceUtilAfter=100.0 * (used + size) / capacity,
    )
    return fill(
        vim.cluster.Recommendation(
            key=key,
            type="StoragePlacementV1",
            time=now(),
            rating=1,
            reason="storagePlacement",
            reasonText="Satisfy storage initial placement requests",
            action=[action],
            target=store.ref,
        )
    )


@changes(vim.StorageResourceManager, "ApplyStorageDrsRecommendation_Task")
def apply(call: Call, key: Any) -> Any:
    """Clone on the datastore that was recommended."""
    farm, known = call.farm, call.mo.extra.get(WANTED, {})
    if len(key) != 1 or key[0] not in known:
        raise invalid_argument("key", ", ".join(key))
    spec, store = known.pop(key[0])
    wanted = copy.copy(spec.cloneSpec)
    wanted.location = copy.copy(wanted.location)
    wanted.location.datastore = store.ref
    source = farm.store.get(spec.vm)

    def work(_task: TaskWork) -> Any:
        made = clone_now(call, source, spec.folder or source["parent"], spec.cloneName, wanted)
        return vim.storageDrs.ApplyRecommendationResult(vm=made)

    return farm.tasks.start(source, "applyRecommendation", work, read_only=True)
