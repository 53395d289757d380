"""Selection of the datacenters, hosts or VMs of an estate that a pattern means."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cached_property

from vsphere_ai.errors import Diagnostic, InputError, Mark
from vsphere_ai.language.inventories.inventory import Inventory, InventoryGroup
from vsphere_ai.language.inventories.patterns import (
    GLOB,
    REF,
    PatternError,
    Term,
    condition,
    condition_of,
    expand,
    split,
)
from vsphere_ai.language.inventories.selected import is_known, look_up, wants_of
from vsphere_ai.language.inventories.selectors import APPLIES, Conditions, Unread
from vsphere_ai.model.facts import Estate, grouped
from vsphere_ai.model.names.suggestion import suggest
from vsphere_ai.model.state import Target, TargetKind
from vsphere_ai.model.vm_sets import member_of

WORDS = {"datacenter": "datacenter", "host": "host", "vm": "virtual machine"}
CONTAINERS = {
    "cluster": ("ClusterComputeResource", "ComputeResource"),
    "datacenter": ("Datacenter",),
    "folder": ("Folder",),
}
FOLDERS: Mapping[TargetKind, str] = {"host": "/host/", "vm": "/vm/"}
"""What the inventory path of a folder of hosts, and of one of VMs, has in it."""
Choice = str | Conditions
"""A pattern, or the conditions of a selector."""


def select(choice: Choice, kind: TargetKind, inventory: Inventory, estate: Estate, *, mark: Mark) -> tuple[Target, ...]:
    """Return the targets a pattern or selector means, by name; `InputError` at `mark` with all that fits nothing.

    `Unread` where conditions need what was not read.
    """
    return _Selector(inventory, estate, mark, (kind,)).select(choice)


def narrow(pattern: str, inventory: Inventory, estate: Estate, *, mark: Mark) -> tuple[Target, ...]:
    """Return the targets of any kind that a pattern means which may name all of them, as ``--limit`` does."""
    return _Selector(inventory, estate, mark, ("datacenter", "host", "vm")).select(pattern)


def passed_over(choice: Choice, inventory: Inventory, estate: Estate) -> frozenset[Target]:
    """Return the VMs a choice would mean that are not the user's to change, and that `select` leaves out of it."""
    everything = _Selector(inventory, estate, Mark(""), ("vm",), managed=True)
    return frozenset(everything.known(everything.chosen_by(choice))) & {*estate.managed}


def groups_of(
    inventory: Inventory, estate: Estate, kinds: Sequence[TargetKind] = ("host", "vm")
) -> Mapping[str, tuple[str, ...]]:
    """Return the groups of the inventory that hosts and VMs are in, by their references."""
    found: dict[str, tuple[str, ...]] = {}
    for kind in kinds:
        selector = _Selector(inventory, estate, Mark(""), (kind,))
        for name, group in inventory.groups(kind).items():
            for target in selector.members(kind, group):
                found[target.ref] = (*found.get(target.ref, ()), name)
        selector.known(())
    return found


def hosts_named(patterns: Sequence[str], inventory: Inventory, estate: Estate) -> frozenset[Target]:
    """Return the hosts that patterns mean and that are there: an inventory may be of several vCenters."""
    selector = _Selector(inventory, estate, Mark(""), ("host",))
    return frozenset(selector.known(selector.evaluate(*patterns, groups=True)))


