"""The contract a kind fulfils: an instance is a state, the class knows how to see it and how to get there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self, TypeVar

from vsphere_ai.fabric import pci
from vsphere_ai.gpu import vgpu as names
from vsphere_ai.gpu.window import MMIO_KEY, MMIO_SIZE_KEY
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.privilege import Duty
from vsphere_ai.model.state import Change, Problem, State, Target, TargetKind
from vsphere_ai.model.steps import Probe, Query, Reconfigure, Step
from vsphere_ai.model.view import View

Spot = tuple[str | int, ...]
"""Keys and indices that lead to a value."""


class Refuse(Protocol):
    """Notes a fault of the value at a path of a file."""

    def __call__(self, path: Spot, message: str, help: str = "") -> None: ...  # noqa: D102


class File(NamedTuple):
    """A YAML file that a playbook names: its plain values, and where faults in it go."""

    data: Any
    refuse: Refuse


class Files(Protocol):
    """The files beside a playbook, for a state in it; a spot leads to a value of the state as it is written there."""

    def load(self, spot: Spot) -> File | None:
        """Return the file that is named at a spot; None, with the fault noted, when it cannot be read."""

    def refuse(self, spot: Spot, message: str, help: str = "") -> None:
        """Note a fault of what the playbook says at a spot."""


class Resource(State, ABC):
    """One kind of setting of datacenters, hosts or VMs.

    Its fields are the YAML keys, the plan's columns and the doc table.
    """

    target: ClassVar[TargetKind]
    after: ClassVar[tuple[str, ...]] = ()
    """Kinds that are planned before this one, because their planned state decides what is possible here."""
    properties: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Managed type -> property paths this kind wants read, for its targets and whatever it has to look up."""
    probes: ClassVar[tuple[Probe, ...]] = ()
    queries: ClassVar[tuple[Query, ...]] = ()
    """Questions to managers of a host whose answers this kind wants (host kinds only)."""
    duties: ClassVar[tuple[Duty, ...]] = ()
    """Rows of the role in the documentation: what carrying out this kind takes."""
    affects: ClassVar[frozenset[str]] = frozenset()
    """Kinds whose compatibility rules a change of this one may worsen, also on hosts and VMs that nobody names."""
    in_profile: ClassVar[str] = ""
    """The part of a vSphere Configuration Profile that holds what this kind sets; empty when none is known to."""

    @property
    def needs_commands(self) -> bool:
        """Tell whether reading this state takes commands on the host; False where they only serve a rule."""
        return bool(self.probes)

    @classmethod
    def questions(cls, wanted: Mapping[Target, Sequence[State]], estate: Estate) -> Iterator[Query]:
        """Yield questions that depend on what a playbook wants of which targets; `estate` is what was read so far."""
        return iter(())

    @classmethod
    def related_vms(cls, targets: Collection[Target], estate: Estate) -> Iterable[str]:
        """Return the VMs that nobody has to name, whose states decide here too; `estate` is read lightly."""
        return ()

    @classmethod
    def observe(cls, facts: Facts) -> Self | None:
        """Build the present state from what was read; None when it cannot be known or does not exist."""
        raise NotImplementedError(f"{cls.kind} has to say what it sees, in observe or in observe_in")

    @classmethod
    def observe_in(cls, ref: str, estate: Estate) -> Self | None:
        """Build the present state of a target from the whole reading, for kinds that look at other objects too."""
        return cls.observe(estate[ref])

    @classmethod
    def concerns(cls, state: Any) -> frozenset[str]:
        """Return the kinds whose compatibility rules a state makes relevant; taking devices from a VM needs none."""
        devices = getattr(state, cls.shorthand, None) if cls.target == "vm" and cls.shorthand else None
        return frozenset() if devices == () else frozenset({cls.kind})

    @classmethod
    def is_fit(cls, facts: Facts) -> bool:
        """Tell whether a host or VM that nobody names has what the compatibility rules of this kind are about."""
        return False

    def with_files(self, files: Files) -> Self:
        """Return this state, just read from a playbook, with what stands in the files it names."""
        return self

    def settle(self, target: Target, view: View) -> Self:
        """Return the wanted state in full: what a playbook left out is taken from what is there."""
        now = view.state(target.ref, self.kind)
        unset = {n: getattr(now, n, None) for n in type(self).model_fields if getattr(self, n) is None}
        return self.model_copy(update=unset)

    def problems(self, target: Target, view: View) -> Iterator[Problem]:
        """Yield every reason why this (settled) state cannot be reached, each with a rule id. Never only the first."""
        return iter(())

    def notes(self, target: Target, view: View) -> Iterator[str]:
        """Yield what an operator should know about this change before approving it."""
        return iter(())

    @abstractmethod
    def steps(self, change: Change, view: View) -> Iterator[Step]:
        """Yield the steps from ``change.before`` to this state, flagged with what they disrupt."""

    def facts_after(self, target: Target, view: View) -> Iterator[Facts]:
        """Yield objects as they will be read once this (settled) state is there, for kinds that look them up.

        An object that does not exist yet has a `Deferred` for its reference, and for keys only the server gives.
        """
        return iter(())

    def after_reboot(self, target: Target, view: View) -> Self:
        """Return what is left of this observed state once the host has rebooted."""
        return self

    def shown(self, view: View) -> Self:
        """Return this state as an operator reads it, with names where the API has keys."""
        return self

    def as_playbook(self, target: Target, view: View) -> Self | None:
        """Return this observed state as a playbook may state it; None when the target has nothing of the kind."""
        return self.shown(view)

    def as_before(self, target: Target, view: View) -> Self | None:
        """Return this observed state as a rollback states it: what a change adds has to go away again."""
        return self.as_playbook(target, view)

    def implied_fields(self) -> Mapping[str, Any]:
        """Return what follows from this state in fields that are only shown, and in those of other kinds there."""
        return {}

    def left_out(self, target: Target, view: View) -> str:
        """Say in a line what of this observed state no playbook can state; empty when there is nothing."""
        return ""

    def runs_on(self, host: Target, view: View) -> bool:
        """Tell whether a VM in this state can run on a host (VM kinds only)."""
        return True

    def no_power_on(self, vm: Target, view: View) -> str:
        """Say why a running VM in this state could not power on again, for what others have; empty when it could."""
        return ""

    def vgpus(self, vm: Target, view: View) -> tuple[str, ...]:
        """Return the vGPU profiles this state gives a VM, one by one; it may not be settled yet (VM kinds only)."""
        return ()

    def whole_devices(self, vm: Target, view: View) -> tuple[pci.Claim, ...]:
        """Return the whole PCI devices this state gives a VM; it may not be settled yet (VM kinds only)."""
        return ()

    def needs_together(self, vm: Target, view: View) -> bool:
        """Tell whether devices of this state have to be free together; such VMs power on first (VM kinds only)."""
        return False

    def gpu_memory_gb(self, vm: Target, view: View) -> int:
        """Return what this state adds to the VM's 64-bit MMIO window: GB of whole GPUs; it may not be settled yet."""
        return 0


