"""Rules about storage: room for datasets and checkpoints, and disks that are as fast as what writes to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from vsphere_ai.compat.base import Unreadable
from vsphere_ai.compat.pillars.base import PillarCase, vm_rule
from vsphere_ai.model.estate.vm_corrections import SetOfVms
from vsphere_ai.model.finding import Finding
from vsphere_ai.model.vm_sets import member_of
from vsphere_ai.resources.corrections import text_of

Summary = Mapping[str, Any]
"""DatastoreSummary."""
MOST_USED, FULL = 0.75, 0.85
"""Shares of a datastore in use at which vCenter's own alarm, Datastore usage on disk, is yellow and red."""
CONTROLLERS: Mapping[str, str] = {"VirtualNVMEController": "NVMe", "ParaVirtualSCSIController": "VMware Paravirtual"}


def _stores(case: PillarCase) -> Iterator[tuple[str, Summary]]:
    """Yield reference and summary of the datastores of a VM, also of one that a playbook makes."""
    made = member_of(case.farm.view.estate, case.ref)
    if made and not made.exists:
        refs = (made.place.datastore,) if made.place.datastore else case.need("datastore", made.place.source)
    else:
        refs = case.need("datastore")
    yield from ((ref, case.need("summary", ref)) for ref in refs if ref)


@vm_rule(
    "reliability.datastore-space",
    "Room on datastores",
    source="vSphere Monitoring and Performance 7.0, Preconfigured vSphere Alarms (Datastore usage on disk)",
    verdicts={
        "pass": f"less than {MOST_USED:.0%} of each datastore is in use",
        "warn": f"{MOST_USED:.0%} or more",
        "fail": f"{FULL:.0%} or more",
    },
    reads={"VirtualMachine": ("datastore",), "Datastore": ("name", "summary")},
    by_hand="what to delete is a choice of the owner of the datastore",
)
def datastore_space(case: PillarCase) -> Finding | None:
    """The datastores of a training VM have room: a VM on a full one stops, and a checkpoint is not written."""
    used = {}
    for ref, summary in _stores(case):
        capacity, free = summary.get("capacity"), summary.get("freeSpace")
        if not capacity or free is None:
            raise Unreadable(f"{ref} summary.freeSpace", "the server shows no value")
        used[str(summary.get("name"))] = 1 - int(free) / int(capacity)
    if not used:
        return None
    name, share = max(used.items(), key=lambda item: item[1])
    seen = ("datastore.summary.freeSpace", f"{name}: {share:.0%} in use")
    another = text_of(SetOfVms(case.target, datastore="ANOTHER"))
    message, remedy = f"{name} is {share:.0%} full", f"free space there, or recreate the VMs of the set: {another}"
    if share >= FULL:
        return case.failed(message, seen, remedy=remedy)
    return case.warned(message, seen, remedy=remedy) if share >= MOST_USED else case.passed(message, seen)


@vm_rule(
    "cost.storage-class",
    "Disks on flash",
    source="Azure Well-Architected Framework, AI workloads (scratch on local NVMe); vSphere API, HostVmfsVolume.ssd",
    verdicts={
        "pass": "vSAN, vVols or VMFS on flash",
        "warn": "VMFS on other disks",
        "unknown": "NFS, which does not say what it is on; or VMFS that does not say it either",
    },
    reads={"VirtualMachine": ("datastore",), "Datastore": ("name", "summary", "info")},
    by_hand="moving disks to another datastore is left to Storage vMotion",
)
def storage_class(case: PillarCase) -> Finding | None:
    """The disks of a training VM, its scratch among them, are on flash: GPUs that wait for data cost as much."""
    kinds, slow, open_ = [], [], []
    for ref, summary in _stores(case):
        kind, name = str(summary.get("type")), str(summary.get("name"))
        kinds.append(f"{name}: {kind}")
        facts = case.farm.view.estate.get(ref)
        ssd = (((facts.get("info") if facts else None) or {}).get("vmfs") or {}).get("ssd")
        if kind.upper() == "VMFS" and ssd is False:
            slow.append(name)
        elif kind.lower() not in ("vsan", "vvol") and not (kind.upper() == "VMFS" and ssd):
            open_.append(f"{name} ({kind})")
    if not kinds:
        return None
    seen = ("datastore.summary.type", ", ".join(kinds))
    if slow:
        remedy = text_of(SetOfVms(case.target, datastore="FLASH_DATASTORE"))
        return case.warned(f"{', '.join(slow)}: VMFS, not on flash", seen, remedy=remedy)
    if open_:
        return case.unknown(f"whether {', '.join(open_)} is on flash is not known", seen)
    return case.passed("the datastores are on flash", seen)


@vm_rule(
    "performance.disk-controller",
    "NVMe or paravirtual disks",
    source="Performance Best Practices for VMware vSphere 7.0, Guest Operating System Storage Considerations",
    verdicts={"pass": "every disk is behind a controller of NVMe or VMware Paravirtual", "warn": "another controller"},
    reads={"VirtualMachine": ("config.hardware.device",)},
    by_hand="the disks of a set are a choice of the play that makes it: `disks` of `vm_set`",
)
def disk_controller(case: PillarCase) -> Finding | None:
    """The disks of a training VM are behind NVMe or paravirtual controllers: others take more CPU per request."""
    devices = case.need("config.hardware.device")
    types = {d.get("key"): str(d.get("_typeName")) for d in devices if d.get("key") is not None}
    used = {types.get(d.get("controllerKey"), "") for d in devices if d.get("_typeName") == "VirtualDisk"}
    if not used or "" in used:
        return case.unknown("the controller of a disk is not shown") if used else None
    seen = ("config.hardware.device", ", ".join(sorted(used)))
    other = sorted(used - set(CONTROLLERS))
    if other:
        remedy = text_of(SetOfVms(case.target, fast_disk=True))
        return case.warned(f"disks are behind {', '.join(other)}", seen, remedy=remedy)
    return case.passed(f"disks are behind {', '.join(CONTROLLERS[u] for u in sorted(used))}", seen)
