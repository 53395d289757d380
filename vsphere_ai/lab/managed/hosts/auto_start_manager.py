"""HostAutoStartManager: the VMs that start and stop with a host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed import Call, changes
from vsphere_ai.lab.managed.host_managers import host_manager, host_of_manager, touch
from vsphere_ai.lab.managed.refusals import invalid_argument
from vsphere_ai.lab.store import ManagedObject, differs, lay_over

_ACTIONS = ("none", "powerOn", "powerOff", "suspend", "guestShutdown", "systemDefault")


@host_manager("autoStartManager")
def start(_farm: Farm, mo: ManagedObject) -> Mapping[str, Any]:
    """No VM starts with the host."""
    defaults = vim.host.AutoStartManager.SystemDefaults(
        enabled=False, startDelay=120, stopDelay=120, waitForHeartbeat=False, stopAction="PowerOff"
    )
    mo["config"].autoStart = vim.host.AutoStartManager.Config(defaults=defaults, powerInfo=[])
    return {"config": mo["config"].autoStart}


@changes(vim.host.AutoStartManager, "ReconfigureAutostart", "Host.Config.AutoStart")
def autostart(call: Call, spec: Any) -> None:
    """Say which VMs start with the host; a VM of another host is refused, an order of -1 with no action takes out."""
    mo, _host = host_of_manager(call)
    config = call.mo["config"]
    infos = {i.key._moId: i for i in config.powerInfo or ()}
    said: dict[str, Any] = {}
    for info in spec.powerInfo or ():
        vm = call.farm.store.get(info.key)
        if vm["runtime"].host != mo.ref:
            raise invalid_argument("spec.powerInfo.key", f"{vm['name']} is not on this host")
        if info.startAction.lower() not in [a.lower() for a in _ACTIONS]:
            raise invalid_argument("spec.powerInfo.startAction", info.startAction)
        if info.startAction.lower() == "none":
            infos.pop(vm.moid, None)
        else:
            infos[vm.moid] = info
        said[str(vm["name"])] = info.startAction
    if spec.defaults is not None and differs(spec.defaults, config.defaults):
        lay_over(config.defaults, spec.defaults)
        said["enabled"] = bool(config.defaults.enabled)
    if said:
        config.powerInfo = sorted(infos.values(), key=lambda i: (i.startOrder < 0, i.startOrder))
        touch(call, mo, "config")
        call.farm.record(mo, "ReconfigureAutostart", **said)