def vgpus_of(vm: Target, view: View) -> tuple[str, ...]:
    """Return every vGPU profile a VM will have, in whichever ways."""
    return tuple(p for s in view.wanted(vm.ref) if isinstance(s, Resource) for p in s.vgpus(vm, view))


def lacking(
    vm: Target, view: View, kind: str, mine: Sequence[pci.Claim], more: Sequence[pci.Claim] = ()
) -> tuple[str, ...]:
    """Return who has the whole devices that a VM's host cannot give it, one name per device; empty when it can.

    `mine` are what a state of `kind` asks for, `more` what else it does. Counted besides are what the VM gets by other
    kinds, and the VMs there that run or to which the playbook gives devices.
    """
    on = view.estate.host_of(vm.ref)
    if on is None:
        return ()
    beside = [("other devices of the same list", claim) for claim in more]
    for other in view.estate.vms_on(on.ref):
        own = other == vm
        states = [s for s in view.wanted(other.ref) if isinstance(s, Resource) and not (own and s.kind == kind)]
        claims = [(s.kind, c) for s in states for c in s.whole_devices(other, view)]
        running = view.facts(other.ref).get("runtime.powerState") == "poweredOn"
        if own or running or any((other.ref, k) in view.stated for k, _ in claims):
            beside += [(f"its own {k}" if own else other.name, claim) for k, claim in claims]
    facts, theirs = view.facts(on.ref), [claim for _, claim in beside]
    if pci.has_room(facts, mine, theirs):
        return ()
    there = {a for possible in pci.choices(facts, mine) for a in possible}
    return tuple(by for (by, _), p in zip(beside, pci.choices(facts, theirs), strict=True) if there & {*p})


def gpu_memory_of(vm: Target, view: View, settled: Resource | None = None) -> int:
    """Return the GB of all GPUs a VM will have, in whichever ways: the window is one for all of them.

    `settled` is counted instead of the state of its kind that the view has.
    """
    others = (s for s in view.wanted(vm.ref) if isinstance(s, Resource) and (not settled or s.kind != settled.kind))
    return sum(s.gpu_memory_gb(vm, view) for s in (*others, *([settled] if settled else [])))


def advanced_settings(facts: Facts) -> dict[str, str]:
    """Return a VM's advanced settings as texts."""
    return {o["key"]: str(o["value"]) for o in facts.get("config.extraConfig", ())}


def window_seen(facts: Facts) -> dict[str, Any]:
    """Return a VM's 64-bit MMIO window as the fields of a state: `mmio_64bit`, `mmio_size_gb`."""
    extra = advanced_settings(facts)
    size = extra.get(MMIO_SIZE_KEY, "")
    on = extra.get(MMIO_KEY, "").lower() == "true"
    return {"mmio_64bit": on, "mmio_size_gb": int(size) if size.isdigit() else None}


