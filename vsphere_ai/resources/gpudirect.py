"""GPUDirect RDMA: the settings a VM needs so that a NIC reads and writes GPU memory directly, and whether it can."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Self

from vsphere_ai.fabric import pci, virtual_functions
from vsphere_ai.gpu.corrections import PeerToPeer
from vsphere_ai.gpu.vgpus import vgpu
from vsphere_ai.gpu.vgpus.window import MMIO_KEY, MMIO_SIZE_KEY
from vsphere_ai.model.estate.correction import Correction
from vsphere_ai.model.estate.remedies import play_for
from vsphere_ai.model.facts import Estate, Facts, ProbeFailure
from vsphere_ai.model.finding import Problem
from vsphere_ai.model.plain import Plain
from vsphere_ai.model.privilege import Duty
from vsphere_ai.model.state import Change, KindName, Target, observed, setting
from vsphere_ai.model.steps import Step
from vsphere_ai.model.view import View
from vsphere_ai.resources._helpers import function_demands
from vsphere_ai.resources._helpers.factories import reconfigure
from vsphere_ai.resources._helpers.vm_settings import advanced_settings, gpu_memory_of, window_keys, window_seen
from vsphere_ai.resources._possible_devices import possible_devices
from vsphere_ai.resources.adapters import Adapters
from vsphere_ai.resources.base import Form, Resource, StateExport, Traits, kind_names
from vsphere_ai.resources.corrections import Corrects
from vsphere_ai.resources.kernel import Kernel
from vsphere_ai.resources.pvrdma import Pvrdma

# NVIDIA AI Enterprise 5.0, deployment guide for vSphere, GPUDirect RDMA; with them go the MMIO keys of large-BAR GPUs
P2P_KEYS = ("pciPassthru.allowP2P", "pciPassthru.RelaxACSforP2P")
WHY_NOT_PVRDMA = (
    "a PVRDMA adapter is made by the hypervisor, which moves its data through the host's RDMA device: the guest has no "
    "PCI function the GPU could reach"
)


class _Ends(NamedTuple):
    """The devices of a host that the VM's GPUs and NICs are or may become."""

    gpus: tuple[str, ...]
    nics: tuple[str, ...]
    chosen: bool
    """The GPUs are these; otherwise the host picks among them when the VM powers on."""


