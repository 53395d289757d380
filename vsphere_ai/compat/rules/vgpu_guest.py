"""Rules about the guests of running vGPUs, from what the host's own `nvidia-smi vgpu -q` lists: licence and driver."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar

from vsphere_ai.compat.base import Case, Meanings, Paths, Rule
from vsphere_ai.compat.vgpu_branches import branch_of, works_with
from vsphere_ai.gpu import live
from vsphere_ai.gpu.devices import is_vgpu
from vsphere_ai.gpu.running import RunningVgpu
from vsphere_ai.model.finding import Finding

LISTING = "nvidia-smi vgpu -q"


class _Running(Rule):
    """A rule about a VM with vGPUs that is on; it says nothing of any other."""

    target = "vm"
    properties: ClassVar[Paths] = {
        "VirtualMachine": ("config.hardware.device", "runtime.powerState"),
        "HostSystem": ("config.graphicsInfo",),
    }
    needed_by = frozenset({"vgpu"})

    def judge(self, case: Case) -> Iterator[Finding]:
        """Look the VM up in its host's listing."""
        on = case.need("runtime.powerState") == "poweredOn"
        if not on or not any(is_vgpu(d) for d in case.need("config.hardware.device")):
            return
        facts, host = case.view.facts(case.ref), case.view.estate.host_of(case.ref)
        if host is None:
            yield case.unknown("the host of this VM cannot be read")
            return
        seen = case.view.facts(host.ref)
        unread = live.why_not_listed(seen)
        if unread:
            yield case.unknown(f"the vGPUs that run on {host.name} are not known: {unread}")
            return
        same = [v for v in case.view.estate.vms_on(host.ref) if v.name == facts.name]
        found = [v for v in live.running(seen) or () if v.vm_name == facts.name]
        if len(same) != 1 or not found:
            several = f"{len(same)} VMs of this name are on {host.name}: their vGPUs cannot be distinguished"
            yield case.unknown(several if len(same) > 1 else f"{LISTING} on {host.name} lists no vGPU of this VM")
            return
        yield self.of(case, found[0], live.driver_of(seen, found[0].pci))

    @abstractmethod
    def of(self, case: Case, vgpu: RunningVgpu, host_driver: str) -> Finding:
        """Judge the first vGPU of the VM; licence and driver are those of its guest, and the same for all of them."""


class VgpuLicence(_Running):
    """A guest with a vGPU needs a licence from NVIDIA's License System; without one its performance is degraded.

    The host sees the state of every guest, so no guest has to be asked.
    """

    id = "vgpu.licence"
    title = "vGPU guest licensed"
    source = "NVIDIA Virtual GPU Client Licensing User Guide, Enforcement of licensing"
    verdicts: ClassVar[Meanings] = {
        "pass": "licensed",
        "warn": "unlicensed",
        "unknown": "nvidia-smi on the host prints N/A, was not asked, or does not list the VM",
    }

    def of(self, case: Case, vgpu: RunningVgpu, host_driver: str) -> Finding:
        """Read the state."""
        seen = (f"{LISTING}: License Status", vgpu.licence or "N/A")
        if vgpu.licensed is None:
            return case.unknown(
                "the licence state of its guest is not shown; the NVIDIA driver may not run there", seen
            )
        if vgpu.licensed:
            return case.passed(f"licensed until {vgpu.expires}" if vgpu.expires else "licensed", seen)
        return case.warned(
            "its guest has no vGPU licence: performance is degraded after a while", seen,
            help="check the client configuration token in the guest, nvidia-gridd, and the way to the licence server",
        )  # fmt: skip


class VgpuGuestDriver(_Running):
    """The NVIDIA driver in the guest has to be of a release that works with the host's vGPU manager.

    That is the host's own release branch, the branch before it, or, where the host's is a long-term support branch, the
    long-term support branch before. Any other fails to initialise the vGPU, or is not supported.
    """

    id = "vgpu.guest-driver"
    title = "vGPU guest driver works with the host's"
    source = "NVIDIA Virtual GPU Software 19.0 Release Notes for VMware vSphere, Compatible NVIDIA vGPU Manager and " \
        "Guest VM Driver Releases"  # fmt: skip
    verdicts: ClassVar[Meanings] = {
        "pass": "same branch, previous branch, or previous long-term support branch on a host of a later one",
        "warn": "any other branch",
        "unknown": "no driver is loaded in the guest, or a version is of no known branch",
    }

    def of(self, case: Case, vgpu: RunningVgpu, host_driver: str) -> Finding:
        """Compare branches."""
        seen = (f"{LISTING}: Guest Driver Version", vgpu.guest_driver or "N/A")
        if vgpu.guest_driver is None:
            return case.unknown("no NVIDIA driver is loaded in the guest", seen)
        evidence = (seen, ("nvidia-smi: driver_version", host_driver))
        host, guest = branch_of(host_driver), branch_of(vgpu.guest_driver)
        if host is None or guest is None:
            odd = host_driver if host is None else vgpu.guest_driver
            return case.unknown(f"driver {odd or 'of the host'} is of no known vGPU release", *evidence)
        why = works_with(host, guest)
        if why:
            return case.passed(f"guest driver {vgpu.guest_driver} is of {why}", *evidence)
        side = "later" if guest.release > host.release else "too old"
        return case.warned(
            f"guest driver {vgpu.guest_driver} is of {guest}, the host's {host_driver} of {host}: {side}", *evidence,
            help="install the guest driver of the host's release in the VM",
        )  # fmt: skip
