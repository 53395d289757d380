"""Host graphics: shared (vSGA) or shared direct (vGPU), how VMs are spread over GPUs, and which sizes share one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, Self

from vsphere_ai.gpu.corrections import SharedDirectGpus
from vsphere_ai.gpu.devices import found_gpus, nvidia_gpus
from vsphere_ai.gpu.vgpus import vgpu_mode
from vsphere_ai.model.estate.correction import Correction
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.finding import Problem
from vsphere_ai.model.plain import Plain
from vsphere_ai.model.privilege import Duty
from vsphere_ai.model.state import Change, KindName, Target, observed, setting
from vsphere_ai.model.steps import Step
from vsphere_ai.model.view import View
from vsphere_ai.resources._helpers.factories import invoke, restart
from vsphere_ai.resources.base import After, Form, Projection, Resource, StateExport, Traits, kind_names
from vsphere_ai.resources.corrections import Corrects
from vsphere_ai.resources.host_graphics.checks import mode_problems
from vsphere_ai.resources.host_graphics.spelling import api_type, common_mode, config_with, spelled
from vsphere_ai.resources.host_settings import DividesGpus, SharesGpus
from vsphere_ai.resources.mixins import Judged, settled
from vsphere_ai.resources.topics import Topic

CONFIG, INFO = "config.graphicsConfig", "config.graphicsInfo"
MANAGER = "configManager.graphicsManager"
GraphicsType = Literal["shared", "shared_direct"]
Policy = Literal["performance", "consolidation"]
Mode = Literal["same_size", "mixed_size"]


class HostGraphics(Judged, SharesGpus, Corrects, Resource):
    """Sets the default graphics type of an ESXi host and of every NVIDIA GPU in it, and the assignment policy.

    A GPU is converged when the type it runs with (`graphicsInfo`) is the wanted one, not when it is configured
    (`graphicsConfig`): a configured change waits for a restart of the host, and this kind asks for that restart.
    """

    kind = KindName("graphics")
    target = "host"
    traits = Traits(
        duties=(Duty("`graphics`", "hosts", ("UpdateGraphicsConfig", "RefreshGraphicsManager")),),
        topics=Topic.HOST_GRAPHICS,
        decides={CONFIG: "default_type"},
        after=kind_names("passthrough"),
        replaces={"UpdateGraphicsConfig": CONFIG},
        properties={"HostSystem": (CONFIG, INFO, "config.pciPassthruInfo", "config.product", "hardware.pciDevice")},
    )

    default_type: GraphicsType | None = setting(
        "`shared_direct` gives GPUs to vGPU VMs, `shared` to vSGA; every NVIDIA GPU follows."
    )
    assignment_policy: Policy | None = setting(
        "`performance` spreads VMs over GPUs, `consolidation` fills one GPU first; "
        "honoured for time-sliced vGPUs of equal size only."
    )
    vgpu_mode: Mode | None = setting(
        "`mixed_size` lets time-sliced vGPUs of several sizes share a GPU, `same_size` does not; every "
        "NVIDIA GPU that is not in MIG mode follows. vSphere 8.0 U3."
    )
    gpus: Mapping[str, str] | None = observed("PCI address -> the type the GPU runs with, and what it waits for.")
    vgpu_modes: Mapping[str, str] | None = observed("PCI address -> the vGPU mode of the GPU, and what it waits for.")

    @classmethod
    def is_fit(cls, facts: Facts) -> bool:
        """A host with NVIDIA GPUs."""
        return bool(found_gpus(facts.get("hardware.pciDevice", ())))

    @classmethod
    def correcting(cls, corrections: Sequence[Correction]) -> Plain:
        """The type of graphics that gives vGPUs."""
        return {"default_type": "shared_direct"} if any(isinstance(c, SharedDirectGpus) for c in corrections) else {}

    @classmethod
    def observe(cls, facts: Facts, estate: Estate) -> Self | None:
        """Read what is configured and what is active."""
        config = facts.get(CONFIG)
        if config is None:
            return None
        configured = {d["deviceId"]: d["graphicsType"] for d in config.get("deviceType", ())}
        default = config["hostDefaultGraphicsType"]
        gpus = {}
        for pci, active in ((g["pciId"], g["graphicsType"]) for g in nvidia_gpus(facts)):
            wanted = configured.get(pci, default)
            gpus[pci] = spelled(active) + ("" if wanted == active else f" (configured: {spelled(wanted)})")
        modes = vgpu_mode.seen(facts)
        return cls.model_construct(
            default_type=spelled(default),
            assignment_policy=config["sharedPassthruAssignmentPolicy"],
            vgpu_mode=common_mode({p: modes[p] for p in vgpu_mode.concerned(facts) if p in modes}),
            gpus=gpus,
            vgpu_modes=modes or None,
        )

    def settle(self, target: Target, view: View) -> Self:
        """Every NVIDIA GPU follows the default type, and those that are not in MIG mode the vGPU mode."""
        facts = view.facts(target.ref)
        full, gpus = super().settle(target, view), nvidia_gpus(facts)
        types = {} if self.default_type is None else {"gpus": {g["pciId"]: self.default_type for g in gpus}}
        if self.vgpu_mode is None:
            return full.model_copy(update=types)
        # one that the same playbook takes out of MIG mode will run in it
        leaving = {
            g["pciId"] for d in settled(view, target, DividesGpus) for g in gpus if d.is_divided(g["pciId"]) is False
        }
        modes = dict.fromkeys((*vgpu_mode.concerned(facts), *sorted(leaving)), self.vgpu_mode)
        return full.model_copy(update={**types, "vgpu_modes": vgpu_mode.seen(facts) | modes})

    def problems(self, target: Target, view: View) -> Iterator[Problem]:
        """No GPU, or one that is given to a VM whole (passthrough)."""
        facts = view.facts(target.ref)
        if facts.get(CONFIG) is None:
            message = "the graphics configuration of this host cannot be read"
            yield self.problem(target, "unreadable", message, "connect the host to vCenter and grant System.Read on it")
            return
        if not nvidia_gpus(facts):
            remedy = "leave it out of the play, or install the NVIDIA host driver (VIB) and reboot"
            yield self.problem(target, "no-gpu", "this host shows no NVIDIA GPU in its graphics devices", remedy)
        enabled = {p["id"] for p in facts.get("config.pciPassthruInfo", ()) if p.get("passthruEnabled")}
        for gpu in nvidia_gpus(facts):
            if gpu["graphicsType"] == "direct" or gpu["pciId"] in enabled:
                message = f"GPU {gpu['pciId']} is in passthrough mode and cannot be {self.default_type}"
                remedy = "disable passthrough for the device first (Configure > PCI Devices)"
                yield self.problem(target, "passthrough", message, remedy)
        said = view.said(HostGraphics, target.ref)
        if said is not None and said.vgpu_mode is not None and self._modes():
            yield from mode_problems(target, view, self.vgpu_mode)

    def remarks(self, target: Target, view: View) -> Iterator[str]:
        """Name GPUs in MIG mode, which a vGPU mode does not concern."""
        facts = view.facts(target.ref)
        in_mig = [g["pciId"] for g in nvidia_gpus(facts) if g.get("vgpuMode") == vgpu_mode.MIG]
        changing = vgpu_mode.changing(facts, self._modes())
        if moded := [pci for pci in in_mig if pci in changing]:
            yield f"{', '.join(moded)} in MIG mode: the vGPU mode counts once MIG is off"
        left = [pci for pci in in_mig if pci not in changing]
        if left and changing:
            yield f"{', '.join(left)} in MIG mode: the vGPU mode stays as it is there, it counts only once MIG is off"

    def project(self, target: Target, view: View, after: After) -> Projection:
        """Show the GPUs in their wanted vGPU modes, by which capacity is counted."""
        modes = self._modes() if after == "plan" else {}
        if not modes:
            return Projection(self)
        facts = view.facts(target.ref)
        return Projection(self, (facts.having({INFO: vgpu_mode.after(facts, modes)}),))

    def steps(self, change: Change, view: View) -> Iterator[Step]:
        """Send the complete configuration once, ask for the restart that makes it active, refresh afterwards."""
        facts = view.facts(change.target.ref)
        config, gpus, types, modes = facts.get(CONFIG), nvidia_gpus(facts), self._types(), self._modes()
        wanted = config_with(config, types, modes)
        wanted |= {"hostDefaultGraphicsType": api_type(self.default_type)}
        wanted |= {"sharedPassthruAssignmentPolicy": self.assignment_policy}
        restarts = any(g["graphicsType"] != types.get(g["pciId"], g["graphicsType"]) for g in gpus)
        restarts = restarts or bool(vgpu_mode.pending(facts, modes))
        moded = vgpu_mode.changing(facts, modes)
        if wanted != config:
            said = (self.default_type, self.assignment_policy, self.vgpu_mode if moded else None)
            count = f"{len(gpus)} GPU{'' if len(gpus) == 1 else 's'}"
            summary = f"set graphics to {', '.join(s for s in said if s)} ({count})"
            # a GPU changes its vGPU mode only while no VM uses it
            used = any(g.get("vm") for g in gpus if g["pciId"] in moded)
            empty = restarts or used
            yield invoke(change, MANAGER, "UpdateGraphicsConfig", {"config": wanted}, summary, needs_maintenance=empty)
        if restarts:
            yield restart(change, "restart, which makes the graphics type active")
        if restarts or moded:
            summary = "refresh graphics devices"
            yield invoke(change, MANAGER, "RefreshGraphicsManager", {}, summary, after_reboot=restarts)

    def export(self, target: Target, view: View, form: Form) -> StateExport:
        """Leave out hosts without a GPU, and those with a GPU that is not as the default: no playbook states that."""
        if form == "shown":
            return StateExport(self)
        # a GPU may wait for a restart, or have a type of its own (passthrough among them)
        odd = ", ".join(f"GPU {pci} is {t}" for pci, t in (self.gpus or {}).items() if t != self.default_type)
        left_out = f"graphics left out: {odd}, the host's default is {self.default_type}" if odd else ""
        return StateExport(self if self.gpus and not odd else None, left_out)

    def shares(self, pci: str) -> bool:
        """Go by the type at work, not by one that waits for a restart."""
        return (self.gpus or {}).get(pci, "").startswith("shared_direct")

    def consolidates(self) -> bool:
        """Go by the assignment policy."""
        return self.assignment_policy == "consolidation"

    def _modes(self) -> dict[str, str]:
        """Return PCI address -> vGPU mode wanted; one that was only read is left as it is."""
        return {pci: mode for pci, mode in (self.vgpu_modes or {}).items() if mode in vgpu_mode.TO_API}

    def _types(self) -> dict[str, str]:
        """Return PCI address -> API type; a GPU without a stated type that waits for one is not changed."""
        return {pci: api_type(t) for pci, t in (self.gpus or {}).items() if t in ("shared", "shared_direct")}
