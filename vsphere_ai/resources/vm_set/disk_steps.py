"""Steps that change the disks of a VM of a set that is there: some grow, others are added."""

from __future__ import annotations

from collections.abc import Iterator

from vsphere_ai.model.facts import Facts
from vsphere_ai.model.state import KindName, Target
from vsphere_ai.model.steps import Reconfigure
from vsphere_ai.model.vm_sets import DISKS, disks_text, mark_of
from vsphere_ai.resources._helpers.vm_devices import device_change
from vsphere_ai.resources.vm_set.added_disks import added_changes
from vsphere_ai.resources.vm_set.disks import growth, missing, resized
from vsphere_ai.resources.vm_set.settings import VmSetFields


def disk_steps(target: Target, kind: KindName, facts: Facts, state: VmSetFields) -> Iterator[Reconfigure]:
    """Yield the parts of one reconfigure: sizes in place; new disks, with an NVMe controller in a power cycle.

    That NVMe disks and controllers are added while a VM runs is unverified.
    """
    for device, gb in growth(facts, state):
        label = (device.get("deviceInfo") or {}).get("label") or f"disk {device['key']}"
        yield Reconfigure(
            target=target,
            kinds=(kind,),
            device_changes=(device_change("edit", resized(device, gb)),),
            summary=f"grow {label} to {gb} GB",
        )
    added, mark = missing(facts, state), mark_of(facts)
    if added and mark is not None:
        names = {each.disk.name for each in added}
        known = (*(d for d in mark.disks if d.name not in names), *(each.marked for each in added))
        yield Reconfigure(
            target=target,
            kinds=(kind,),
            device_changes=tuple(added_changes(added)),
            extra_config=((DISKS, disks_text(known)),),
            needs_power_off=any(each.disk.controller == "nvme" for each in added),
            summary=f"add {', '.join(map(str, (each.disk for each in added)))}",
        )
