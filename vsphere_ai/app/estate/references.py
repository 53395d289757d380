"""Playbooks with references to outputs of others: loaded with the values that those have now."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from vsphere_ai.app.estate.chosen_kinds import with_kinds_only
from vsphere_ai.app.estate.scope import EstateRequest
from vsphere_ai.app.estate.session import open_session
from vsphere_ai.app.estate.session_outputs import observed_outputs
from vsphere_ai.app.events import Emit, Remark, ignore
from vsphere_ai.errors import Conflict, InputError
from vsphere_ai.language.inventories.inventory import find_inventory
from vsphere_ai.language.playbooks.desired import vcenters
from vsphere_ai.language.playbooks.play import Playbook, ResolvedReference
from vsphere_ai.language.playbooks.playbook import load_playbook
from vsphere_ai.language.playbooks.reference import Reference, Unresolved
from vsphere_ai.language.playbooks.variables import Overrides
from vsphere_ai.language.yaml_files.document import require
from vsphere_ai.language.yaml_files.variable_values import InventoryValues, misspelt
from vsphere_ai.model.names.suggestion import suggest
from vsphere_ai.model.variables import Value
from vsphere_ai.resources import kinds

if TYPE_CHECKING:
    from vsphere_ai.sets.outputs import OutputValue


def load(path: Path, estate: EstateRequest, emit: Emit = ignore) -> Playbook:
    """Load a playbook with every kind there is, or those that are chosen; `UsageError` when there is no such file.

    References to outputs of other playbooks are resolved on the vCenter of those, which is read for it; one without a
    value is an `InputError`.
    """
    require(path, "playbook")
    playbook = _load(path, _Resolver(replace(estate, limit=""), emit))
    for variable in playbook.variables:
        if not variable.used and not variable.play:
            place = f"  ({variable.place})" if variable.place else ""
            emit(Remark("variable.unused", f"! the variable '{variable.name}' is not used{place}"))
    values = find_inventory(estate.inventory).variables if playbook.declared else InventoryValues()
    for given, name, meant in misspelt(values, playbook.declared):
        text = f"{given.level} gives '{name}', which {path} does not declare: did you mean '{meant}'?"
        emit(Remark("variable.misspelt", f"! {text}  ({given.place})"))
    return with_kinds_only(playbook, estate.only_kinds, emit)


def require_same_references(playbook: Playbook, estate: EstateRequest, emit: Emit) -> None:
    """Refuse a saved plan with references that have another value now, or none."""
    resolver = _Resolver(replace(estate, limit=""), emit)
    for each in playbook.references:
        name = f"{each.text} at {each.mark}"
        try:
            now = resolver.resolve(Reference(each.text, Path(each.file), each.output, each.mark))
        except Unresolved as wrong:
            raise Conflict(f"{name} has no value now: {wrong.message}", wrong.help, rule="plan.reference") from None
        if now != each.value:
            help = "plan again, look at the difference, and apply the new plan"
            raise Conflict(f"{name} is {now} now, and was {each.value}", help, rule="plan.reference")


@dataclass
class _Resolver:
    """Finds values of references; `inside` are the playbooks that are being loaded, each referring to the next."""

    estate: EstateRequest
    emit: Emit
    inside: tuple[Path, ...] = ()
    known: dict[Path, dict[str, OutputValue]] = field(default_factory=dict)
    found: list[ResolvedReference] = field(default_factory=list)

    def resolve(self, reference: Reference) -> Value:
        """Return the value of a reference; `Unresolved` where it has none."""
        file = reference.file.resolve()
        if file in self.inside:
            circle = " -> ".join(p.name for p in (*self.inside[self.inside.index(file) :], file))
            raise Unresolved(f"the playbooks refer to each other in a circle: {circle}", "take one reference out")
        if file not in self.known:
            self.known[file] = self._outputs(reference)
        values = self.known[file]
        output = values.get(reference.name)
        if output is None:
            help = suggest(reference.name, values, "it has") or "it has no outputs for this vCenter"
            raise Unresolved(f"{reference.file} has no output '{reference.name}'", help)
        value = _value(output)
        self.found.append(
            ResolvedReference(reference.text, str(reference.file.absolute()), reference.name, value, reference.mark)
        )
        return value

    def _outputs(self, reference: Reference) -> dict[str, OutputValue]:
        try:
            playbook = _load(reference.file, _Resolver(self.estate, self.emit, self.inside, self.known))
        except InputError as error:
            first = error.diagnostics[0]
            raise Unresolved(f"{reference.file} cannot be read: {first.mark}: {first.message}", first.help) from None
        names = vcenters(playbook, find_inventory(self.estate.inventory), chosen=self.estate.vcenter)
        chosen = self.estate.vcenter if self.estate.vcenter in names or len(names) != 1 else ""
        with open_session(replace(self.estate, vcenter=chosen), playbook, self.emit) as session:
            found, _ = observed_outputs(session, playbook, playbook.outputs)
        return {each.name: each for each in found}


def _load(path: Path, resolver: _Resolver) -> Playbook:
    own = replace(resolver, inside=(*resolver.inside, path.resolve()), found=[])
    estate = resolver.estate
    inventory = partial(find_inventory, estate.inventory)
    given = Overrides(estate.variables, estate.vars_files, inventory, strict=not resolver.inside)
    playbook = load_playbook(path, kinds(), own.resolve, given)
    return replace(playbook, references=tuple(own.found))


def _value(output: OutputValue) -> Value:
    """Return the value of an output, each part of which has to be known."""
    for problem in output.problems:
        vm = f"{problem.vm}: " if problem.vm else ""
        raise Unresolved(f"'{output.name}' at {output.mark} has no value: {vm}{problem.message}", problem.help)
    values = []
    for item in output.items:
        if item.value is None:
            raise Unresolved(f"'{output.name}' at {output.mark} is not known: {item.reason}", "choose another output")
        values.append(item.value)
    return tuple(values) if output.listed else values[0]
