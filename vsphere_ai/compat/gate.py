"""The compatibility gate: finds the rules, decides which are relevant, and asks each of them once per target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, reduce
from importlib import import_module
from operator import or_
from pkgutil import iter_modules

from vsphere_ai.compat import rules as folder
from vsphere_ai.compat.base import CompatRule, Use
from vsphere_ai.compat.vm_groups import TopicsOfVms, asked_hosts, kept_hosts, vm_groups
from vsphere_ai.model.facts import MALFORMED, UNTYPED
from vsphere_ai.model.finding import Finding
from vsphere_ai.model.state import KindName, Target, TargetKind
from vsphere_ai.model.view import View
from vsphere_ai.resources import kinds
from vsphere_ai.resources.mixins import Judged, affected_by, concerned
from vsphere_ai.resources.topics import Topic

Kinds = frozenset[KindName]

ANSWERS = "vcenter.answers"
SOURCE = "pyVmomi, supported vSphere releases"
NEWER = "this vCenter may be newer than pyVmomi: pip install --upgrade pyvmomi"
LOOK = "look at this object in the vSphere Client; --debug shows where reading it failed"
ORDER = ("vcenter", "host", "vm")
BECAUSE = "because of this plan"
SEVERITY = {"pass": 0, "unknown": 0, "warn": 1, "fail": 2}


@cache
def rules() -> tuple[CompatRule, ...]:
    """Return every rule: a `CompatRule` in a module of the folder `rules` is one; nothing else has to be edited."""
    loaded = (import_module(f"{folder.__name__}.{module.name}") for module in iter_modules(folder.__path__))
    found = (value for module in loaded for value in vars(module).values() if isinstance(value, CompatRule))
    return tuple(sorted(found, key=lambda r: (ORDER.index(r.target), r.id)))


def properties() -> Mapping[str, tuple[str, ...]]:
    """Return every property path any rule wants read, by managed type."""
    union: dict[str, set[str]] = {}
    for rule in rules():
        for kind, paths in rule.properties.items():
            union.setdefault(kind, set()).update(paths)
    return {kind: tuple(sorted(paths)) for kind, paths in sorted(union.items())}


def kinds_of(target: TargetKind) -> Kinds:
    """Return the names of all kinds of datacenters, hosts or VMs."""
    return frozenset(name for name, cls in kinds().items() if cls.target == target)


def examine(view: View, wanted: Mapping[Target, Kinds]) -> tuple[Finding, ...]:
    """Return what every relevant rule finds: on the vCenter, on the targets, and on the hosts their VMs may run on.

    A host outside the playbook does not refuse the plan while another host can run the VM:
    its failures are shown as warnings.
    """
    topics = {target: _concerned(view, target, names) for target, names in wanted.items()}
    everything = reduce(or_, topics.values(), Topic.NONE)
    findings = [*unread(view), *(f for r in _of("vcenter", everything) for f in r.check(None, view))]
    groups = vm_groups(view, topics)
    visits = _host_visits(groups, topics)
    by_rule = {(v.host, r.id): tuple(r.check(v.host, view)) for v in visits for r in v.rules}
    kept = kept_hosts(groups, lambda h, own: any(f.refuses for r in _of("host", own) for f in by_rule[h, r.id]))
    for visit in visits:
        for rule in visit.rules:
            binding = visit.host in kept or (visit.host in topics and rule.concerns(topics[visit.host]))
            findings += [f if binding else _softened(f) for f in by_rule[visit.host, rule.id]]
    for vm in sorted(t for t in topics if t.kind == "vm"):
        findings += [f for r in _of("vm", topics[vm]) for f in r.check(vm, view)]
    return tuple(findings)


def touched(view: View, uses: Mapping[Target, Use]) -> tuple[Finding, ...]:
    """Return what the rules about states find on VMs that a plan does not change, and powers off and on or moves."""
    about_state = [r for r in rules() if r.about_state]
    return tuple(f for vm in sorted(uses) for r in about_state for f in r.check(vm, view, uses[vm]))


def unread(view: View) -> tuple[Finding, ...]:
    """Return which values were left out of vCenter's answers, by object and property: said of every plan.

    No rule: where all could be read there is nothing to say, and nothing a playbook wants makes it relevant.
    """
    return tuple(
        Finding(None, ANSWERS, "unknown", f"{facts.name} ({facts.ref}): {path}: {reason}", help, (), SOURCE)
        for facts in view.estate.objects.values()
        for path, reason in facts.unreadable.items()
        for prefix, help in ((UNTYPED, NEWER), (MALFORMED, LOOK))
        if reason.startswith(prefix)
    )


def worsened(before: View, after: View, changing: Iterable[KindName], seen: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return what a plan makes worse by changing what others use: a switch under the RDMA of other hosts.

    `changing` are the kinds that change something, and `seen` is what was found already. The findings warn.
    """
    affected = affected_by(name for name in changing if name in kinds())
    if not affected:
        return ()
    known = {(f.target, f.rule) for f in seen}
    found = []
    for rule in (r for r in rules() if r.about & affected and r.target != "vcenter"):
        for target in after.estate.hosts if rule.target == "host" else after.estate.vms:
            if (target, rule.id) in known:
                continue
            now = max((SEVERITY[f.verdict] for f in rule.check(target, before)), default=0)
            found += [_softened(f, BECAUSE) for f in rule.check(target, after) if SEVERITY[f.verdict] > now]
    return tuple(found)


def examine_all(view: View) -> tuple[Finding, ...]:
    """Check the whole estate without a playbook: each target by what it is fit for or already has."""
    return examine(view, {t: _fit(view, t) for t in (*view.estate.hosts, *view.estate.vms)})


@dataclass(frozen=True)
class _Visit:
    host: Target
    rules: tuple[CompatRule, ...]


@cache
def _of(target: str, topics: Topic) -> tuple[CompatRule, ...]:
    return tuple(r for r in rules() if r.target == target and r.concerns(topics))


def _concerned(view: View, target: Target, names: Kinds) -> Topic:
    known = (concerned(kinds()[name], view.state(target.ref, name)) for name in names if name in kinds())
    return reduce(or_, known, Topic.NONE)


def _host_visits(groups: Iterable[TopicsOfVms], wanted: Mapping[Target, Topic]) -> tuple[_Visit, ...]:
    asked = asked_hosts(groups, {t: k for t, k in wanted.items() if t.kind == "host"})
    return tuple(_Visit(host, _of("host", asked[host])) for host in sorted(asked))


def _softened(finding: Finding, why: str = "the VMs of this plan have other hosts to run on") -> Finding:
    if not finding.refuses and why != BECAUSE:
        return finding
    message = f"{finding.message}; {why}"
    verdict = "warn" if finding.verdict == "fail" else finding.verdict
    return replace(finding, verdict=verdict, message=message, refuses=False)


def _fit(view: View, target: Target) -> Kinds:
    """Return the kinds a host or VM is fit for; one that shows no devices may be fit for any."""
    facts, own = view.facts(target.ref), ((name, kinds()[name]) for name in kinds_of(target.kind))
    if facts.get("hardware.pciDevice" if target.kind == "host" else "config.hardware.device") is None:
        return kinds_of(target.kind)
    return frozenset(name for name, kind in own if issubclass(kind, Judged) and kind.is_fit(facts))
