"""HostKernelModuleSystem: the option strings of a host's modules, which count from the next boot on."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.hardware import drivers
from vsphere_ai.lab.managed import Call, changes, reads
from vsphere_ai.lab.managed.host_managers import host_manager, host_of_manager
from vsphere_ai.lab.managed.refusals import not_found
from vsphere_ai.lab.store import fill

SETTINGS = "Host.Config.Settings"  # the API reference asks it for reading too

host_manager("kernelModuleSystem")


@reads(vim.host.KernelModuleSystem, "QueryModules", SETTINGS)
def query_modules(call: Call) -> Any:
    """Return the loaded modules; the option string is the configured one, not the one they run with."""
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


@reads(vim.host.KernelModuleSystem, "QueryConfiguredModuleOptionString", SETTINGS)
def query_options(call: Call, name: str) -> str:
    """Return the configured option string of a module."""
    _, host = host_of_manager(call)
    if name not in host.kernel_modules:
        raise not_found(name)
    return host.kernel_modules[name].options


@changes(vim.host.KernelModuleSystem, "UpdateModuleOptionString", SETTINGS)
def update_options(call: Call, name: str, options: str) -> None:
    """Replace the whole option string of a module; what it runs with stays until the next boot."""
    mo, host = host_of_manager(call)
    if name not in host.kernel_modules:
        raise not_found(name)
    if drivers.set_options(host, name, options):
        call.farm.record(mo, "UpdateModuleOptionString", name=name, options=options)