class GpuDirect(Corrects, Resource):
    """Prepares a VM for GPUDirect RDMA, and refuses where it could not work.

    It needs a GPU and a NIC (passthrough or SR-IOV) of one host near each other, below one PCIe root complex or at
    least at one NUMA node, ATS on in the host's kernel, and four advanced settings of the VM.
    """

    kind = KindName("gpudirect")
    target = "vm"
    shorthand = "enabled"
    traits = Traits(
        after=kind_names("adapters", "kernel", "pci_devices", "pvrdma", "vgpu"),
        properties={
            "VirtualMachine": ("config.extraConfig", "config.hardware.device"),
            "HostSystem": (*pci.PATHS, *virtual_functions.PATHS),
        },
        duties=(Duty("`gpudirect`", "VMs", extra_config=True),),
        vm_settings=dict.fromkeys((*P2P_KEYS, MMIO_KEY, MMIO_SIZE_KEY), "write gpudirect, vgpu or pci_devices"),
    )

    enabled: bool | None = setting("`gpudirect: true` prepares the VM, `false` takes it back.")
    mmio_64bit: bool | None = observed("Large memory-mapped regions are allowed.")
    mmio_size_gb: int | None = observed("Their size, as all GPUs of the VM need it.")

    @classmethod
    def correcting(cls, corrections: Sequence[Correction]) -> Plain:
        """Its settings for peer-to-peer."""
        return any(isinstance(c, PeerToPeer) for c in corrections)

    @classmethod
    def observe(cls, facts: Facts, estate: Estate) -> Self | None:
        """Read the four keys; None for `enabled` when only one of its two is set."""
        if facts.get("config.hardware.device") is None:
            return None
        extra = advanced_settings(facts)
        on = [extra.get(k, "").lower() == "true" for k in P2P_KEYS]
        return cls.model_construct(enabled=on[0] if on[0] == on[1] else None, **window_seen(facts))

    def settle(self, target: Target, view: View) -> Self:
        """The window is that of the VM's GPUs, whichever way it has them."""
        now = view.get(GpuDirect, target.ref) or GpuDirect()
        if not self.enabled:
            return self if self.enabled is False else self.model_copy(update={"enabled": now.enabled})
        memory = gpu_memory_of(target, view)
        size = max(now.mmio_size_gb or 0, vgpu.mmio_size_gb(memory) if memory else 0)
        return self.model_copy(update={"mmio_64bit": True, "mmio_size_gb": size or None})

    def problems(self, target: Target, view: View) -> Iterator[Problem]:
        """No GPU, no NIC the GPU could reach, the two too far apart, or ATS off."""
        if not self.enabled:
            return
        on = view.estate.host_of(target.ref)
        if on is None:
            yield self.problem(
                target,
                "host-unknown",
                "the host of this VM cannot be read",
                "connect its host to vCenter, or give the account System.Read there",
            )
            return
        ends = _ends(target, view, on)
        if not ends.gpus:
            remedy = "add vgpu: [...] or pci_devices: [...] to the play"
            yield self.problem(target, "no-gpu", f"this VM has no GPU of {on.name}", remedy)
        if not ends.nics and _pvrdma(target, view):
            remedy = "give it a virtual function (adapters: type sriov) or a whole NIC (pci_devices)"
            yield self.problem(target, "pvrdma", f"its only RDMA adapters are PVRDMA: {WHY_NOT_PVRDMA}", remedy)
        elif not ends.nics:
            remedy = "add a virtual function (adapters: type sriov) or a whole NIC (pci_devices)"
            yield self.problem(target, "no-nic", "this VM has no NIC a GPU could reach", remedy)
        if ends.gpus and ends.nics:
            yield from self._far(target, view, on, ends)
        yield from self._ats(target, view, on)

    def _far(self, target: Target, view: View, on: Target, ends: _Ends) -> Iterator[Problem]:
        found = pci.devices(view.facts(on.ref))
        far = [g for g in ends.gpus if not _nearest(g, ends.nics, found)]
        if not far or (len(far) < len(ends.gpus) and not ends.chosen):
            return
        drawn = "\n".join(pci.tree(on.name, (*ends.gpus, *ends.nics), found))
        pairs = f"GPU {', '.join(far)} and NIC {', '.join(ends.nics)} of {on.name}"
        message = f"{pairs} are below no common PCIe root, nor at one NUMA node"
        yield self.problem(target, "topology", message, f"take a GPU and a NIC that are near each other\n{drawn}")

    def _ats(self, target: Target, view: View, on: Target) -> Iterator[Problem]:
        kernel, remedy = view.get(Kernel, on.ref), play_for(on, view, "kernel: {ats_support: true}")
        if kernel is None:
            failure = next((o for o in view.facts(on.ref).probes.values() if isinstance(o, ProbeFailure)), None)
            why, remedy = (failure.reason, failure.help) if failure else ("it was not asked over SSH", remedy)
            yield self.problem(target, "ats-unknown", f"whether ATS is on at {on.name} is not known: {why}", remedy)
        elif kernel.ats_support is not True:
            yield self.problem(target, "ats", f"ATS is off in the kernel of {on.name}", remedy)

    def remarks(self, target: Target, view: View) -> Iterator[str]:
        """Say what cannot be seen from here, and where the way is only just good enough."""
        on = view.estate.host_of(target.ref)
        if not self.enabled or on is None:
            return
        yield "ATS has to be on in the NIC's firmware as well (mlxconfig ATS_ENABLED), which cannot be seen from here"
        ends, found = _ends(target, view, on), pci.devices(view.facts(on.ref))
        near = {g: _nearest(g, ends.nics, found) for g in ends.gpus}
        for gpu, way in near.items():
            if way == "node":
                yield f"GPU {gpu} and the NIC share a NUMA node of {on.name}, but no PCIe root: slower than below one"
        far = [g for g, way in near.items() if not way]
        if far and len(far) < len(near) and not ends.chosen:
            yield f"{on.name} picks the GPU when the VM powers on; from {', '.join(far)} it would not work"
        if ends.nics and _pvrdma(target, view):
            yield f"its PVRDMA adapters take no part in it: {WHY_NOT_PVRDMA}"

    def steps(self, change: Change, view: View) -> Iterator[Step]:
        """Set or remove the keys; the MMIO keys stay, GPUs need them anyway."""
        switched = any(f.name == "enabled" for f in change.fields)
        keys = dict.fromkeys(P2P_KEYS, "TRUE" if self.enabled else "") if switched else {}
        keys |= window_keys(change)
        have = advanced_settings(view.facts(change.target.ref))
        extra = ((k, v) for k, v in keys.items() if v or k in have)
        yield reconfigure(change, {}, f"GPUDirect RDMA {'on' if self.enabled else 'off'}", extra)

    def export(self, target: Target, view: View, form: Form) -> StateExport:
        """State only VMs it is prepared on; a half that was set by hand cannot be stated."""
        odd = form == "playbook" and self.enabled is None
        left_out = f"gpudirect left out: only one of {', '.join(P2P_KEYS)} is set" if odd else ""
        return StateExport(self if self.enabled or form != "playbook" else None, left_out)


def _ends(target: Target, view: View, on: Target) -> _Ends:
    facts = view.facts(on.ref)
    found, each = pci.devices(facts), possible_devices(target, view, facts)
    known = [a for addresses in each for a in addresses if a in found]
    gpus, nics = [a for a in known if found[a].is_gpu], [a for a in known if found[a].is_nic]
    for demand in function_demands.demands(view, [target]):
        behind = virtual_functions.behind(view.estate, facts, demand.port_group)
        nics += [f.pci for f in behind if f.pci in found and demand.function in ("auto", f.pci)]
    return _Ends(tuple(dict.fromkeys(gpus)), tuple(dict.fromkeys(nics)), all(len(addresses) == 1 for addresses in each))


def _pvrdma(target: Target, view: View) -> bool:
    listed, pvrdma = view.get(Adapters, target.ref) or Adapters(), view.get(Pvrdma, target.ref) or Pvrdma()
    return bool(pvrdma.adapters) or any(a.type == "pvrdma" for a in listed.adapters or ())


def _nearest(gpu: str, nics: tuple[str, ...], found: Mapping[str, pci.PciFunction]) -> str:
    ways = {pci.nearness(gpu, nic, found) for nic in nics}
    return next((way for way in ("switch", "root", "node") if way in ways), "")
