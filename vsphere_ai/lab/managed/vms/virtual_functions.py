"""Virtual functions that running VMs hold, and whether one is left for a VM that powers on."""

from __future__ import annotations

from collections import Counter
from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.hardware import functions
from vsphere_ai.lab.managed.refusals import power_on_failed
from vsphere_ai.lab.managed.running_vms import powered_on
from vsphere_ai.lab.store import ManagedObject

SRIOV = vim.vm.device.VirtualSriovEthernetCard
HELD = "functions"
"""Where a running VM keeps the PCI addresses of the physical functions that its virtual ones are of."""


def cards(vm: ManagedObject) -> list[Any]:
    """Return the SR-IOV adapters of a VM."""
    return [d for d in vm["config"].hardware.device if isinstance(d, SRIOV)]


def find(farm: Farm, vm: ManagedObject, host: ManagedObject) -> list[str]:
    """Return a physical function for each SR-IOV adapter of a VM; raise the fault of a power-on without one."""
    wanted = cards(vm)
    if not wanted:
        return []
    free = Counter({n.pci: n.vfs for n in farm.host(host).pnics})
    for other in powered_on(farm, host):
        if other is not vm:
            free.subtract(other.extra.get(HELD, ()))
    found = _share_out([_possible(farm, host, card) for card in wanted], free)
    if found is None:
        label = wanted[0].deviceInfo.label
        raise power_on_failed(f"No virtual function is available for the SR-IOV network adapter '{label}'.")
    return found


def _possible(farm: Farm, host: ManagedObject, card: Any) -> list[str]:
    """Return the NICs behind an adapter's port group, or the one that is named."""
    named = card.sriovBacking.physicalFunctionBacking.id
    if not named.startswith("Automatic"):
        return [named] if functions.nic_at(farm.host(host), named) else []
    port = getattr(card.backing, "port", None)
    if port is None:
        return []
    group = farm.store.objects[port.portgroupKey]
    order = group["config"].defaultPortConfig.uplinkTeamingPolicy.uplinkPortOrder
    uplinks = {*(order.activeUplinkPort or ()), *(order.standbyUplinkPort or ())}
    proxies = [p for p in host["config"].network.proxySwitch or () if p.dvsUuid == port.switchUuid]
    names = {kv.key: kv.value for p in proxies for kv in p.uplinkPort}
    nics = {
        s.pnicDevice for p in proxies for s in p.spec.backing.pnicSpec or () if names.get(s.uplinkPortKey) in uplinks
    }
    return [n.pci for n in farm.host(host).pnics if n.name in nics]


def _share_out(possible: list[list[str]], free: Counter[str]) -> list[str] | None:
    if not possible:
        return []
    for pci in possible[0]:
        if free[pci] > 0:
            rest = _share_out(possible[1:], free - Counter([pci]))
            if rest is not None:
                return [pci, *rest]
    return None
