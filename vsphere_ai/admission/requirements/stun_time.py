"""Stun time of VMs with vGPUs, which DRS tolerates up to a limit."""

from __future__ import annotations

from vsphere_ai.admission.base import AdmissionCase, Quantity, Reason, requirement
from vsphere_ai.compat.vgpu_vmotion import DRS_BY_ITSELF, drs_config, stun, stun_times
from vsphere_ai.model.names.versions import numbers

OPTION, TOLERATED = "vmdevicesstuntimetolerated", 100


@requirement(
    "admission.stun-time",
    "Stun time of vGPUs that DRS tolerates",
    occasions=frozenset({"evacuate"}),
    source="Broadcom KB 313479, VmDevicesStunTimeTolerated; vSphere API, VirtualMachineVMotionStunTimeInfo",
    reads={"ClusterComputeResource": ("configurationEx",)},
    faults=("MigrationFault",),
)
def stun_time(case: AdmissionCase) -> Reason | None:
    """From vSphere 8.0 U2 on DRS moves no VM that its vGPUs would stun for longer than `VmDevicesStunTimeTolerated`.

    Without that option it is 100 seconds. Estimates are vCenter's, added for all vGPUs; which of them counts depends on
    the bandwidth of vMotion. By hand the VM can be moved.
    """
    estate = case.situation.view.estate
    times = stun(stun_times(estate), case.vm.vgpus) if case.vm.vgpus else ()
    if not times or (numbers(estate.about.version) or ()) < DRS_BY_ITSELF:
        return None
    options = drs_config(case.situation.cluster(case.host.ref)).get("option") or ()
    texts = {str(o.get("key")).lower(): str(o.get("value")) for o in options}
    most = int(texts[OPTION]) if texts.get(OPTION, "").isdecimal() else TOLERATED
    least, longest = min(times, key=lambda t: t.seconds), max(times, key=lambda t: t.seconds)
    message = f"its vGPUs would stun it for {longest}, and DRS tolerates {most} s"
    if least.seconds > most:
        help = "move it by hand (evacuate: vmotion), or raise VmDevicesStunTimeTolerated of DRS"
        return case.no(message, help, "MigrationFault", Quantity(least.seconds, most, "s"))
    return case.unknown(f"{message}; with {least} it would do") if longest.seconds > most else None
