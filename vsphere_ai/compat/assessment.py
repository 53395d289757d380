"""Assessment of a farm: the rules of the five pillars, and what each of them finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from vsphere_ai.compat import pillars as folder
from vsphere_ai.compat.pillars import attested
from vsphere_ai.compat.pillars.base import AssessedFarm, PillarRule, trains
from vsphere_ai.gpu.devices import found_gpus
from vsphere_ai.model.finding import Finding, seriousness
from vsphere_ai.model.records.assessment import PILLARS, Records
from vsphere_ai.model.view import View


@dataclass(frozen=True)
class Assessment:
    """What the rules find, by pillar and rule, the worst first; and the rules that apply to nothing here."""

    findings: tuple[Finding, ...]
    not_applicable: tuple[str, ...]


@cache
def rules() -> tuple[PillarRule, ...]:
    """Return every rule by pillar and id: a `PillarRule` in a module of the folder `pillars` is one."""
    loaded = (import_module(f"{folder.__name__}.{module.name}") for module in iter_modules(folder.__path__))
    found = [value for module in loaded for value in vars(module).values() if isinstance(value, PillarRule)]
    return tuple(sorted((*found, *attested.rules()), key=lambda r: (PILLARS.index(r.pillar), r.id)))


def properties() -> Mapping[str, tuple[str, ...]]:
    """Return every property path that a rule wants read, by managed type."""
    union: dict[str, set[str]] = {"VirtualMachine": {"config.extraConfig", "config.instanceUuid"}}
    for rule in rules():
        for kind, paths in rule.reads.items():
            union.setdefault(kind, set()).update(paths)
    return {kind: tuple(sorted(paths)) for kind, paths in sorted(union.items())}


def farm_of(view: View, records: Records, on: frozenset[str], chosen: frozenset[str] | None = None) -> AssessedFarm:
    """Return what is assessed: hosts with GPUs and VMs that train, of those `chosen` (references); None: of all.

    `on` are the VMs (references) that run, or will.
    """
    estate = view.estate
    hosts = (h for h in estate.hosts if found_gpus(estate[h.ref].get("hardware.pciDevice") or ()))
    vms = (v for v in estate.vms if trains(estate[v.ref]) or view.planned_kinds(v.ref))
    return AssessedFarm(
        view,
        tuple(h for h in hosts if chosen is None or h.ref in chosen),
        tuple(v for v in vms if chosen is None or v.ref in chosen),
        on,
        records,
    )


def assess(farm: AssessedFarm) -> Assessment:
    """Return what every rule finds."""
    findings: list[Finding] = []
    for rule in rules():
        findings += sorted(rule.check(farm), key=lambda f: (-seriousness(f), f.target.name if f.target else ""))
    applied = {finding.rule for finding in findings}
    return Assessment(tuple(findings), tuple(rule.id for rule in rules() if rule.id not in applied))
