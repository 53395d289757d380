"""Space for the swap file that a VM gets when it powers on, or where its place changes with its host."""

from __future__ import annotations

from vsphere_ai.admission.base import MOVES, STARTS, AdmissionCase, Quantity, Reason, gb, requirement
from vsphere_ai.admission.machine import Machine
from vsphere_ai.admission.situation import LOCAL_SWAP, swaps_locally
from vsphere_ai.fabric.corrections import MachineNeeds
from vsphere_ai.resources.corrections import text_of

SUMMARY = "summary"
THIN = ("vsan", "vsanD", "VVOL", "NFS", "NFS41")
"""Types of datastores on which a swap file takes what is written only (for NFS unverified)."""
NOT_LOCAL = ("vsan", "vsanD", "VVOL")
_MIB = 1 << 20


@requirement(
    "admission.swap",
    "Space for the swap file",
    occasions=STARTS | MOVES | {"ha_restart"},
    source="vSphere Resource Management 7.0, swap file locations and memory reservation",
    reads={
        "Datastore": ("name", SUMMARY, "host"),
        "HostSystem": (LOCAL_SWAP,),
        "ClusterComputeResource": ("configurationEx",),
    },
    faults=("NoDiskSpace",),
    shared=True,
)
def swap(case: AdmissionCase) -> Reason | None:
    """A VM that powers on needs room for a swap file: its memory less its reservation.

    The file lies beside the configuration of the VM, or on the datastore that its host has for it, if that is wanted
    and it has room there. A VM that moves while it runs takes it along only where it lies on another datastore then.
    On vSAN and NFS it is thin: only a remark.
    """
    vm, situation = case.vm, case.situation
    size, store = vm.swap_mb, situation.view.estate.get(vm.home)
    if not size or store is None or _on_local(case, size):
        return None
    before = situation.before.home(vm.ref)
    was_here = before is not None and not swaps_locally(vm, before, situation.view.estate)
    if case.occasion in MOVES and was_here:
        return None
    summary = store.get(SUMMARY) or {}
    free = summary.get("freeSpace")
    if free is None:
        return None
    taken = situation.more.swap_mb[vm.home] - _own(case)
    have = (int(free) - situation.disks_bytes.get(vm.home, 0)) / _MIB - taken
    if size <= have:
        return None
    message = f"its swap file takes {gb(size)} of the datastore {store.name}, which has {gb(max(have, 0))} free"
    play = text_of(MachineNeeds(case.vm.target, all_memory=True))
    help = f"write {play}, which needs no swap file, or make room on the datastore"
    if str(summary.get("type")) in THIN:
        return case.preferred(message)
    return case.no(message, help, quantity=Quantity(size, have, "MB"), fault="NoDiskSpace")


def _own(case: AdmissionCase) -> int:
    """Return the MB that the VM itself is counted with on the datastore of its configuration."""
    at = case.situation.home(case.vm.ref)
    mine = case.situation.on(at).get(case.vm.ref) if at is not None else None
    if at is None or mine is None or swaps_locally(mine, at, case.situation.view.estate):
        return 0
    return mine.swap_mb or 0


def _on_local(case: AdmissionCase, size: int) -> bool:
    """Return whether the swap file finds room on the datastore that the host has for such files."""
    situation, host = case.situation, case.host
    if not swaps_locally(case.vm, host.ref, situation.view.estate):
        return False
    store = situation.view.estate.get(host.get(LOCAL_SWAP))
    summary = (store.get(SUMMARY) if store else None) or {}
    free = summary.get("freeSpace")
    if free is None or str(summary.get("type")) in NOT_LOCAL:
        return False
    there, before = situation.on(host.ref), situation.before.on(host.ref)
    others = [vm for ref, vm in there.items() if ref != case.vm.ref]
    held = _sum(case, others) - _sum(case, list(before.values()))
    return size <= int(free) / _MIB - held


def _sum(case: AdmissionCase, vms: list[Machine]) -> int:
    estate, host = case.situation.view.estate, case.host.ref
    return sum(vm.swap_mb or 0 for vm in vms if swaps_locally(vm, host, estate))
