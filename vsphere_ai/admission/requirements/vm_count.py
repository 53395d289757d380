"""The host runs one VM more than it does."""

from __future__ import annotations

from vsphere_ai.admission.base import RUNS, AdmissionCase, Quantity, Reason, requirement

MOST, LICENSED = "capability.maxHostRunningVms", "capability.maxRunningVMs"


@requirement(
    "admission.vm-count",
    "Number of running VMs",
    occasions=RUNS,
    source="vSphere Web Services API, HostCapability (maxHostRunningVms, maxRunningVMs) and VmLimitLicense",
    reads={"HostSystem": (MOST, LICENSED)},
    faults=("VmLimitLicense",),
    shared=True,
)
def vm_count(case: AdmissionCase) -> Reason | None:
    """A host runs at most as many VMs as it supports and its licence allows; where it shows none, there is no limit.

    Whether vCenter refuses with this fault where the licence is not the limit is unverified.
    """
    limits = {int(most): path for path in (MOST, LICENSED) if (most := case.host.get(path))}
    need = len({*case.situation.on(case.host.ref), case.vm.ref})
    most = min(limits, default=need)
    if need <= most:
        return None
    whose = "its licence allows" if limits[most] == LICENSED else "it supports"
    message = f"it would run {need} VMs, {whose} {most}"
    return case.no(message, "power off VMs there, or use another host", "VmLimitLicense", Quantity(need, most, "VMs"))
