"""MIG mode and GPU instances of a host's GPUs, over SSH with nvidia-smi."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Annotated, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, PrivateAttr, model_validator

from vsphere_ai.gpu import commands, live
from vsphere_ai.gpu.devices import found_gpus
from vsphere_ai.gpu.listed_board import boards_as_listed
from vsphere_ai.gpu.listings import UnreadableOutput
from vsphere_ai.gpu.parted_choice import Parted
from vsphere_ai.model.facts import Estate, Facts, ProbeFailure
from vsphere_ai.model.state import Change, Problem, Target
from vsphere_ai.model.steps import Probe, Step
from vsphere_ai.model.view import View
from vsphere_ai.resources.base import After, Export, Form, Projection, Resource, Traits
from vsphere_ai.resources.mig.checks import id_problems, layout_problems, listing_problems
from vsphere_ai.resources.mig.gpu import (
    GpuMig,
    Layout,
    Slot,
    after_boot,
    as_gpu,
    boards_of,
    gpus_read,
    gpus_rebooted,
    ids_in,
    of_entry,
    pci_of,
    placed_layout,
)
from vsphere_ai.resources.mig.losses import lost_parts
from vsphere_ai.resources.mig.steps import layout_steps, mode_steps
from vsphere_ai.resources.mixins import DividesGpus, Files, Judged, Loss, ReadBySsh, ReadsFiles


class Mig(ReadBySsh, Judged, DividesGpus, ReadsFiles, Resource):
    """Sets MIG mode per GPU and, when asked, cuts GPUs into GPU instances with explicit placements.

    On vSphere `mode: enabled` is enough: vSphere makes the instances from the profiles of the VMs that power on.
    A `layout` is made after the reboot that Ampere needs for the mode, because instances do not survive a reboot.
    Only the difference is changed, compute instances go before their GPU instance, one in use is never touched.
    """

    kind = "mig"
    target = "host"
    traits = Traits(after=("graphics",), properties={"HostSystem": ("hardware.pciDevice", "config.graphicsInfo")})
    probes: ClassVar[tuple[Probe, ...]] = live.PROBES

    mode: Literal["enabled", "disabled"] | None = Field(
        default=None, description="MIG mode of every GPU of the host; alone, vSphere makes the instances."
    )
    layout: Layout | None = Field(
        default=None,
        description="GPU instances of every GPU: profile names or ids with an optional start (`3g.20gb:4`).",
    )
    gpus: Mapping[str, Annotated[GpuMig, BeforeValidator(as_gpu)]] | None = Field(
        default=None, description="PCI address -> layout, or `{mode, layout}`, for GPUs that differ from the rest."
    )
    parted: Parted | None = Field(
        default=None, description="A configuration in a file of NVIDIA's mig-parted beside the playbook, instead."
    )
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

    def with_files(self, files: Files) -> Self:
        """Read the configuration that is named."""
        file = files.load(("parted", "file")) if self.parted else None
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
        if listed is None:
            return None
        return cls.model_construct(gpus=gpus_read(listed))

    def settle(self, target: Target, view: View) -> Self:
        """Spell the wanted state out per GPU, with the start of every instance."""
        facts, now = view.facts(target.ref), view.state(target.ref, self.kind)
        named = {pci_of(k): v for k, v in (self.gpus or {}).items()}
        boards = boards_of(facts)
        if self.parted:
            named = {p: of_entry(e) for p, e in self.parted.by_gpu(facts, boards).items()}
        everywhere = [pci for pci, board in boards.items() if board and board.mig_capable]
        chosen = everywhere if self.mode or self.layout is not None else []
        gpus, ids = {}, {}
        for pci in sorted({*chosen, *named}):
            wanted = named.get(pci, GpuMig.model_construct(mode=None, layout=None))
            layout = wanted.layout if wanted.layout is not None else None if wanted.mode else self.layout
            mode = wanted.mode or ("enabled" if layout else self.mode)
            have = (now.gpus or {}).get(pci) if now else None
            placed = placed_layout(view, Slot(target, pci, boards.get(pci)), layout, have)
            gpus[pci] = GpuMig.model_construct(mode=mode, layout=placed)
            ids[pci] = ids_in(layout)
        settled = self.model_copy(update={"mode": None, "layout": None, "parted": None, "gpus": gpus})
        # a settled state may be settled again
        settled._ids = ids if any(ids.values()) else self._ids
        settled._config = self.parted.config if self.parted else self._config
        return settled

    def problems(self, target: Target, view: View) -> Iterator[Problem]:
        """SSH, GPUs that are not there or have no MIG, layouts that do not fit."""
        facts = view.facts(target.ref)
        failure = next(
            (o for o in map(facts.probes.get, (p.name for p in self.probes)) if isinstance(o, ProbeFailure)), None
        )
        if failure is not None:
            yield self.problem(target, failure.rule, f"MIG cannot be read: {failure.reason}", failure.help)
        else:
            yield from listing_problems(target, facts)
        # what a configuration is about is known only where nvidia-smi was read
        if not self.gpus and (not self._config or live.readable(facts).gpus):
            what = f"has no GPU that {self._config} is about" if self._config else "has no GPU with MIG"
            yield self.problem(target, "no-gpu", f"this host {what}", "leave it out of the play")
        boards = boards_of(facts)
        yield from id_problems(target, facts, self._ids)
        for pci, wanted in (self.gpus or {}).items():
            board = boards.get(pci)
            if pci not in boards:
                hint = f"{meant} " if (meant := commands.pci_hint(pci)) else ""
                there = f"{hint}it has {', '.join(boards) or 'none'}"
                yield self.problem(target, "gpu-unknown", f"there is no NVIDIA GPU {pci}", there)
            elif board is None or not board.mig_capable:
                yield self.problem(
                    target,
                    "not-capable",
                    f"GPU {pci} ({board.title if board else 'unknown board'}) has no MIG",
                    "leave it out, or name GPUs under mig: {gpus: …}",
                )
            else:
                yield from layout_problems(view, Slot(target, pci, board), wanted, self._left(target, view, pci))

    def _left(self, target: Target, view: View, pci: str) -> GpuMig | None:
        observed = self.observe(view.facts(target.ref), view.estate)
        left = observed._rebooted(view.facts(target.ref)) if observed and target.ref in view.rebooting else observed
        return (left.gpus or {}).get(pci) if left else None

    def notes(self, target: Target, view: View) -> Iterator[str]:
        """Say what is not needed on vSphere, and where the host's list of profiles is not the documented one."""
        boards = boards_as_listed(view.facts(target.ref))
        said: dict[str, list[str]] = {}
        for pci in self.gpus or {}:
            for line in boards[pci].disagreements if pci in boards else ():
                said.setdefault(line, []).append(pci)
        for line, pcis in said.items():
            yield f"GPU {', '.join(pcis)}: {line}"
        if any(g.layout for g in (self.gpus or {}).values()):
            yield (
                "instances made by hand on ESXi are gone after every reboot, and NVIDIA's guide omits them on "
                "vSphere: mode: enabled is enough"
            )

    def steps(self, change: Change, view: View) -> Iterator[Step]:
        """Per GPU: the mode (a reboot on Ampere), then destroy what must go, then create with explicit starts."""
        target, facts = change.target, view.facts(change.target.ref)
        boards, before = boards_of(facts), (change.before.gpus if change.before else None) or {}
        observed = self.observe(facts, view.estate)
        read = (observed.gpus if observed else None) or {}
        for pci, wanted in (self.gpus or {}).items():
            slot, have = Slot(target, pci, boards.get(pci)), before.get(pci)
            if wanted.mode and (have is None or have.mode != wanted.mode):
                yield from mode_steps(view, slot, wanted.mode, read.get(pci))
            if wanted.layout is not None and wanted.mode != "disabled":
                yield from layout_steps(view, slot, wanted.layout, self._left(target, view, pci))

    def export(self, target: Target, view: View, form: Form) -> Export:
        """A mode that waits for a reboot cannot be stated; vSphere makes the instances of running VMs itself."""
        if form == "shown":
            return Export(self)
        busy = live.busy(view.facts(target.ref))
        gpus = {
            pci: gpu if pci not in busy else GpuMig.model_construct(mode=gpu.mode, layout=None)
            for pci, gpu in (self.gpus or {}).items()
            if gpu.mode in ("enabled", "disabled")
        }
        waits = ", ".join(f"GPU {pci} is {g.mode}" for pci, g in (self.gpus or {}).items() if pci not in gpus)
        left_out = f"MIG left out: {waits}" if waits else ""
        return Export(self.model_copy(update={"gpus": gpus}) if gpus else None, left_out)

    def project(self, target: Target, view: View, after: After) -> Projection:
        """Instances are gone after a reboot; the mode stays on Ampere, and is lost with the driver on Hopper."""
        return Projection(self._rebooted(view.facts(target.ref)) if after == "reboot" else self)

    def is_divided(self, pci: str) -> bool | None:
        """Go by the mode that is at work, not by one that waits for a reboot."""
        mode = gpu.mode if (gpu := (self.gpus or {}).get(pci)) else None
        return None if mode is None else mode.startswith("enabled")

    def layout_of(self, pci: str) -> tuple[str, ...] | None:
        """Those of the layout."""
        return gpu.layout if (gpu := (self.gpus or {}).get(pci)) else None

    def _rebooted(self, facts: Facts) -> Self:
        return self.model_copy(update={"gpus": gpus_rebooted(self.gpus or {}, boards_of(facts))})

    @classmethod
    def loss(cls, host: Target, view: View) -> Loss | None:
        """Modes that are lost with the driver, and instances that neither a playbook nor vSphere makes again."""
        facts, seen = view.facts(host.ref), view.get(cls, host.ref)
        if seen is not None:
            left, users = seen._rebooted(facts).gpus or {}, live.users(facts, view.estate)
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
        wanted, left = _stated(host, view), seen._rebooted(view.facts(host.ref)).gpus or {}
        open_ = {pci: gpu for pci, gpu in left.items() if not (pci in wanted and wanted[pci].mode)}
        return {pci: mode for pci, gpu in sorted(open_.items()) if (mode := after_boot(gpu.mode))}


def _stated(host: Target, view: View) -> Mapping[str, GpuMig]:
    stated = view.said(Mig, host.ref)
    return (stated.settle(host, view).gpus or {}) if stated else {}
