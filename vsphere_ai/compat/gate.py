"""The compatibility gate: finds the rules, decides which are relevant, and asks each of them once per target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from inspect import getmembers, isabstract, isclass
from pkgutil import iter_modules

from vsphere_ai.compat import rules as folder
from vsphere_ai.compat.base import Finding, Rule
from vsphere_ai.compat.devices import PVRDMA, found_gpus, is_vgpu, is_whole
from vsphere_ai.facts import View
from vsphere_ai.state import Target

Kinds = frozenset[str]

ORDER = ("vcenter", "host", "vm")
DEVICES = {"vgpu": "profiles", "pvrdma": "adapters", "pci_devices": "devices"}
"""Kinds that put devices into a VM; with an empty list they take them away and need nothing of VM and hosts."""

HOST_KINDS: Kinds = frozenset({"graphics", "mig", "nics", "pvrdma_host", "roce"})
VM_KINDS: Kinds = frozenset({"hardware", "vgpu", "pvrdma", "pci_devices"})


@cache
def rules() -> tuple[Rule, ...]:
    """Return every rule: a class in a module of the folder `rules` is one; nothing else has to be edited."""
    found: dict[str, Rule] = {}
    for module in iter_modules(folder.__path__):
        loaded = import_module(f"{folder.__name__}.{module.name}")
        for _, cls in getmembers(loaded, isclass):
            if issubclass(cls, Rule) and not isabstract(cls) and cls.__module__ == loaded.__name__:
                found[cls.id] = cls()
    return tuple(sorted(found.values(), key=lambda r: (ORDER.index(r.target), r.id)))


def properties() -> Mapping[str, tuple[str, ...]]:
    """Return every property path any rule wants read, by managed type."""
    union: dict[str, set[str]] = {}
    for rule in rules():
        for kind, paths in rule.properties.items():
            union.setdefault(kind, set()).update(paths)
    return {kind: tuple(sorted(paths)) for kind, paths in sorted(union.items())}


def examine(view: View, wanted: Mapping[Target, Kinds]) -> tuple[Finding, ...]:
    """Return what every relevant rule finds: on the vCenter, on the targets, and on the hosts their VMs may run on.

    A host nobody named, that a VM merely may run on, does not refuse the plan while another host can run that VM:
    its failures are shown as warnings.
    """
    wanted = {target: _with_devices(view, target, kinds) for target, kinds in wanted.items()}
    everything: Kinds = frozenset().union(*wanted.values())
    findings = [f for r in _of("vcenter", everything) for f in r.check(None, view)]
    visits = _host_visits(view, wanted)
    by_rule = {(v.host, r.id): tuple(r.check(v.host, view)) for v in visits for r in v.rules}
    kept = _refusing_hosts(view, wanted, by_rule)
    for visit in visits:
        for rule in visit.rules:
            binding = visit.host in kept or (visit.host in wanted and rule.concerns(wanted[visit.host]))
            findings += [f if binding else _softened(f) for f in by_rule[visit.host, rule.id]]
    for vm in sorted(t for t in wanted if t.kind == "vm"):
        findings += [f for r in _of("vm", wanted[vm]) for f in r.check(vm, view)]
    return tuple(findings)


def examine_all(view: View) -> tuple[Finding, ...]:
    """Check the whole estate without a playbook: each target by what it is fit for or already has."""
    hosts = {h: _kinds_of_host(view, h) for h in view.estate.hosts}
    return examine(view, {**hosts, **{v: _kinds_of_vm(view, v) for v in view.estate.vms}})


@dataclass(frozen=True)
class _Visit:
    host: Target
    rules: tuple[Rule, ...]


def _of(target: str, kinds: Kinds) -> tuple[Rule, ...]:
    return tuple(r for r in rules() if r.target == target and r.concerns(kinds))


def _with_devices(view: View, target: Target, kinds: Kinds) -> Kinds:
    empty = {k for k, field in DEVICES.items() if getattr(view.state(target.ref, k), field, None) == ()}
    cards = getattr(view.state(target.ref, "adapters"), "adapters", None) if "adapters" in kinds else None
    rdma: Kinds = frozenset({"pvrdma"} if any(c.type == "pvrdma" for c in cards or ()) else ())
    return (kinds - empty) | rdma


def _possible_hosts(view: View, vm: Target) -> tuple[Target, ...]:
    """Return the hosts a VM can run on after this plan, or all hosts of its cluster when it could run on none."""
    return view.candidates(vm.ref) or view.estate.hosts_for(vm.ref)


def _host_visits(view: View, wanted: Mapping[Target, Kinds]) -> tuple[_Visit, ...]:
    kinds: dict[Target, Kinds] = {t: k for t, k in wanted.items() if t.kind == "host"}
    for vm in (t for t in wanted if t.kind == "vm"):
        for host in _possible_hosts(view, vm):
            kinds[host] = kinds.get(host, frozenset()) | wanted[vm]
    return tuple(_Visit(host, _of("host", kinds[host])) for host in sorted(kinds))


def _refusing_hosts(
    view: View, wanted: Mapping[Target, Kinds], found: Mapping[tuple[Target, str], tuple[Finding, ...]]
) -> frozenset[Target]:
    """Return the hosts whose failures stand, because some VM has no other host without a failure."""
    kept: set[Target] = set()
    for vm in (t for t in wanted if t.kind == "vm"):
        hosts = _possible_hosts(view, vm)
        relevant = _of("host", wanted[vm])
        if not any(all(not f.refuses for r in relevant for f in found[host, r.id]) for host in hosts):
            kept.update(hosts)
    return frozenset(kept)


def _softened(finding: Finding) -> Finding:
    if not finding.refuses:
        return finding
    message = f"{finding.message}; the VMs of this plan have other hosts to run on"
    verdict = "warn" if finding.verdict == "fail" else finding.verdict
    return replace(finding, verdict=verdict, message=message, refuses=False)


def _kinds_of_host(view: View, host: Target) -> Kinds:
    facts = view.facts(host.ref)
    devices = facts.get("hardware.pciDevice")
    if devices is None:
        return HOST_KINDS
    boards = [g.board for g in found_gpus(devices)]
    fit = {
        "graphics": bool(boards),
        "mig": any(b is None or b.mig_capable for b in boards),
        "pvrdma_host": bool(facts.get("config.network.rdmaDevice")),
    }
    return frozenset(kind for kind, is_fit in fit.items() if is_fit)


def _kinds_of_vm(view: View, vm: Target) -> Kinds:
    devices = view.facts(vm.ref).get("config.hardware.device")
    return VM_KINDS if devices is None else frozenset({"hardware", *_kinds_of_devices(devices)})


def _kinds_of_devices(devices: tuple[Mapping[str, object], ...]) -> Iterator[str]:
    if any(is_vgpu(d) for d in devices):
        yield "vgpu"
    if any(d.get("_typeName") == PVRDMA for d in devices):
        yield "pvrdma"
    if any(is_whole(d) for d in devices):
        yield "pci_devices"
