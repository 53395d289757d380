"""Groups and rules of a cluster: how they change, which hosts they keep a VM from, and what DRS makes of them.

A mandatory rule refuses a power-on; of any other one DRS takes account where it chooses a host. Source: vSphere Web
Services API, ClusterRuleInfo and ClusterVmHostRuleInfo. Which faults refuse a specification was not seen on a real
vCenter, nor that a rule which is left with one VM goes.
"""

from __future__ import annotations

import copy
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed.refusals import invalid_argument
from vsphere_ai.lab.scenario import Rule
from vsphere_ai.lab.store import ManagedObject, fill, given

TOGETHER, APART, HOSTS = vim.cluster.AffinityRuleSpec, vim.cluster.AntiAffinityRuleSpec, vim.cluster.VmHostRuleInfo
FEWEST = 2
"""VMs that a rule between VMs has at least."""
LEAVES = "leaves"
"""Among what the lab keeps of a VM: DRS moves it off a host that is emptied, together with others of its rules."""


def changed_groups(farm: Farm, mo: ManagedObject, specs: Sequence[Any], detail: dict[str, Any]) -> list[Any]:
    """Return the groups of a cluster as specifications add, edit or remove them."""
    present = {group.name: group for group in mo["configurationEx"].group or ()}
    for spec in specs:
        name = spec.removeKey if spec.operation == "remove" else spec.info.name
        if (name in present) == (spec.operation == "add"):
            raise invalid_argument("groupSpec", f"there is a group {name!r} already, or there is none")
        if spec.operation == "remove":
            del present[name]
        else:
            members = [*(getattr(spec.info, "vm", None) or ()), *(getattr(spec.info, "host", None) or ())]
            _of_cluster(farm, mo, members, "groupSpec")
            present[name] = _merged(present.get(name), spec.info)
        detail[f"group {name}"] = spec.operation
    return list(present.values())


def changed_rules(
    farm: Farm, mo: ManagedObject, specs: Sequence[Any], groups: Sequence[Any], detail: dict[str, Any]
) -> list[Any]:
    """Return the rules of a cluster as specifications add, edit or remove them; `groups` are those it has then."""
    present = {rule.key: rule for rule in mo["configurationEx"].rule or ()}
    for spec in specs:
        if spec.operation == "add":
            rule = fill(copy.copy(spec.info))
            rule.key, rule.ruleUuid = max(present, default=0) + 1, str(uuid.uuid4())
            rule.status, rule.enabled, rule.mandatory = "green", bool(rule.enabled), bool(rule.mandatory)
        else:
            key = spec.removeKey if spec.operation == "remove" else spec.info.key
            if key not in present:
                raise invalid_argument("rulesSpec", f"there is no rule {key}")
            rule = present.pop(key)
            if spec.operation == "edit":
                rule = _merged(rule, spec.info)
        detail[f"rule {rule.name}"] = spec.operation
        if spec.operation != "remove":
            if not rule.name or rule.name in [each.name for each in present.values()]:
                raise invalid_argument("rulesSpec.info.name", f"{rule.name!r} is empty, or another rule has it")
            present[rule.key] = rule
    for rule in present.values():
        _check(farm, mo, rule, groups)
    return [present[key] for key in sorted(present)]


def _check(farm: Farm, mo: ManagedObject, rule: Any, groups: Sequence[Any]) -> None:
    kinds = {group.name: type(group) for group in groups}
    if isinstance(rule, (TOGETHER, APART)):
        _of_cluster(farm, mo, rule.vm, "rulesSpec")
        if len({ref._moId for ref in rule.vm}) < FEWEST:
            raise invalid_argument("rulesSpec.info.vm", "a rule needs two virtual machines")
        return
    if not isinstance(rule, HOSTS):
        raise invalid_argument("rulesSpec.info", f"the lab has no rules of type {type(rule)._wsdlName}")
    hosts = [name for name in (rule.affineHostGroupName, rule.antiAffineHostGroupName) if name]
    if len(hosts) != 1 or kinds.get(hosts[0]) is not vim.cluster.HostGroup:
        raise invalid_argument("rulesSpec.info", "a rule between VMs and hosts needs one group of hosts")
    if kinds.get(rule.vmGroupName) is not vim.cluster.VmGroup:
        raise invalid_argument("rulesSpec.info.vmGroupName", str(rule.vmGroupName))


def _of_cluster(farm: Farm, mo: ManagedObject, refs: Sequence[Any], argument: str) -> None:
    for each in map(farm.store.get, refs):
        host = farm.host_of(each) if isinstance(each.ref, vim.VirtualMachine) else each
        if host["parent"] != mo.ref:
            raise invalid_argument(argument, f"{each['name']} is of another cluster")


def _merged(present: Any, info: Any) -> Any:
    """Return what an edit makes of a group or a rule: what is unset stays, a list is replaced."""
    if present is None:
        return info
    if type(present) is not type(info):
        raise invalid_argument("info", f"it is a {type(present)._wsdlName}")
    merged = copy.copy(present)
    for name in given(info):
        setattr(merged, name, getattr(info, name))
    return merged