class _Selector:
    """Looks patterns up in one estate; notes every fault and raises them together.

    VMs that vCenter or an extension looks after are not the user's: a pattern means them only with `managed`.
    """

    def __init__(
        self, inventory: Inventory, estate: Estate, mark: Mark, kinds: tuple[TargetKind, ...], *, managed: bool = False
    ) -> None:
        self.inventory, self.estate, self.mark, self.kinds = inventory, estate, mark, kinds
        self.managed = managed
        self.faults: list[Diagnostic] = []
        self.wants: set[tuple[str, str]] = set()
        """What conditions need that was not read."""
        self.near: list[str] = []
        """Hints for a selector that leaves nothing."""
        theirs = estate.managed if "vm" in kinds else {}
        ours = (target for kind in kinds for target in estate.targets(kind) if target not in theirs)
        self.all = (*ours, *theirs) if managed else tuple(ours)
        self.names = grouped(self.all, lambda target: target.name)
        *others, last = (WORDS[kind] for kind in kinds)
        self.word = f"{', '.join(others)} or {last}" if others else last

    def select(self, choice: Choice) -> tuple[Target, ...]:
        chosen = self.known(self.chosen_by(choice))
        if not chosen and not self.faults:
            self.empty(choice)
        if self.faults:
            raise InputError(dict.fromkeys(self.faults))
        return tuple(sorted(chosen, key=lambda target: (target.kind, target.name, target.ref)))

    def known(self, chosen: Iterable[Target]) -> set[Target]:
        """Return what was chosen; `Unread` where that needs what was not read."""
        if self.wants:
            raise Unread(self.wants)
        return set(chosen)

    def chosen_by(self, choice: Choice) -> set[Target]:
        return self.evaluate(choice, groups=True) if isinstance(choice, str) else self.fulfilling(choice, groups=True)

    def empty(self, choice: Choice) -> None:
        text = choice if isinstance(choice, str) else choice.text
        if self.near:
            self.fault(f"'{text}' selects no {self.word}", next(filter(None, self.near), ""))
        elif isinstance(choice, str):
            self.fault(f"'{text}' leaves no {self.word}", "what it takes away is everything it names")
        else:
            self.fault(f"'{text}' selects no {self.word}", "no one fulfils all of these conditions")

    def evaluate(self, *patterns: str, groups: bool) -> set[Target]:
        """Return what patterns mean together; a pattern that is a name as it stands is that name."""
        try:
            terms = [term for each in patterns for term in self.terms(each)]
        except PatternError as error:
            self.fault(error.message, error.help)
            return set()
        found = {"": set(), "!": set(), "&": set(self.all)}  # type: dict[str, set[Target]]
        # As in Ansible: first all that is added, then what it has in common with &, then without !, in any order.
        for term in terms:
            targets = self.named(term.name, groups=groups)
            found[term.sign] = found[term.sign] & targets if term.sign == "&" else found[term.sign] | targets
        return (found[""] & found["&"]) - found["!"]

    def terms(self, pattern: str) -> tuple[Term, ...]:
        return (Term("", pattern),) if pattern in self.names else tuple(split(pattern))

    def named(self, name: str, *, groups: bool) -> set[Target]:
        if name == "all":
            return set(self.all)
        asked = condition_of(name)
        if asked is not None:
            return self.meeting(*asked)
        group = self.grouped(name) if groups else None
        if group is not None:
            return group
        chosen: set[Target] = set()
        missing: list[str] = []
        for one in (name,) if name in self.names else expand(name):
            found = self.matching(one)
            if len(found) > 1 and not GLOB.search(one):
                found = self.of_sets(found) or found
            if not found:
                missing.append(one)
            elif len(found) > 1 and not GLOB.search(one):
                self.ambiguous(one, found)
            chosen.update(found)
        if missing:
            self.missing(missing, groups=groups)
        return chosen

    def of_sets(self, targets: Sequence[Target]) -> tuple[Target, ...]:
        """Return those of several VMs of one name that the playbook makes: it means them, wherever the others are."""
        members = ((target, member_of(self.estate, target.ref)) for target in targets)
        return tuple(target for target, member in members if member is not None and not member.leaving)

    def matching(self, text: str) -> tuple[Target, ...]:
        """Return the targets of one name, inventory path, reference or glob."""
        if re.fullmatch(REF, text):
            return tuple(target for target in self.all if target.ref == text)
        index = self.paths if text.startswith("/") else self.names
        if text in index or not GLOB.search(text):
            return index.get(text, ())
        return tuple(target for key, found in index.items() if fnmatchcase(key, text) for target in found)

    @cached_property
    def paths(self) -> dict[str, tuple[Target, ...]]:
        return grouped(self.all, lambda target: self.estate.path_of(target.ref))

    def grouped(self, name: str) -> set[Target] | None:
        found = [(kind, groups[name]) for kind in self.kinds if name in (groups := self.inventory.groups(kind))]
        if not found:
            return None
        members = {target for kind, group in found for target in self.members(kind, group)}
        same = {target for target in self.all if target.name == name}
        if same and same != members:
            help = f"write {min(same).ref} for the {self.word}, or rename the group"
            self.fault(f"'{name}' is both a group and a {self.word}", help)
        return members

    def members(self, kind: TargetKind, group: InventoryGroup) -> set[Target]:
        inner = _Selector(self.inventory, self.estate, group.mark, (kind,), managed=self.managed)
        chosen = inner.fulfilling(group.selector, groups=False)
        self.wants |= inner.wants
        if not chosen and not inner.faults and not inner.wants:
            help = next(filter(None, inner.near), "")
            inner.fault(f"the group '{group.name}' is empty: no {inner.word} fulfils all of its conditions", help)
        excerpt = group.excerpt
        self.faults.extend(Diagnostic(f.mark, f.message, f.help, excerpt) for f in inner.faults)
        return chosen

    def fulfilling(self, selector: Conditions, *, groups: bool) -> set[Target]:
        """Return the targets that fulfil every condition of a selector; `groups`: its names may be groups."""
        chosen = set(self.all)
        if selector.names is not None:
            chosen &= self.evaluate(*selector.names, groups=groups)
        for key, values in selector.terms():
            chosen &= {target for value in values for target in self.meeting(key, value)}
        if selector.any is not None:
            chosen &= {target for each in selector.any for target in self.fulfilling(each, groups=groups)}
        for each in selector.without or ():
            chosen -= self.fulfilling(each, groups=groups)
        return chosen

    def meeting(self, key: str, value: str) -> set[Target]:
        """Return the targets that fulfil one condition; notes why it can mean none."""
        kinds = tuple(kind for kind in self.kinds if kind in APPLIES[key])
        if not kinds:
            fitting = " or ".join(WORDS[kind] + "s" for kind in APPLIES[key])
            self.fault(f"'{condition(key, value)}' cannot choose a {self.word}", f"'{key}' is for {fitting}")
            return set()
        if key in CONTAINERS:
            return self.inside(self.container(key, value))
        missing = [want for want in wants_of(key, value, kinds) if not is_known(self.estate, want)]
        if missing:
            self.wants.update(missing)
            return set()
        looked = look_up(self.estate, key, value, kinds)
        if looked.fault:
            self.fault(looked.fault, looked.help)
        elif not looked.refs:
            text = value.partition("=")[2] if key == "attribute" else value
            self.near.append(suggest(text, looked.near, "there is") if key != "power" else "")
        return {target for target in self.all if target.ref in looked.refs and target.kind in kinds}

    def inside(self, ref: str | None) -> set[Target]:
        return {target for target in self.all if ref in self.above(target)} if ref else set()

    def above(self, target: Target) -> Iterator[str]:
        """Yield the references a target is inside of: through its parents and, for a VM, through its host."""
        host = self.estate.host_of(target.ref) if target.kind == "vm" else None
        yield from (f.ref for at in (target, host) if at for f in self.estate.up_from(at.ref))

    def container(self, key: str, name: str) -> str | None:
        """Return the one cluster, datacenter or folder of a name or inventory path; note why there is not one."""
        paths = {facts.ref: self.estate.path_of(facts.ref) for facts in self.estate.of_type(*CONTAINERS[key])}
        word, short = key, {ref: path.rpartition("/")[2] for ref, path in paths.items()}
        if key == "folder":
            above = [FOLDERS[kind] for kind in self.kinds if kind in FOLDERS]
            short = {r: p.partition(a)[2] for r, p in paths.items() for a in above if a in f"{p}/"}
            word = key if len(above) > 1 else f"{'VM' if self.kinds == ('vm',) else 'host'} folder"
        wanted = name.strip("/") if key == "folder" else name
        found = [ref for ref in short if name == paths[ref] or wanted == short[ref]]
        if len(found) == 1:
            return found[0]
        if found:
            places = ", ".join(sorted(paths[ref] for ref in found))
            self.fault(f"{len(found)} objects are the {word} '{name}'", f"write the inventory path: {places}")
        else:
            self.fault(f"there is no {word} '{name}'", suggest(name, short.values(), "there is"))
        return None

    def missing(self, names: list[str], *, groups: bool) -> None:
        known = [target.name for target in self.all]
        if groups:
            known += [name for kind in self.kinds for name in self.inventory.groups(kind)]
        if names[0].startswith("/"):
            known = list(self.paths)
        shown = ", ".join(f"'{name}'" for name in names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        verb = "matches no" if GLOB.search(names[0]) else "is no"
        what = f"{self.word} and no group" if groups else self.word
        why = self.agent(names[0]) or self.template(names[0]) or suggest(names[0], known, "there is")
        self.fault(f"{shown} {verb} {what}", why)

    def agent(self, name: str) -> str:
        managed = self.estate.managed if "vm" in self.kinds else {}
        found = (by for vm, by in managed.items() if name in (vm.name, vm.ref, self.estate.path_of(vm.ref)))
        return next((f"it is an agent VM of {by}, which looks after it; leave it out" for by in found), "")

    def template(self, name: str) -> str:
        found = (f for f in self.estate.of_type("VirtualMachine") if f.name == name and f.get("config.template"))
        return "it is a template: make a virtual machine of it first" if any(found) else ""

    def ambiguous(self, name: str, found: tuple[Target, ...]) -> None:
        places = "; ".join(f"{self.estate.path_of(target.ref)} ({target.ref})" for target in sorted(found))
        self.fault(f"{len(found)} objects are called '{name}'", f"write the path or the reference: {places}")

    def fault(self, message: str, help: str = "") -> None:
        self.faults.append(Diagnostic(self.mark, message, help))
