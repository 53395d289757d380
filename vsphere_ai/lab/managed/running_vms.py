"""VMs of a host that run."""

from __future__ import annotations

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.store import ManagedObject


def powered_on(farm: Farm, mo: ManagedObject) -> list[ManagedObject]:
    """Return the powered-on VMs of a host."""
    vms = (farm.store.objects.get(ref._moId) for ref in list(mo["vm"]))
    return [vm for vm in vms if vm is not None and vm["runtime"].powerState == "poweredOn"]
