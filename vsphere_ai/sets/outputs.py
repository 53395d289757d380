"""Outputs of a playbook as values: as they will be by its plan, and as they are; what differs is no value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from vsphere_ai.documents.outputs import OutputDocument, OutputProblemDocument, Scalar
from vsphere_ai.errors import Mark
from vsphere_ai.language.playbooks.play import PlaybookOutput, VmValue
from vsphere_ai.model.facts import Estate
from vsphere_ai.model.view import View
from vsphere_ai.model.vm_sets import Member, members_of
from vsphere_ai.sets.set_plays import SetPlay
from vsphere_ai.sets.vm_values import (
    Refusal,
    Unknown,
    Value,
    VmOfSet,
    observed_value,
    planned_value,
    refusal_of,
)

Part = str | int | float | bool | VmValue


@dataclass(frozen=True)
class OutputProblem:
    """Why an output has no value now: the VM (empty: none), the rule id, a sentence, and what would work."""

    vm: str
    rule: str
    message: str
    help: str = ""


@dataclass(frozen=True)
class OutputItem:
    """One text of an output: its value (None: not known, for a `reason`), and the VM that it was made for.

    `gpus` is how many GPUs that VM has. `vm` is empty where the text is not made once per VM.
    """

    value: Scalar | None
    vm: str = ""
    gpus: int = 0
    reason: str = ""


@dataclass(frozen=True)
class OutputValue:
    """An output with its value: a scalar, or a list. With `problems` it must not be used."""

    name: str
    items: tuple[OutputItem, ...]
    listed: bool
    mark: Mark
    problems: tuple[OutputProblem, ...] = ()

    @property
    def value(self) -> Scalar | tuple[Scalar | None, ...] | None:
        """The value; None where it is not known, or must not be used."""
        if self.problems:
            return None
        values = tuple(item.value for item in self.items)
        return values if self.listed else values[0]

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why a part of it is not known."""
        return tuple(dict.fromkeys(item.reason for item in self.items if item.reason))

    @property
    def document(self) -> OutputDocument:
        """The output as it is printed."""
        vms = tuple(item.vm or None for item in self.items)
        problems = tuple(
            OutputProblemDocument(vm=p.vm, rule=p.rule, message=p.message, help=p.help, place=str(self.mark))
            for p in self.problems
        )
        return OutputDocument(
            value=self.value,
            vms=vms if self.listed else vms[0],
            reasons=self.reasons if not problems else (),
            problems=problems,
        )


@dataclass(frozen=True)
class OutputWorld:
    """An estate in which the members of sets are laid out: as planned, and as observed.

    `now` None: nothing is observed, the values are those of the plan.
    """

    plays: Sequence[SetPlay]
    planned: View
    now: View | None = None


@dataclass
class _Values:
    """Values of VMs in a world, with what was found against them on the way."""

    world: OutputWorld
    vms: dict[str, dict[int, VmOfSet]]
    problems: dict[OutputProblem, None] = field(default_factory=dict)

    def of(self, vm: VmOfSet, value: VmValue) -> Value:
        planned = planned_value(vm, value.path, self.world.planned)
        for fault in vm.member.faults:
            self.note(vm.member, Refusal("output.unplanned", f"it cannot be planned: {fault.message}", fault.help))
        if self.world.now is None:
            return planned
        nics = value.path[1:2] if value.path[0] == "nics" else ()
        refusal = refusal_of(vm, nics, self.world.now.estate)
        if refusal is not None:
            self.note(vm.member, refusal)
            return Unknown(refusal.message)
        now = observed_value(vm, value.path, self.world.now)
        if not isinstance(planned, Unknown) and now != planned:
            shown = now.reason if isinstance(now, Unknown) else now
            message = f"{'.'.join(value.path)} is {shown}, and the playbook says {planned}"
            self.note(vm.member, Refusal("output.stale", message, "apply the playbook first"))
        return now

    def note(self, member: Member, refusal: Refusal) -> None:
        self.problems.setdefault(OutputProblem(member.name, refusal.rule, refusal.message, refusal.help))


def evaluate(outputs: Sequence[PlaybookOutput], world: OutputWorld) -> tuple[OutputValue, ...]:
    """Return the values of outputs; those that name a set of another vCenter are left out."""
    vms = _vms(world)
    return tuple(_evaluated(o, world, vms) for o in outputs if all(v.set in vms for v in _values_in(o)))


def named_vms(outputs: Sequence[PlaybookOutput], estate: Estate) -> tuple[Member, ...]:
    """Return the members of sets that are there and whose values outputs need."""
    sets = {v.set for o in outputs for v in _values_in(o)}
    return tuple(m for m in members_of(estate) if m.set in sets and m.exists and not m.leaving)


def _vms(world: OutputWorld) -> dict[str, dict[int, VmOfSet]]:
    found: dict[str, dict[int, VmOfSet]] = {}
    every = [m for m in members_of(world.planned.estate) if not m.leaving]
    for play in world.plays:
        nics = {n.name: n for n in play.wanted.nics}
        own = sorted((m for m in every if m.set == play.wanted.name), key=lambda m: m.index)
        found[play.wanted.name] = {m.index: VmOfSet(m, rank, nics) for rank, m in enumerate(own)}
    return found


def _values_in(output: PlaybookOutput) -> Iterator[VmValue]:
    return (part for item in output.items for part in item if isinstance(part, VmValue))


def _evaluated(output: PlaybookOutput, world: OutputWorld, vms: dict[str, dict[int, VmOfSet]]) -> OutputValue:
    values, items = _Values(world, vms), []
    listed = output.listed
    for parts in output.items:
        every = next((p.set for p in parts if isinstance(p, VmValue) and p.index is None), None)
        if every is None:
            items.append(_item(parts, values, _named(parts, vms)))
            continue
        listed = True
        items += [_item(parts, values, vm) for vm in vms[every].values()]
    return OutputValue(output.name, tuple(items), listed, output.mark, tuple(values.problems))


def _named(parts: Sequence[Part], vms: dict[str, dict[int, VmOfSet]]) -> VmOfSet | None:
    """Return the VM that a text is about; None where it names none, or several."""
    found = {(p.set, p.index) for p in parts if isinstance(p, VmValue)}
    return next(vms[name][index] for name, index in found if index is not None) if len(found) == 1 else None


def _item(parts: Sequence[Part], values: _Values, vm: VmOfSet | None) -> OutputItem:
    view = values.world.now or values.world.planned
    found = [_part(part, values, vm) for part in parts]
    gpus = observed_value(vm, ("gpus",), view) if vm is not None and view.estate.get(vm.member.ref) else 0
    known = {"vm": vm.member.name if vm else "", "gpus": gpus if isinstance(gpus, int) else 0}
    reason = next((each.reason for each in found if isinstance(each, Unknown)), "")
    if reason:
        return OutputItem(None, reason=reason, **known)  # type: ignore[arg-type] # a name and a number
    scalars = [each for each in found if not isinstance(each, Unknown)]
    value = scalars[0] if len(scalars) == 1 else "".join(map(_text, scalars))
    return OutputItem(value, **known)  # type: ignore[arg-type] # a name and a number


def _part(part: Part, values: _Values, vm: VmOfSet | None) -> Scalar | Unknown:
    if not isinstance(part, VmValue):
        return part
    own = vm if part.index is None else values.vms[part.set][part.index]
    return values.of(own, part) if own is not None else Unknown("")


def _text(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
