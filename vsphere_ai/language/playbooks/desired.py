"""Playbooks looked up in an estate: for which vCenter, hosts, VMs and datacenters its plays are, and what they want."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from vsphere_ai.errors import Conflict, InputError, Mark, UsageError
from vsphere_ai.language.inventories.inventory import Inventory, VCenterSettings
from vsphere_ai.language.inventories.patterns import members
from vsphere_ai.language.inventories.selection import Choice, groups_of, passed_over, select
from vsphere_ai.language.inventories.selectors import Unread
from vsphere_ai.language.playbooks.play import Desired, Play, Playbook, PlayOptions, Power, Rolling, Stated, TargetPlan
from vsphere_ai.language.playbooks.shown_variables import ShownVariables
from vsphere_ai.language.yaml_files.document import FaultCollector
from vsphere_ai.model.facts import Estate
from vsphere_ai.model.names.suggestion import suggest
from vsphere_ai.model.state import Target
from vsphere_ai.resources.makes_vms import MakesVms

MOST_AT_ONCE = 50
"""Names that are looked up in one go: a pattern has a limit."""

Opts = TypeVar("Opts", bound=PlayOptions)


def vcenters(playbook: Playbook, inventory: Inventory, *, chosen: str = "") -> tuple[str, ...]:
    """Return the names of the vCenters the plays are for; `InputError` when one is unknown or not said.

    Plays that name none are for the `chosen` one, else for the only one of the inventory.
    """
    faults = FaultCollector()
    names = {_vcenter(play, playbook, inventory, faults, chosen) for play in playbook.plays}
    faults.raise_any()
    return tuple(sorted(names))


def choose_vcenter(playbook: Playbook | None, inventory: Inventory, name: str) -> VCenterSettings:
    """Return the vCenter of that name, else the only one that a playbook, or the inventory, has."""
    known = inventory.vcenters
    if name and name not in known:
        raise UsageError(f"the inventory has no vCenter '{name}'", suggest(name, known, "it has"))
    names = (name,) if name else vcenters(playbook, inventory) if playbook else tuple(known)
    if len(names) != 1:
        raise UsageError(f"there are {len(names)} vCenters: {', '.join(names)}", "choose one with --vcenter")
    return known[names[0]]


def desired(playbook: Playbook, inventory: Inventory, estate: Estate, *, vcenter: str = "") -> Desired:
    """Return what is wanted of each target of an estate, by target.

    With `vcenter`, only plays for that vCenter are looked at. `InputError` names every pattern that matches no object
    and every setting that two plays want differently.
    """
    faults = FaultCollector()
    playbook = _split(playbook, inventory, estate, vcenter)
    found: dict[Target, _Wanted] = {}
    none, known = _Wanted(), dict[tuple[int, int], tuple[_Wanted, list[tuple[str, Mark]]]]()
    conflicts: dict[tuple[str, Mark, Mark], list[str]] = defaultdict(list)
    own = [p for p in playbook.plays if not vcenter or _vcenter(p, playbook, inventory, faults, vcenter) == vcenter]
    for play, targets in _meant(own, playbook, inventory, estate, faults):
        for target in targets:
            wanted = found.get(target, none)
            key = id(wanted), id(play)  # many targets are meant by the same plays
            found[target], clashes = known[key] = known.get(key) or wanted.and_of(play)
            for what, earlier in clashes:
                conflicts[what, _place_of(play, what), earlier].append(target.name)
    for (what, mark, earlier), names in conflicts.items():
        shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        message = f"two plays want a different '{what}' of {shown}: here and at {earlier}"
        faults.add(mark, message, "keep one of them", excerpt=playbook.excerpt(mark, len(what)))
    faults.raise_any()
    plans = {id(w): replace(w.plan(), start_ssh=inventory.start_ssh) for w, _ in known.values()}
    return Desired({target: plans[id(found[target])] for target in sorted(found)})


def _split(playbook: Playbook, inventory: Inventory, estate: Estate, vcenter: str) -> Playbook:
    """Return what `split` does; `Unread` also with what the conditions of all other plays need."""
    try:
        return split(playbook, inventory, estate, vcenter=vcenter)
    except Unread as unread:
        plays = [
            p
            for p in playbook.plays
            if not vcenter or _vcenter(p, playbook, inventory, FaultCollector(), vcenter) == vcenter
        ]
        try:
            _meant(plays, playbook, inventory, estate, FaultCollector())
        except Unread as more:
            raise Unread(unread.wants | more.wants) from None
        raise


def split(
    playbook: Playbook, inventory: Inventory, estate: Estate, *, vcenter: str, only: Collection[Target] | None = None
) -> Playbook:
    """Return a playbook in which each play has one value of each variable: those of hosts with unlike values are parts.

    Its values of variables are those that count for `only` these targets; None: for all. `InputError` where a host has
    no value, or two. Plays for other vCenters stay whole.
    """
    if not playbook.varying and (only is None or not playbook.uses):
        return playbook
    faults = FaultCollector()
    giving = {name: group for name, group in inventory.hosts.items() if name in inventory.variables.groups}
    groups = groups_of(replace(inventory, hosts=giving), estate, ("host",))
    plays: list[Play] = []
    shown = ShownVariables(playbook.uses, only)
    for play in playbook.plays:
        if vcenter and _vcenter(play, playbook, inventory, faults, vcenter) != vcenter:
            plays.append(play)
            continue
        varying = playbook.varying.get(play.mark)
        targets = _targets(play, playbook, inventory, estate, faults)
        if varying is None:
            plays.append(play)
            shown.add(play, targets)
            continue
        values = {t: varying.values(t.name, groups.get(t.ref, ()), faults) for t in targets}
        plays += varying.parts(play, values, faults, playbook.excerpt(play.pattern_mark))
        shown.add_varying(play, varying, values)
    faults.raise_any()
    variables = sorted(shown.values(playbook.variables), key=lambda value: playbook.declared.index(value.name))
    return replace(playbook, plays=tuple(plays), varying={}, variables=tuple(variables))


def managed(playbook: Playbook, inventory: Inventory, estate: Estate, *, vcenter: str) -> frozenset[Target]:
    """Return the VMs that patterns of the plays mean and that vCenter or an extension looks after: they stay out."""
    if not estate.managed:
        return frozenset()
    plays = [p for p in playbook.plays if p.target == "vm" and p.targets is None]
    plays = [p for p in plays if _vcenter(p, playbook, inventory, FaultCollector(), vcenter) == vcenter]
    return frozenset(v for p in plays for v in passed_over(p.selector or p.pattern, inventory, estate))


def pinned(
    playbook: Playbook, inventory: Inventory, estate: Estate, only: Collection[Target], *, vcenter: str
) -> Playbook:
    """Return a playbook whose plays for a vCenter are for what they mean in an estate now, as far as it is in `only`.

    A later command that goes on with it is for the same objects, renamed or not; see `Play.targets`.
    """
    faults = FaultCollector()
    playbook = split(playbook, inventory, estate, vcenter=vcenter)
    plays = []
    for play in playbook.plays:
        if _vcenter(play, playbook, inventory, faults, vcenter) == vcenter:
            meant = _targets(play, playbook, inventory, estate, faults)
            plays.append(replace(play, targets=tuple(t for t in meant if t in only)))
        else:
            plays.append(play)
    faults.raise_any()
    return replace(playbook, plays=tuple(plays))


def _vcenter(play: Play, playbook: Playbook, inventory: Inventory, faults: FaultCollector, chosen: str) -> str:
    known = inventory.vcenters
    if not play.vcenter and chosen in known:
        return chosen
    if play.vcenter in known or (not play.vcenter and len(known) == 1):
        return play.vcenter or next(iter(known))
    if play.vcenter:
        message, help = f"the inventory has no vCenter '{play.vcenter}'", suggest(play.vcenter, known, "there is")
    else:
        message, help = (
            f"the inventory has {len(known)} vCenters",
            f"choose one with --vcenter, or add 'vcenter: ...' to this play; {suggest('', known, 'there is')}",
        )
    faults.add(play.mark, message, help, excerpt=playbook.excerpt(play.mark))
    return ""


def _targets(
    play: Play, playbook: Playbook, inventory: Inventory, estate: Estate, faults: FaultCollector
) -> tuple[Target, ...]:
    if play.targets is not None:
        refs = {t.ref for t in play.targets}
        return tuple(t for t in estate.targets(play.target) if t.ref in refs)
    try:
        chosen = [select(c, play.target, inventory, estate, mark=play.pattern_mark) for c in _choices(play)]
        meant = tuple(dict.fromkeys(t for each in chosen for t in each))
        if playbook.unmatched:
            playbook.unmatched.pop(play.mark, None)
        return meant if play.part is None else _part(play, playbook, meant)
    except InputError as error:
        if playbook.unmatched is not None:
            playbook.unmatched[play.mark] = error
            return ()
        for found in error.diagnostics:
            text = found.excerpt or (playbook.excerpt(found.mark) if found.mark == play.pattern_mark else "")
            faults.add(found.mark, found.message, found.help, excerpt=text)
        return ()


def _part(play: Play, playbook: Playbook, found: Collection[Target]) -> tuple[Target, ...]:
    """Return the targets of a part of a play; `Conflict` where the pattern means one that no part was made for."""
    same = [p for p in playbook.plays if p.pattern_mark == play.pattern_mark]
    known = {t.ref for p in same for t in p.part or ()}
    new = sorted(t.name for t in found if t.ref not in known)
    if new:
        text = f"'{play.pattern}' means {', '.join(new[:5])} now, whose values of variables are not in the plan"
        raise Conflict(text, "plan again, look at the difference, and apply the new plan", rule="plan.stale")
    own = {t.ref for t in play.part or ()}
    return tuple(t for t in found if t.ref in own)


def _meant(
    plays: Iterable[Play], playbook: Playbook, inventory: Inventory, estate: Estate, faults: FaultCollector
) -> list[tuple[Play, tuple[Target, ...]]]:
    """Return what plays are for; `Unread` with all that their conditions need and that was not read."""
    found: list[tuple[Play, tuple[Target, ...]]] = []
    wants: set[tuple[str, str]] = set()
    for play in plays:
        try:
            found.append((play, _targets(play, playbook, inventory, estate, faults)))
        except Unread as unread:
            wants |= unread.wants
    if wants:
        raise Unread(wants)
    return found


def _choices(play: Play) -> list[Choice]:
    """Return what a play is for; of one that makes VMs their names, as what it takes out need not be there."""
    if play.selector is not None:
        return [play.selector]
    if not any(isinstance(stated.state, MakesVms) for stated in play.states):
        return [play.pattern]
    names = list(members(play.pattern).values())
    return [",".join(names[at : at + MOST_AT_ONCE]) for at in range(0, len(names), MOST_AT_ONCE)]


def _place_of(play: Play, what: str) -> Mark:
    return next((stated.mark for stated in play.states if stated.state.kind == what), play.mark)


@dataclass
class _Wanted:
    """What the plays so far want of one target."""

    states: dict[str, Stated] = field(default_factory=dict)
    rolling: Rolling = field(default_factory=Rolling)
    power: Power = field(default_factory=Power)
    options: dict[str, Mark] = field(default_factory=dict)
    spare_hosts: int = 0

    def and_of(self, play: Play) -> tuple[_Wanted, list[tuple[str, Mark]]]:
        """Return this with a play, and what that wants differently than an earlier one, with the place of that."""
        made = replace(self, states={**self.states}, options={**self.options})
        conflicts: list[tuple[str, Mark]] = []
        for stated in play.states:
            kind = stated.state.kind
            earlier = made.states.setdefault(kind, stated)
            if earlier.state != stated.state:
                conflicts.append((kind, earlier.mark))
        for what, one, other in (("rolling", self.rolling, play.rolling), ("power", self.power, play.power)):
            said = one.model_fields_set & other.model_fields_set
            if any(getattr(one, name) != getattr(other, name) for name in said):
                conflicts.append((what, self.options[what]))
            if other.model_fields_set:
                made.options.setdefault(what, play.mark)
        made.rolling, made.power = _merged(self.rolling, play.rolling), _merged(self.power, play.power)
        made.spare_hosts = max(self.spare_hosts, play.spare_hosts)
        return made, conflicts

    def plan(self) -> TargetPlan:
        marks = {kind: stated.mark for kind, stated in self.states.items()}
        states = tuple(stated.state for stated in self.states.values())
        return TargetPlan(states, self.rolling, self.power, marks, self.spare_hosts)


def _merged(one: Opts, other: Opts) -> Opts:
    return one.model_copy(update={name: getattr(other, name) for name in other.model_fields_set})
