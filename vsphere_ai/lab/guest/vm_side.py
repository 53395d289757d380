"""VM side of defects: settings of VMs, and of hosts' kernels, changed while a defect is planted, and then put back."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.guest.defects import Defect, Defects
from vsphere_ai.lab.hardware.host import LabHost
from vsphere_ai.lab.store import ManagedObject

SRIOV = vim.vm.device.VirtualSriovEthernetCard


def show(farm: Farm, defects: Defects) -> None:
    """Put back what earlier defects changed, and change what those of now say."""
    while defects.changed:
        defects.changed.pop()()
    for host in farm.hosts.values():
        if defects.first("ats-off", host=host.name):
            defects.changed.append(partial(_set_ats, host, host.ats_support_running))
            _set_ats(host, False)
    for vm in [mo for mo in farm.store.objects.values() if isinstance(mo.ref, vim.VirtualMachine)]:
        for each in defects.every:
            if each.kind in _CHANGES and each.text("vm", vm["name"]) == vm["name"]:
                defects.changed += _CHANGES[each.kind](farm, vm, each)


def _set_ats(host: LabHost, value: bool) -> None:
    host.ats_support_running = value


def _setting(_farm: Farm, vm: ManagedObject, defect: Defect) -> list[Callable[[], None]]:
    config, name = vm["config"], defect.text("name")
    before = list(config.extraConfig or ())
    value = vim.option.OptionValue(key=name, value=defect.text("value"))
    config.extraConfig = [o for o in before if o.key != name] + ([value] if defect.text("value") else [])

    def back() -> None:
        others = [o for o in vm["config"].extraConfig or () if o.key != name]
        vm["config"].extraConfig = others + [o for o in before if o.key == name]

    return [back]


def _hot_add(_farm: Farm, vm: ManagedObject, _defect: Defect) -> list[Callable[[], None]]:
    before = vm["config"].cpuHotAddEnabled
    vm["config"].cpuHotAddEnabled = True
    return [partial(setattr, vm["config"], "cpuHotAddEnabled", before)]


def _wrong_function(farm: Farm, vm: ManagedObject, defect: Defect) -> list[Callable[[], None]]:
    nics = farm.host(farm.host_of(vm)).pnics
    other = next((nic.pci for nic in nics if nic.name == defect.text("nic")), "")
    found: list[Callable[[], None]] = []
    for card in vm["config"].hardware.device:
        if isinstance(card, SRIOV) and other and card.sriovBacking and card.sriovBacking.physicalFunctionBacking:
            backing: Any = card.sriovBacking.physicalFunctionBacking
            found.append(partial(setattr, backing, "id", backing.id))
            backing.id = other
    return found


_CHANGES = {"setting": _setting, "hot-add": _hot_add, "wrong-function": _wrong_function}
