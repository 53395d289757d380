"""ReconfigureComputeResource_Task of clusters: DRS, overrides of single VMs, groups and rules."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed import Call, changes
from vsphere_ai.lab.managed.clusters import cluster_rules
from vsphere_ai.lab.managed.refusals import invalid_argument, not_supported
from vsphere_ai.lab.store import ManagedObject, given
from vsphere_ai.lab.tasks import TaskWork

DRS_SETTINGS = ("enabled", "defaultVmBehavior", "enableVmBehaviorOverrides", "vmotionRate", "option")
OVERRIDES = {"drsVmConfigSpec": "drsVmConfig", "dasVmConfigSpec": "dasVmConfig"}
"""Settings of single VMs: field of the specification, of the configuration."""
KNOWN = ("drsConfig", *OVERRIDES, "groupSpec", "rulesSpec", "dynamicType", "dynamicProperty")


@changes(vim.ComputeResource, "ReconfigureComputeResource_Task", "Host.Inventory.EditCluster")
def reconfigure_compute(call: Call, spec: Any, modify: bool) -> Any:
    """Change a cluster; with `modify` false everything not named would be reset, which is refused."""
    farm, mo = call.farm, call.mo
    asked = [name for name in given(spec) if name not in ("dynamicType", "dynamicProperty")]
    others = [name for name in asked if name not in KNOWN]
    if others or not asked or not modify:
        what = ", ".join(others) or "this"
        raise not_supported(f"the lab changes DRS, overrides, groups and rules with modify=true only, not {what}")

    def work(_task: TaskWork) -> None:
        detail: dict[str, Any] = {}
        overrides = {name: _overridden(farm, mo, spec, name, detail) for name in OVERRIDES if getattr(spec, name, None)}
        groups = cluster_rules.changed_groups(farm, mo, getattr(spec, "groupSpec", None) or (), detail)
        rules = cluster_rules.changed_rules(farm, mo, getattr(spec, "rulesSpec", None) or (), groups, detail)
        config = mo["configurationEx"]
        for name, values in overrides.items():
            setattr(config, OVERRIDES[name], values)
        config.group, config.rule = groups, rules
        _drs(config.drsConfig, getattr(spec, "drsConfig", None), detail)
        if detail:
            show(farm, mo)
            farm.record(mo, "ReconfigureComputeResource_Task", **detail)

    return farm.tasks.start(mo, "reconfigure", work)


def show(farm: Farm, mo: ManagedObject) -> None:
    """Show a changed configuration, in the property of before vSphere API 2.5 as well."""
    config = mo["configurationEx"]
    if mo["configuration"] is not None:
        for name in ("drsVmConfig", "dasVmConfig", "rule"):
            setattr(mo["configuration"], name, getattr(config, name))
    farm.store.touch(mo, "configurationEx", "configuration")


def _drs(present: Any, wanted: Any, detail: dict[str, Any]) -> None:
    for name in DRS_SETTINGS if wanted is not None else ():
        value = getattr(wanted, name)
        if value not in (None, []) and value != getattr(present, name):
            setattr(present, name, value)
            detail[name] = value if isinstance(value, (str, bool, int)) else str(value)


def _overridden(farm: Farm, mo: ManagedObject, spec: Any, field: str, detail: dict[str, Any]) -> list[Any]:
    """Return the settings of single VMs as a specification adds, edits or removes them; note each for the ledger."""
    present = {c.key._moId: c for c in getattr(mo["configurationEx"], OVERRIDES[field]) or ()}
    for each in getattr(spec, field):
        ref = each.removeKey if each.operation == "remove" else each.info.key
        vm = farm.store.get(ref)
        if (vm.moid in present) == (each.operation == "add") or farm.host_of(vm)["parent"] != mo.ref:
            raise invalid_argument(field, "there is one already, there is none, or it is of another cluster")
        if each.operation == "remove":
            del present[vm.moid]
        else:
            present[vm.moid] = each.info
        detail[str(vm["name"])] = each.operation
    return list(present.values())


def forget(farm: Farm, vm: ManagedObject) -> None:
    """Take a VM that leaves the inventory out of the overrides, groups and rules of its cluster."""
    mo = farm.store.get(farm.host_of(vm)["parent"])
    if not isinstance(mo.ref, vim.ClusterComputeResource):
        return
    config = mo["configurationEx"]
    for name in OVERRIDES.values():
        setattr(config, name, [c for c in getattr(config, name) or () if c.key != vm.ref])
    cluster_rules.forget(config, vm.ref)
    show(farm, mo)