def forget(config: Any, ref: Any) -> None:
    """Take a VM out of groups and rules; a rule between VMs that is left with one goes."""
    for group in config.group or ():
        if isinstance(group, vim.cluster.VmGroup):
            group.vm = [each for each in group.vm or () if each != ref]
    for rule in config.rule or ():
        if isinstance(rule, (TOGETHER, APART)):
            rule.vm = [each for each in rule.vm if each != ref]
    config.rule = [r for r in config.rule or () if not isinstance(r, (TOGETHER, APART)) or len(r.vm) >= FEWEST]


def broken_by(farm: Farm, vm: ManagedObject, host: ManagedObject) -> Iterator[Any]:
    """Yield the enabled rules that a VM on a host would break."""
    compute = farm.store.get(host["parent"])
    if not isinstance(compute.ref, vim.ClusterComputeResource):
        return
    config = compute["configurationEx"]
    groups = {group.name: group for group in config.group or ()}
    for rule in config.rule or ():
        if rule.enabled and _breaks(farm, rule, groups, vm, host):
            yield rule


def _breaks(farm: Farm, rule: Any, groups: dict[str, Any], vm: ManagedObject, host: ManagedObject) -> bool:
    if isinstance(rule, (TOGETHER, APART)):
        if vm.ref not in rule.vm:
            return False
        others = [other for ref in rule.vm if ref != vm.ref and _runs(other := farm.store.get(ref))]
        if isinstance(rule, APART):
            return any(other["runtime"].host == host.ref for other in others)
        return any(other["runtime"].host != host.ref for other in others if not _leaves(farm, other))
    members = groups.get(rule.vmGroupName)
    if members is None or vm.ref not in (members.vm or ()):
        return False
    near, far = groups.get(rule.affineHostGroupName or ""), groups.get(rule.antiAffineHostGroupName or "")
    return (near is not None and host.ref not in (near.host or ())) or (far is not None and host.ref in far.host)


def _runs(vm: ManagedObject) -> bool:
    return bool(vm["runtime"].powerState == "poweredOn")


def _leaves(farm: Farm, vm: ManagedObject) -> bool:
    """Return whether a VM is on its way off a host: it follows to where the first one of its rule goes."""
    return LEAVES in vm.extra and "entering" in farm.host_of(vm).extra


def kept_together(farm: Farm, vms: Sequence[ManagedObject]) -> list[list[ManagedObject]]:
    """Return VMs in groups of those that enabled rules keep together, directly or by others, each in its order."""
    groups = [[vm] for vm in vms]
    for compute in {id(mo): mo for mo in (farm.store.get(farm.host_of(vm)["parent"]) for vm in vms)}.values():
        if not isinstance(compute.ref, vim.ClusterComputeResource):
            continue
        for rule in compute["configurationEx"].rule or ():
            if rule.enabled and isinstance(rule, TOGETHER):
                groups = _joined(groups, rule.vm)
    return groups


def _joined(groups: list[list[ManagedObject]], refs: Sequence[Any]) -> list[list[ManagedObject]]:
    """Return groups of VMs, those with a VM of a rule as one, in the place of the first of these."""
    bound = [group for group in groups if any(vm.ref in refs for vm in group)]
    if len(bound) < FEWEST:
        return groups
    as_one = [vm for group in bound for vm in group]
    return [as_one if group is bound[0] else group for group in groups if group is bound[0] or group not in bound]


def best_first(farm: Farm, vm: ManagedObject, hosts: Sequence[ManagedObject]) -> list[ManagedObject]:
    """Return hosts as DRS tries them: those on which a VM breaks the fewest rules first, else in their order."""
    return sorted(hosts, key=lambda host: sum(1 for _ in broken_by(farm, vm, host)))


def describe(farm: Farm, mo: ManagedObject, rules: Sequence[Rule]) -> None:
    """Give a cluster the rules of the scenario, and the groups that those between VMs and hosts need."""
    config = mo["configurationEx"]
    groups, made = [], []
    for key, rule in enumerate(rules, 1):
        vms = [vm.ref for vm in farm.store.of(vim.VirtualMachine) if vm["name"] in rule.vm_names]
        common = {"key": key, "name": rule.name, "enabled": rule.enabled, "mandatory": rule.mandatory,
                  "userCreated": True, "status": "green", "ruleUuid": str(uuid.uuid4())}  # fmt: skip
        if rule.kind in ("affinity", "anti-affinity"):
            made.append((TOGETHER if rule.kind == "affinity" else APART)(vm=vms, **common))
            continue
        hosts = [farm.named[f"host:{name}"].ref for name in rule.host_names]
        groups += [
            vim.cluster.VmGroup(name=f"{rule.name}-vms", vm=vms, userCreated=True),
            vim.cluster.HostGroup(name=f"{rule.name}-hosts", host=hosts, userCreated=True),
        ]
        side = "affineHostGroupName" if rule.kind == "host-affinity" else "antiAffineHostGroupName"
        made.append(HOSTS(vmGroupName=f"{rule.name}-vms", **{side: f"{rule.name}-hosts"}, **common))
    config.group, config.rule = groups, made
