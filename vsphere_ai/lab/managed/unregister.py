"""UnregisterVM: a powered-off VM leaves the inventory; its files, which the lab has none of, would stay."""

from __future__ import annotations

from pyVmomi import vim

from vsphere_ai.lab.managed import Call, handles
from vsphere_ai.lab.managed.host_managers import demand
from vsphere_ai.lab.managed.refusals import invalid_power_state

_LISTS = ("childEntity", "vm")


@handles(vim.VirtualMachine, "UnregisterVM")
def unregister(call: Call) -> None:
    """Remove a VM from the inventory."""
    demand(call, "VirtualMachine.Inventory.Unregister")
    farm, mo = call.farm, call.mo
    if mo["runtime"].powerState != "poweredOff":
        raise invalid_power_state(mo["runtime"].powerState, "poweredOff")
    for owner in list(farm.store.objects.values()):
        for name in _LISTS:
            refs = owner.props.get(name)
            if isinstance(refs, list) and mo.ref in refs:
                farm.store.set(owner, **{name: [r for r in refs if r != mo.ref]})
    farm.record(mo, "UnregisterVM")
    farm.store.delete(mo)