def window_keys(change: Change) -> dict[str, str]:
    """Return the advanced settings with which a change sets the 64-bit MMIO window."""
    fields = {f.name for f in change.fields}
    keys = {MMIO_KEY: "TRUE"} if "mmio_64bit" in fields else {}
    return keys | ({MMIO_SIZE_KEY: str(change.after.mmio_size_gb)} if "mmio_size_gb" in fields else {})


def gpu_settings_seen(facts: Facts) -> dict[str, Any]:
    """Return what goes with the GPUs of a VM, as the fields of a state: memory, firmware, MMIO window."""
    locked = bool(facts.get("config.memoryReservationLockedToMax"))
    return {"memory_locked": locked, "firmware": facts.get("config.firmware"), **window_seen(facts)}


def large_bar_settings(vm: Target, view: View, settled: Resource) -> dict[str, Any]:
    """Return what GPUs with a large BAR need, as the fields of a state: firmware, and a window for all GPUs of the VM.

    A window that is larger already stays: others may have asked for it.
    """
    before = getattr(view.state(vm.ref, settled.kind), "mmio_size_gb", None) or 0
    size = names.mmio_size_gb(max(1, gpu_memory_of(vm, view, settled)))  # a profile nobody can read counts nothing
    return {"firmware": "efi", "mmio_64bit": True, "mmio_size_gb": max(size, before)}


def gpu_reconfigure(
    change: Change,
    summary: str,
    devices: Iterable[Mapping[str, Any]],
    *,
    spec: Mapping[str, Any] | None = None,
    extra: Iterable[tuple[str, str]] = (),
) -> Reconfigure:
    """Return the one reconfigure that gives or takes GPUs, with those settings of GPUs that change.

    `devices` are device changes; `spec` and `extra` what the kind sets besides.
    """
    fields = {f.name for f in change.fields}
    memory = {"memoryReservationLockedToMax": True} if "memory_locked" in fields else {}
    firmware = {"firmware": change.after.firmware} if "firmware" in fields else {}
    return Reconfigure(
        target=change.target,
        kinds=(change.kind,),
        needs_power_off=True,
        device_changes=tuple(devices),
        spec={**(spec or {}), **memory, **firmware},
        extra_config=(*window_keys(change).items(), *extra),
        summary=summary,
    )


def device_change(operation: Literal["add", "edit", "remove"], device: Mapping[str, Any]) -> dict[str, Any]:
    """Return the change of one virtual device, as a reconfigure takes it."""
    return {"_typeName": "VirtualDeviceConfigSpec", "operation": operation, "device": device}


Kind = TypeVar("Kind", bound=Resource)


def settled_each(state: Kind, target: Target, view: View, settle_one: Callable[[Any, Any], Any]) -> Kind:
    """Return the wanted state of a keyed kind with all that it names settled; `settle_one` gets wanted and present."""
    have = getattr(view.state(target.ref, state.kind), state.shorthand, None) or {}
    wanted = getattr(state, state.shorthand) or {}
    return state.model_copy(update={state.shorthand: {n: settle_one(w, have.get(n)) for n, w in wanted.items()}})


def memory_problems(vm: Target, view: View, rule: str, needs: str) -> Iterator[Problem]:
    """Yield that a playbook reserves a part of a VM's memory, unless that is how it is; `needs`: ``a vGPU needs``."""
    wanted = getattr(view.state(vm.ref, "hardware"), "memory_reservation", None)
    facts = view.facts(vm.ref)
    unlocks = bool(facts.get("config.memoryReservationLockedToMax"))
    if isinstance(wanted, int) and (unlocks or wanted != facts.get("config.memoryAllocation.reservation", 0)):
        yield Problem(vm, rule, f"hardware reserves {wanted} MB, {needs} all memory reserved",
                      "write hardware: {memory_reservation: full}, or leave it out")  # fmt: skip


def firmware_problems(vm: Target, view: View, rule: str, needs: str) -> Iterator[Problem]:
    """Yield that a playbook states BIOS for a VM that has to have EFI; `needs`: ``this GPU needs``."""
    if getattr(view.stated.get((vm.ref, "hardware")), "firmware", None) == "bios":
        yield Problem(vm, rule, f"hardware sets firmware bios, {needs} efi",
                      "write hardware: {firmware: efi}, or leave it out")  # fmt: skip


def firmware_notes(vm: Target, view: View, needs: str) -> Iterator[str]:
    """Yield what a change to EFI firmware does to the guest of a VM; `needs`: ``vGPUs need``."""
    if view.facts(vm.ref).get("config.firmware") == "bios":
        yield f"firmware bios → efi, which {needs}: a guest installed under BIOS will not boot any more"
