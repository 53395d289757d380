"""DRS rules of a cluster: those of any user that are there, and those that a plan makes.

Source: vSphere Web Services API reference, ClusterRuleInfo and its subtypes; vSphere Resource Management 8.0, "Using
Affinity Rules". Groups are joined by name; a rule that is not enabled is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from vsphere_ai.model.cluster_rules import APART, FEWEST, ON_HOSTS, TOGETHER, Object, WantedRules
from vsphere_ai.model.facts import Estate, Facts, grouped
from vsphere_ai.model.steps import ClusterRules as RulesStep
from vsphere_ai.model.steps import Step
from vsphere_ai.model.vm_sets import real_ref


@dataclass(frozen=True)
class HostRule:
    """A rule that keeps VMs on hosts (`allowed`; None: on any), or off them (`forbidden`); references."""

    name: str
    mandatory: bool
    vms: frozenset[str]
    allowed: frozenset[str] | None
    forbidden: frozenset[str]

    def permits(self, vm: str, host: str) -> bool:
        """Return whether a VM may be on a host as far as this rule goes."""
        return vm not in self.vms or ((self.allowed is None or host in self.allowed) and host not in self.forbidden)


@dataclass(frozen=True)
class VmRule:
    """A rule that keeps VMs (references) on hosts of their own (`apart`), or on one host."""

    name: str
    mandatory: bool
    vms: frozenset[str]
    apart: bool


@dataclass(frozen=True)
class EnabledRules:
    """The enabled rules of a cluster, and whether DRS is on there; None where its settings were not read."""

    drs: bool | None = None
    of_hosts: tuple[HostRule, ...] = ()
    of_vms: tuple[VmRule, ...] = ()
    excluded: frozenset[str] = frozenset()
    """VMs that DRS neither places nor moves."""

    def between(self, vm: str) -> tuple[VmRule, ...]:
        """Return the rules between a VM and others."""
        return self._by_vm.get(vm, ())

    @cached_property
    def _by_vm(self) -> dict[str, tuple[VmRule, ...]]:
        pairs = grouped(((vm, rule) for rule in self.of_vms for vm in rule.vms), lambda pair: pair[0])
        return {vm: tuple(rule for _, rule in own) for vm, own in pairs.items()}

    def places(self, vm: str) -> bool:
        """Return whether DRS chooses the host of a VM when it powers on."""
        return bool(self.drs) and vm not in self.excluded


def rules_of(
    cluster: Facts | None, estate: Estate, steps: Iterable[Step] = (), later: Iterable[Step] = ()
) -> EnabledRules:
    """Return the rules of a cluster; `steps` are those of the plan that make rules of sets there.

    Those of `later` steps hold beside the ones that they replace: either may be there at the moment.
    """
    config: Object | None = cluster.get("configurationEx") if cluster is not None else None
    if config is None:
        return EnabledRules()
    wanted = [s.wanted for s in _of_cluster(steps, cluster)]
    own = {name for each in wanted for name in each.names}
    made = [*wanted, *(s.wanted for s in _of_cluster(later, cluster))]
    groups = {g.get("name"): g for g in config.get("group") or ()}
    there = [r for r in config.get("rule") or () if r.get("enabled") is True and r.get("name") not in own]
    of_hosts = (*_of_hosts(there, groups), *_wanted_hosts(made, estate))
    of_vms = (*_of_vms(there), *_wanted_vms(made, estate))
    drs = config.get("drsConfig") or {}
    overrides = config.get("drsVmConfig") or () if drs.get("enableVmBehaviorOverrides") is not False else ()
    excluded = {str(o.get("key")) for o in overrides if o.get("enabled") is False}
    excluded |= {real_ref(estate, vm) for each in wanted for vm in each.overridden}
    return EnabledRules(bool(drs.get("enabled")), of_hosts, of_vms, frozenset(excluded))


def _of_cluster(steps: Iterable[Step], cluster: Facts | None) -> Iterator[RulesStep]:
    return (s for s in steps if isinstance(s, RulesStep) and cluster is not None and s.cluster == cluster.ref)


def _of_hosts(rules: Iterable[Object], groups: Mapping[object, Object]) -> Iterator[HostRule]:
    for rule in rules:
        if rule.get("_typeName") != ON_HOSTS:
            continue
        near, far = rule.get("affineHostGroupName"), rule.get("antiAffineHostGroupName")
        yield HostRule(
            str(rule.get("name")),
            bool(rule.get("mandatory")),
            frozenset((groups.get(rule.get("vmGroupName")) or {}).get("vm") or ()),
            frozenset((groups.get(near) or {}).get("host") or ()) if near else None,
            frozenset((groups.get(far) or {}).get("host") or ()) if far else frozenset(),
        )


def _of_vms(rules: Iterable[Object]) -> Iterator[VmRule]:
    for rule in rules:
        if rule.get("_typeName") in (APART, TOGETHER):
            vms = frozenset(rule.get("vm") or ())
            yield VmRule(str(rule.get("name")), bool(rule.get("mandatory")), vms, rule["_typeName"] == APART)


def _wanted_hosts(wanted: Iterable[WantedRules], estate: Estate) -> Iterator[HostRule]:
    for each in wanted:
        if each.on_hosts and each.vms:
            vms = frozenset(real_ref(estate, v) for v in each.vms)
            yield HostRule(each.names[2], each.on_hosts == "must", vms, frozenset(each.hosts), frozenset())


def _wanted_vms(wanted: Iterable[WantedRules], estate: Estate) -> Iterator[VmRule]:
    for each in wanted:
        if each.apart and len(each.vms) >= FEWEST:
            yield VmRule(
                each.names[0], each.apart == "must", frozenset(real_ref(estate, v) for v in each.vms), apart=True
            )
