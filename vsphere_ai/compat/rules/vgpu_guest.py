"""Rules about the guests of running vGPUs, from what the host's own `nvidia-smi vgpu -q` lists: licence and driver."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps

from vsphere_ai.compat.base import Judge, RuleCase, vm_rule
from vsphere_ai.compat.vgpu_branches import branch_of, works_with
from vsphere_ai.gpu.devices import is_vgpu
from vsphere_ai.gpu.smi import live
from vsphere_ai.gpu.smi.running import RunningVgpu
from vsphere_ai.model.finding import Finding
from vsphere_ai.resources.topics import Topic

LISTING = "nvidia-smi vgpu -q"
guest_rule = partial(
    vm_rule,
    reads=("config.hardware.device", "runtime.powerState"),
    also_reads={"HostSystem": ("config.graphicsInfo",)},
    about=Topic.VGPU,
)


def of_guest(judge: Callable[[RuleCase, RunningVgpu, str], Finding]) -> Judge:
    """Let a rule judge the first vGPU of a VM that is on, with the host's driver; it says nothing of any other VM.

    Licence and driver are those of the guest, and the same for all its vGPUs.
    """

    @wraps(judge)
    def judged(case: RuleCase) -> Finding | None:
        on = case.need("runtime.powerState") == "poweredOn"
        if not on or not any(is_vgpu(d) for d in case.need("config.hardware.device")):
            return None
        name, host = case.facts.name, case.view.estate.host_of(case.ref)
        if host is None:
            return case.unknown("the host of this VM cannot be read")
        seen = case.view.facts(host.ref)
        if unread := live.why_not_listed(seen):
            return case.unknown(f"the vGPUs that run on {host.name} are not known: {unread}")
        same = [v for v in case.view.estate.vms_on(host.ref) if v.name == name]
        found = [v for v in live.running(seen) or () if v.vm_name == name]
        if len(same) > 1:
            return case.unknown(f"{len(same)} VMs of this name are on {host.name}: their vGPUs cannot be distinguished")
        if not same or not found:
            return case.unknown(f"{LISTING} on {host.name} lists no vGPU of this VM")
        return judge(case, found[0], live.driver_of(seen, found[0].pci))

    return judged


@guest_rule(
    "vgpu.licence",
    "vGPU guest licensed",
    source="NVIDIA Virtual GPU Client Licensing User Guide, Enforcement of licensing",
    verdicts={
        "pass": "licensed",
        "warn": "unlicensed",
        "unknown": "nvidia-smi on the host prints N/A, was not asked, or does not list the VM",
    },
)
@of_guest
def vgpu_licence(case: RuleCase, vgpu: RunningVgpu, host_driver: str) -> Finding:
    """A guest with a vGPU needs a licence from NVIDIA's License System; without one its performance is degraded.

    The host sees the state of every guest, so no guest has to be asked.
    """
    seen = (f"{LISTING}: License Status", vgpu.licence or "N/A")
    if vgpu.licensed is None and vgpu.licence not in (None, "Unknown"):
        return case.unknown(f"nvidia-smi prints a licence state that is not in any list: {vgpu.licence}", seen)
    if vgpu.licensed is None:
        return case.unknown("the licence state of its guest is not shown; the NVIDIA driver may not run there", seen)
    if vgpu.licensed:
        return case.passed(f"licensed until {vgpu.expires}" if vgpu.expires else "licensed", seen)
    help = "check the client configuration token in the guest, nvidia-gridd, and the way to the licence server"
    return case.warned("its guest has no vGPU licence: performance is degraded after a while", seen, help=help)


@guest_rule(
    "vgpu.guest-driver",
    "vGPU guest driver works with the host's",
    source="NVIDIA Virtual GPU Software 19.0 Release Notes for VMware vSphere, Compatible NVIDIA vGPU Manager and "
    "Guest VM Driver Releases",
    verdicts={
        "pass": "same branch, previous branch, or previous long-term support branch on a host of a later one",
        "warn": "any other branch",
        "unknown": "no driver is loaded in the guest, or a version is of no known branch",
    },
)
@of_guest
def vgpu_guest_driver(case: RuleCase, vgpu: RunningVgpu, host_driver: str) -> Finding:
    """The NVIDIA driver in the guest has to be of a release that works with the host's vGPU manager.

    That is the host's own release branch, the branch before it, or, where the host's is a long-term support branch, the
    long-term support branch before. Any other fails to initialise the vGPU, or is not supported.
    """
    seen = (f"{LISTING}: Guest Driver Version", vgpu.guest_driver or "N/A")
    if vgpu.guest_driver is None:
        return case.unknown("no NVIDIA driver is loaded in the guest", seen)
    evidence = (seen, ("nvidia-smi: driver_version", host_driver))
    host, guest = branch_of(host_driver), branch_of(vgpu.guest_driver)
    if host is None or guest is None:
        odd = host_driver if host is None else vgpu.guest_driver
        return case.unknown(f"driver {odd or 'of the host'} is of no known vGPU release", *evidence)
    if why := works_with(host, guest):
        return case.passed(f"guest driver {vgpu.guest_driver} is of {why}", *evidence)
    side = "later" if guest.release > host.release else "too old"
    words = f"guest driver {vgpu.guest_driver} is of {guest}, the host's {host_driver} of {host}: {side}"
    return case.warned(words, *evidence, help="install the guest driver of the host's release in the VM")
