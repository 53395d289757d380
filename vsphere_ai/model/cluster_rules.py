"""DRS rules, groups and overrides of a set of VMs in a cluster: what differs from what is wanted, as one specification.

Names begin with ``vsphere-ai set NAME``; rules and groups of other names are never changed. Source: vSphere Web
Services API reference, ClusterConfigSpecEx, ClusterRuleSpec, ClusterGroupSpec and ClusterDrsVmConfigSpec.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Strength = Literal["", "should", "must"]
APART, TOGETHER, ON_HOSTS = "ClusterAntiAffinityRuleSpec", "ClusterAffinityRuleSpec", "ClusterVmHostRuleInfo"
VMS, HOSTS = "ClusterVmGroup", "ClusterHostGroup"
OWN = "vsphere-ai set "
"""Begins the names of rules and groups of sets."""
FEWEST = 2
"""VMs that a rule between VMs has at least."""
Object = Mapping[str, Any]


@dataclass(frozen=True)
class WantedRules:
    """What a set has in the configuration of its cluster; references of VMs and hosts.

    `apart`: a rule keeps `vms` on hosts of their own; `on_hosts`: a rule keeps them on `hosts`. DRS does not move VMs
    of `overridden` by itself; VMs of `automatic` have no override.
    """

    set: str
    vms: tuple[str, ...] = ()
    apart: Strength = ""
    hosts: tuple[str, ...] = ()
    on_hosts: Strength = ""
    overridden: tuple[str, ...] = ()
    automatic: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, str, str]:
        """The names of the rule between VMs, of the group of VMs, and of the group of hosts and its rule."""
        return tuple(f"{OWN}{self.set} {what}" for what in ("apart", "VMs", "hosts"))  # type: ignore[return-value]


def difference(config: Object, wanted: WantedRules, real: Callable[[str], str] = str) -> dict[str, Any]:
    """Return the ClusterConfigSpecEx that makes a cluster as desired; empty when it is. `real` gives references."""
    vms = tuple(map(real, wanted.vms))
    groups = tuple(_groups(config, wanted, vms))
    rules = tuple(_rules(config, wanted, vms))
    overrides = tuple(_overrides(config, wanted, real))
    found = {"groupSpec": groups, "rulesSpec": rules, "drsVmConfigSpec": overrides}
    spec = {name: each for name, each in found.items() if each}
    return {"_typeName": "ClusterConfigSpecEx", **spec} if spec else {}


def _groups(config: Object, wanted: WantedRules, vms: Sequence[str]) -> Iterator[Object]:
    _, of_vms, of_hosts = wanted.names
    there = {g["name"]: g for g in config.get("group") or ()}
    for name, kind, field, members in ((of_vms, VMS, "vm", vms), (of_hosts, HOSTS, "host", wanted.hosts)):
        info = {"_typeName": kind, "name": name, field: tuple(members)}
        if wanted.on_hosts and vms:
            if name not in there or {*(there[name].get(field) or ())} != {*members}:
                yield _spec("ClusterGroupSpec", "edit" if name in there else "add", info)
        elif name in there:
            yield {"_typeName": "ClusterGroupSpec", "operation": "remove", "removeKey": name}


def _rules(config: Object, wanted: WantedRules, vms: Sequence[str]) -> Iterator[Object]:
    apart, of_vms, of_hosts = wanted.names
    there = {r["name"]: r for r in config.get("rule") or ()}
    between = {"_typeName": APART, "vm": tuple(vms)}
    near = {"_typeName": ON_HOSTS, "vmGroupName": of_vms, "affineHostGroupName": of_hosts}
    wants = ((apart, wanted.apart if len(vms) >= FEWEST else "", between), (of_hosts, vms and wanted.on_hosts, near))
    for name, strength, fields in wants:
        now = there.get(name)
        info = {**fields, "name": name, "enabled": True, "mandatory": strength == "must"}
        if strength and now is None:
            yield _spec("ClusterRuleSpec", "add", info)
        elif now is not None and strength:
            if any(_plain(now.get(k)) != _plain(v) for k, v in info.items()):
                yield _spec("ClusterRuleSpec", "edit", {**info, "key": now["key"]})
        elif now is not None:
            yield {"_typeName": "ClusterRuleSpec", "operation": "remove", "removeKey": now["key"]}


def _overrides(config: Object, wanted: WantedRules, real: Callable[[str], str]) -> Iterator[Object]:
    there = {c["key"]: c for c in config.get("drsVmConfig") or ()}
    for vm in map(real, wanted.overridden):
        if vm not in there or there[vm].get("enabled") is not False:
            info = {"_typeName": "ClusterDrsVmConfigInfo", "key": vm, "enabled": False}
            yield _spec("ClusterDrsVmConfigSpec", "edit" if vm in there else "add", info)
    for vm in map(real, wanted.automatic):
        if vm in there:
            key = {"_typeName": "ManagedObjectReference", "value": vm}
            yield {"_typeName": "ClusterDrsVmConfigSpec", "operation": "remove", "removeKey": key}


def _spec(kind: str, operation: str, info: Object) -> Object:
    return {"_typeName": kind, "operation": operation, "info": info}


def _plain(value: object) -> object:
    return frozenset(value) if isinstance(value, list | tuple) else value or ""


def foreign_rules(config: Object, wanted: WantedRules, real: Callable[[str], str]) -> Iterator[tuple[str, str]]:
    """Yield enabled rules of others that contradict those of a set, by name, each with the reason in words."""
    vms, hosts = {real(v) for v in wanted.vms}, set(wanted.hosts)
    groups = {g["name"]: g for g in config.get("group") or ()}
    for rule in config.get("rule") or ():
        if rule["name"] in wanted.names or rule.get("enabled") is False:
            continue
        own = vms & {*(rule.get("vm") or ())}
        if rule["_typeName"] == TOGETHER and wanted.apart and len(own) >= FEWEST:
            yield rule["name"], f"keeps {len(own)} VMs of the set on one host"
        if rule["_typeName"] != ON_HOSTS or not vms & {*(groups.get(rule.get("vmGroupName"), {}).get("vm") or ())}:
            continue
        near, far = (
            {*(groups.get(rule.get(side), {}).get("host") or ())}
            for side in ("affineHostGroupName", "antiAffineHostGroupName")
        )
        none_left = not hosts & near if rule.get("affineHostGroupName") else bool(far) and hosts <= far
        if wanted.on_hosts and none_left:
            yield rule["name"], "keeps VMs of the set off every host of 'placement: hosts'"
