"""Selection of the datacenters, hosts or VMs of an estate that a pattern means."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cached_property

from vsphere_ai.errors import Diagnostic, InputError, Mark
from vsphere_ai.language.inventory import Group, HostGroup, Inventory, VmGroup
from vsphere_ai.language.patterns import GLOB, REF, PatternError, Term, expand, split
from vsphere_ai.language.validation import suggest
from vsphere_ai.model.facts import Estate, grouped
from vsphere_ai.model.state import Target, TargetKind

WORDS = {"datacenter": "datacenter", "host": "host", "vm": "virtual machine"}


def select(pattern: str, kind: TargetKind, inventory: Inventory, estate: Estate, *, mark: Mark) -> tuple[Target, ...]:
    """Return the targets a pattern means, by name; `InputError` at `mark` with everything in it that fits nothing."""
    return _Selector(inventory, estate, mark, (kind,)).select(pattern)


def narrow(pattern: str, inventory: Inventory, estate: Estate, *, mark: Mark) -> tuple[Target, ...]:
    """Return the targets of any kind that a pattern means which may name all of them, as ``--limit`` does."""
    return _Selector(inventory, estate, mark, ("datacenter", "host", "vm")).select(pattern)


def passed_over(pattern: str, inventory: Inventory, estate: Estate) -> frozenset[Target]:
    """Return the VMs a pattern would mean that are not the user's to change, and that `select` leaves out of it."""
    everything = _Selector(inventory, estate, Mark(""), ("vm",), managed=True)
    return frozenset(everything.evaluate(pattern, groups=True)) & {*estate.managed}


def groups_of(inventory: Inventory, estate: Estate) -> Mapping[str, tuple[str, ...]]:
    """Return the groups of the inventory that hosts and VMs are in, by their references."""
    found: dict[str, tuple[str, ...]] = {}
    for kind in ("host", "vm"):
        selector = _Selector(inventory, estate, Mark(""), (kind,))
        for name, group in inventory.groups(kind).items():
            for target in selector.members(kind, group):
                found[target.ref] = (*found.get(target.ref, ()), name)
    return found


def hosts_named(patterns: Sequence[str], inventory: Inventory, estate: Estate) -> frozenset[Target]:
    """Return the hosts that patterns mean and that are there: an inventory may be of several vCenters."""
    return frozenset(_Selector(inventory, estate, Mark(""), ("host",)).evaluate(*patterns, groups=True))


class _Selector:
    """Looks patterns up in one estate; notes every fault and raises them together.

    VMs that vCenter or an extension looks after are not the user's: a pattern means them only with `managed`.
    """

    def __init__(
        self,
        inventory: Inventory,
        estate: Estate,
        mark: Mark,
        kinds: tuple[TargetKind, ...],
        *,
        managed: bool = False,
    ) -> None:
        self.inventory, self.estate, self.mark, self.kinds = inventory, estate, mark, kinds
        self.managed = managed
        self.faults: list[Diagnostic] = []
        theirs = estate.managed if "vm" in kinds else {}
        ours = (target for kind in kinds for target in estate.targets(kind) if target not in theirs)
        self.all = (*ours, *theirs) if managed else tuple(ours)
        self.names = grouped(self.all, lambda target: target.name)
        *others, last = (WORDS[kind] for kind in kinds)
        self.word = f"{', '.join(others)} or {last}" if others else last

    def select(self, pattern: str) -> tuple[Target, ...]:
        chosen = self.evaluate(pattern, groups=True)
        if not chosen and not self.faults:
            self.fault(f"'{pattern}' leaves no {self.word}", "what it takes away is everything it names")
        if self.faults:
            raise InputError(dict.fromkeys(self.faults))
        return tuple(sorted(chosen, key=lambda target: (target.kind, target.name, target.ref)))

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
        group = self.grouped(name) if groups else None
        if group is not None:
            return group
        chosen: set[Target] = set()
        missing: list[str] = []
        for one in (name,) if name in self.names else expand(name):
            found = self.matching(one)
            if not found:
                missing.append(one)
            elif len(found) > 1 and not GLOB.search(one):
                self.ambiguous(one, found)
            chosen.update(found)
        if missing:
            self.missing(missing, groups=groups)
        return chosen

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

    def members(self, kind: TargetKind, group: Group) -> set[Target]:
        inner = _Selector(self.inventory, self.estate, group.mark, (kind,), managed=self.managed)
        chosen = set(inner.all)
        for chosen_by in inner.conditions(group.selector):
            chosen &= chosen_by
        if not chosen and not inner.faults:
            inner.fault(f"the group '{group.name}' is empty: no {inner.word} fulfils all of its conditions")
        excerpt = group.excerpt
        self.faults.extend(Diagnostic(f.mark, f.message, f.help, excerpt) for f in inner.faults)
        return chosen

    def conditions(self, selector: HostGroup | VmGroup) -> Iterator[set[Target]]:
        """Yield, per condition of a group, the targets that fulfil it."""
        if selector.names is not None:
            yield self.evaluate(*selector.names, groups=False)
        if selector.cluster is not None:
            types = ("ClusterComputeResource", "ComputeResource")
            yield self.inside(self.container("cluster", selector.cluster, types))
        if selector.datacenter is not None:
            yield self.inside(self.container("datacenter", selector.datacenter, ("Datacenter",)))
        if isinstance(selector, VmGroup) and selector.folder is not None:
            yield self.inside(self.container("VM folder", selector.folder, ("Folder",)))

    def inside(self, ref: str | None) -> set[Target]:
        return {target for target in self.all if ref in self.above(target)} if ref else set()

    def above(self, target: Target) -> Iterator[str]:
        """Yield the references a target is inside of: through its parents and, for a VM, through its host."""
        host = self.estate.host_of(target.ref) if target.kind == "vm" else None
        yield from (f.ref for at in (target, host) if at for f in self.estate.up_from(at.ref))

    def container(self, word: str, name: str, types: tuple[str, ...]) -> str | None:
        """Return the one cluster, datacenter or folder of a name or inventory path; note why there is not one."""
        objects = {facts.ref: self.estate.path_of(facts.ref) for facts in self.estate.of_type(*types)}
        if word == "VM folder":
            objects = {ref: path for ref, path in objects.items() if "/vm/" in path + "/"}
        tail = f"/vm/{name.strip('/')}" if word == "VM folder" else f"/{name}"
        found = [ref for ref, path in objects.items() if path == name or (name[0:1] != "/" and path.endswith(tail))]
        if len(found) == 1:
            return found[0]
        if found:
            places = ", ".join(sorted(objects[ref] for ref in found))
            self.fault(f"{len(found)} objects are the {word} '{name}'", f"write the inventory path: {places}")
        else:
            names = (
                path.partition("/vm/")[2] if word == "VM folder" else path.rpartition("/")[2]
                for path in objects.values()
            )
            self.fault(f"there is no {word} '{name}'", suggest(name, names, "there is"))
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
