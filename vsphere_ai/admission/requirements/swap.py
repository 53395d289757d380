"""Space for the swap file that a VM gets when it powers on."""

from __future__ import annotations

from vsphere_ai.admission.base import STARTS, Case, Quantity, Reason, gb, requirement

SUMMARY = "summary"
THIN = ("vsan", "vsanD", "VVOL", "NFS", "NFS41")
"""Types of datastores on which a swap file takes what is written only (for NFS unverified)."""
_MIB = 1 << 20


@requirement(
    "admission.swap",
    "Space for the swap file",
    occasions=STARTS | {"ha_restart"},
    source="vSphere Resource Management 7.0, swap file locations and memory reservation",
    reads={"Datastore": ("name", SUMMARY, "host"), "ClusterComputeResource": ("configurationEx",)},
    faults=("NoDiskSpace",),
    shared=True,
)
def swap(case: Case) -> Reason | None:
    """A VM that powers on needs room for a swap file: its memory less its reservation.

    The file lies beside the configuration of the VM. On vSAN and NFS it is thin: only a remark. Swap files on
    datastores of the host are not looked at: where there is no room, the folder of the VM is used.
    """
    vm, situation = case.vm, case.situation
    size, store = vm.swap_mb, situation.view.estate.get(vm.home)
    if not size or store is None:
        return None
    summary = store.get(SUMMARY) or {}
    free = summary.get("freeSpace")
    if free is None:
        return None
    mine = situation.on(situation.home(vm.ref) or "").get(vm.ref)
    taken = situation.more.swap_mb[vm.home] - ((mine.swap_mb or 0) if mine is not None else 0)
    have = int(free) / _MIB - taken
    if case.occasion == "power_cycle":
        before = situation.machines.present(vm.ref)
        have += (before.swap_mb or 0) if situation.before.home(vm.ref) is not None and mine is None else 0
    if size <= have:
        return None
    message = f"its swap file takes {gb(size)} of the datastore {store.name}, which has {gb(max(have, 0))} free"
    help = "write hardware: {memory_reservation: full}, which needs no swap file, or make room on the datastore"
    if str(summary.get("type")) in THIN:
        return case.preferred(message)
    return case.no(message, help, quantity=Quantity(size, have, "MB"), fault="NoDiskSpace")
