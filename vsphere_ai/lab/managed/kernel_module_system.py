"""HostKernelModuleSystem: the option strings of a host's modules, which count from the next boot on."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.hardware import drivers
from vsphere_ai.lab.managed import Call, handles
from vsphere_ai.lab.managed.host_managers import demand, host_of_manager
from vsphere_ai.lab.managed.refusals import not_found
from vsphere_ai.lab.store import fill

SETTINGS = "Host.Config.Settings"  # the API reference asks it for reading too


@handles(vim.host.KernelModuleSystem, "QueryModules")
def query_modules(call: Call) -> Any:
    """Return the loaded modules; the option string is the configured one, not the one they run with."""
    demand(call, SETTINGS)
    _, host = host_of_manager(call)
    return [
        fill(
            vim.host.KernelModuleSystem.ModuleInfo(
                id=number,
                name=module.name,
                version="",
                filename=f"/usr/lib/vmware/vmkmod/{module.name}",
                optionString=module.options,
                loaded=True,
                enabled=True,
                useCount=module.used_by,
            )
        )
        for number, module in enumerate(host.kernel_modules.values(), 1)
    ]


@handles(vim.host.KernelModuleSystem, "QueryConfiguredModuleOptionString")
def query_options(call: Call, name: str) -> str:
    """Return the configured option string of a module."""
    demand(call, SETTINGS)
    _, host = host_of_manager(call)
    if name not in host.kernel_modules:
        raise not_found(name)
    return host.kernel_modules[name].options


@handles(vim.host.KernelModuleSystem, "UpdateModuleOptionString")
def update_options(call: Call, name: str, options: str) -> None:
    """Replace the whole option string of a module; what it runs with stays until the next boot."""
    demand(call, SETTINGS)
    mo, host = host_of_manager(call)
    if name not in host.kernel_modules:
        raise not_found(name)
    if drivers.set_options(host, name, options):
        call.farm.record(mo, "UpdateModuleOptionString", name=name, options=options)
