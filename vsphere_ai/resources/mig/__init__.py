"""MIG mode and GPU instances of a host's GPUs, over SSH with nvidia-smi."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import ClassVar, Literal, Self

from pydantic import PrivateAttr, model_validator

from vsphere_ai.gpu.corrections import DividedGpus
from vsphere_ai.gpu.devices import found_gpus
from vsphere_ai.gpu.mig.parted import CONFIGS
from vsphere_ai.gpu.parted_choice import Parted
from vsphere_ai.gpu.smi import live
from vsphere_ai.gpu.smi.listings import UnreadableOutput
from vsphere_ai.gpu.vgpus.listed_board import boards_as_listed
from vsphere_ai.model.estate.correction import Correction
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.finding import Problem
from vsphere_ai.model.plain import Plain
from vsphere_ai.model.state import Change, KindName, Target, setting
from vsphere_ai.model.steps import Probe, Step
from vsphere_ai.model.view import View
from vsphere_ai.resources.base import After, Form, Projection, Resource, StateExport, Traits, kind_names
from vsphere_ai.resources.corrections import Corrects
from vsphere_ai.resources.host_settings import DividesGpus, Loss
from vsphere_ai.resources.mig.checks import gpu_problems, id_problems, read_problems
from vsphere_ai.resources.mig.gpu import ByAddress, GpuMig, Layout, boards_of, gpus_read, gpus_rebooted, of_entry
from vsphere_ai.resources.mig.losses import kept_modes, lost_parts
from vsphere_ai.resources.mig.settle import settled_gpus
from vsphere_ai.resources.mig.steps import gpu_steps
from vsphere_ai.resources.mixins import AsksMore, Judged
from vsphere_ai.resources.playbook_files import Files, ReadsFiles
from vsphere_ai.resources.topics import Topic


class Mig(AsksMore, Judged, DividesGpus, ReadsFiles, Corrects, Resource):
    """Sets MIG mode per GPU and, when asked, cuts GPUs into GPU instances with explicit placements.

    On vSphere `mode: enabled` is enough: vSphere makes the instances from the profiles of the VMs that power on.
    A `layout` is made after the reboot that Ampere needs for the mode, because instances do not survive a reboot.
    Only the difference is changed, compute instances go before their GPU instance, one in use is never touched.
    """

    kind = KindName("mig")
    target = "host"
    traits = Traits(
        topics=Topic.MIG,
        after=kind_names("graphics"),
        properties={"HostSystem": ("hardware.pciDevice", "config.graphicsInfo")},
    )
    probes: ClassVar[tuple[Probe, ...]] = live.PROBES

    mode: Literal["enabled", "disabled"] | None = setting(
        "MIG mode of every GPU of the host; alone, vSphere makes the instances."
    )
    layout: Layout | None = setting(
        "GPU instances of every GPU: profile names or ids with an optional start (`3g.20gb:4`)."
    )
    gpus: ByAddress | None = setting("PCI address -> layout, or `{mode, layout}`, for GPUs that differ from the rest.")
    parted: Parted | None = setting("A configuration in a file of NVIDIA's mig-parted beside the playbook, instead.")
    _ids: Mapping[str, tuple[str, ...]] = PrivateAttr(default_factory=dict)
    """PCI address -> profile ids of the layout as written; settling turns them into names."""
    _config: str = PrivateAttr("")
    """The configuration of mig-parted that this was settled from."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        both = [name for name in ("mode", "layout", "gpus") if self.parted and getattr(self, name) is not None]
        if both:
            raise ValueError(f"'parted' says it all, but there is '{both[0]}' as well\nkeep one of them")
        return self

    @classmethod
    def correcting(cls, corrections: Sequence[Correction]) -> Plain:
        """The mode of all GPUs, and their layout where there is one; of named GPUs the same, by PCI address."""
        divided = {c.name: _corrected(c) for c in corrections if isinstance(c, DividedGpus)}
        everywhere = divided.pop("", {})
        return {**everywhere, **({"gpus": divided} if divided else {})}

    def with_files(self, files: Files) -> Self:
        """Read the configuration that is named."""
        file = files.load(("parted", "file"), CONFIGS) if self.parted else None
        if self.parted is None or file is None:
            return self
        unknown = partial(files.refuse, ("parted", "config"))
        return self.model_copy(update={"parted": self.parted.read_from(file.data, file.refuse, unknown)})

    @classmethod
    def is_fit(cls, facts: Facts) -> bool:
        """A host with GPUs that have MIG, or may have."""
        return any(g.board is None or g.board.mig_capable for g in found_gpus(facts.get("hardware.pciDevice", ())))

    @classmethod
    def observe(cls, facts: Facts, estate: Estate) -> Self | None:
        """Read modes and instances from nvidia-smi; None when it could not be asked."""
        try:
            listed = live.live(facts)
        except UnreadableOutput:
            return None  # problems() says so
        return None if listed is None else cls.model_construct(gpus=gpus_read(listed))

    def settle(self, target: Target, view: View) -> Self:
        """Spell the wanted state out per GPU, with the start of every instance."""
        facts, now = view.facts(target.ref), (view.get(Mig, target.ref) or Mig()).gpus or {}
        named = self.gpus or {}
        if self.parted:
            named = {p: of_entry(e) for p, e in self.parted.by_gpu(facts, boards_of(facts)).items()}
        gpus, ids = settled_gpus(target, view, named, GpuMig.model_construct(mode=self.mode, layout=self.layout), now)
        settled = self.model_copy(update={"mode": None, "layout": None, "parted": None, "gpus": gpus})
        # a settled state may be settled again
        settled._ids = ids if any(ids.values()) else self._ids
        settled._config = self.parted.config if self.parted else self._config
        return settled

    def problems(self, target: Target, view: View) -> Iterator[Problem]:
        """SSH, GPUs that are not there or have no MIG, layouts that do not fit."""
        facts = view.facts(target.ref)
        yield from read_problems(target, facts)
        # what a configuration is about is known only where nvidia-smi was read
        if not self.gpus and (not self._config or live.readable(facts).gpus):
            what = f"has no GPU that {self._config} is about" if self._config else "has no GPU with MIG"
            yield self.problem(target, "no-gpu", f"this host {what}", "leave it out of the play")
        yield from id_problems(target, facts, self._ids)
        yield from gpu_problems(target, view, self.gpus or {}, self._left(target, view))

    @classmethod
    def _left(cls, target: Target, view: View) -> Mapping[str, GpuMig]:
        """Return the GPUs as they were read, or as they are once this plan has rebooted the host."""
        seen = cls.observe(view.facts(target.ref), view.estate) or cls()
        return seen._rebooted(view.facts(target.ref)) if target.ref in view.rebooting else seen.gpus or {}

    def remarks(self, target: Target, view: View) -> Iterator[str]:
        """Say what is not needed on vSphere, and where the host's list of profiles is not the documented one."""
        boards = boards_as_listed(view.facts(target.ref))
        said: dict[str, list[str]] = {}
        for pci in self.gpus or {}:
            for line in boards[pci].disagreements if pci in boards else ():
                said.setdefault(line, []).append(pci)
        yield from (f"GPU {', '.join(pcis)}: {line}" for line, pcis in said.items())
        if any(g.layout for g in (self.gpus or {}).values()):
            yield (
                "instances made by hand on ESXi are gone after every reboot, and NVIDIA's guide omits them on "
                "vSphere: mode: enabled is enough"
            )

    def steps(self, change: Change, view: View) -> Iterator[Step]:
        """Per GPU: the mode (a reboot on Ampere), then destroy what must go, then create with explicit starts."""
        read = (self.observe(view.facts(change.target.ref), view.estate) or Mig()).gpus or {}
        yield from gpu_steps(change, view, self.gpus or {}, read, self._left(change.target, view))

    def export(self, target: Target, view: View, form: Form) -> StateExport:
        """A mode that waits for a reboot cannot be stated; vSphere makes the instances of running VMs itself."""
        if form == "shown":
            return StateExport(self)
        busy = live.busy(view.facts(target.ref))
        gpus = {
            pci: gpu if pci not in busy else GpuMig.model_construct(mode=gpu.mode, layout=None)
            for pci, gpu in (self.gpus or {}).items()
            if gpu.mode in ("enabled", "disabled")
        }
        waits = ", ".join(f"GPU {pci} is {g.mode}" for pci, g in (self.gpus or {}).items() if pci not in gpus)
        left_out = f"MIG left out: {waits}" if waits else ""
        stated: dict[str, object] = {"gpus": gpus}
        every = len(found_gpus(view.facts(target.ref).get("hardware.pciDevice", ())))
        if form == "playbook" and len(gpus) == every and len(set(gpus.values())) == 1:
            (alike,) = set(gpus.values())
            stated = {"gpus": None, "mode": alike.mode, "layout": alike.layout}
        return StateExport(self.model_copy(update=stated) if gpus else None, left_out)

    def project(self, target: Target, view: View, after: After) -> Projection:
        """Instances are gone after a reboot; the mode stays on Ampere, and is lost with the driver on Hopper."""
        if after == "plan":
            return Projection(self)
        return Projection(self.model_copy(update={"gpus": self._rebooted(view.facts(target.ref))}))

    def is_divided(self, pci: str) -> bool | None:
        """Go by the mode that is at work, not by one that waits for a reboot."""
        mode = gpu.mode if (gpu := (self.gpus or {}).get(pci)) else None
        return None if mode is None else mode.startswith("enabled")

    def layout_of(self, pci: str) -> tuple[str, ...] | None:
        """Those of the layout."""
        return gpu.layout if (gpu := (self.gpus or {}).get(pci)) else None

    def _rebooted(self, facts: Facts) -> Mapping[str, GpuMig]:
        return gpus_rebooted(self.gpus or {}, boards_of(facts))

    @classmethod
    def loss(cls, host: Target, view: View) -> Loss | None:
        """Modes that are lost with the driver, and instances that neither a playbook nor vSphere makes again."""
        facts, seen = view.facts(host.ref), view.get(cls, host.ref)
        if seen is not None:
            users, left = live.users(facts, view.estate), seen._rebooted(facts)
            what = tuple(lost_parts(users, seen.gpus or {}, left, _stated(host, view)))
            return Loss(host, what) if what else None
        if not cls.is_fit(facts) or (host.ref, cls.kind) in view.stated:
            return None  # `problems` says what could not be read
        return Loss(host, unread=live.why_unread(facts))

    @classmethod
    def kept(cls, host: Target, view: View) -> dict[str, str]:
        """PCI address -> the mode that has to be there after a reboot, where no playbook says another."""
        seen = view.get(cls, host.ref)
        if seen is None:
            return {}
        return kept_modes(seen._rebooted(view.facts(host.ref)), _stated(host, view))


def _stated(host: Target, view: View) -> Mapping[str, GpuMig]:
    stated = view.said(Mig, host.ref)
    return (stated.settle(host, view).gpus or {}) if stated else {}


def _corrected(gpus: DividedGpus) -> dict[str, Plain]:
    layout: dict[str, Plain] = {} if gpus.layout is None else {"layout": gpus.layout}
    return {"mode": "enabled" if gpus.in_mig else "disabled", **layout}
