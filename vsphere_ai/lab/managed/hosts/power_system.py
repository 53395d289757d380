"""HostPowerSystem: the power policy of a host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed import Call, changes
from vsphere_ai.lab.managed.host_managers import host_manager, host_of_manager, touch
from vsphere_ai.lab.managed.refusals import invalid_argument
from vsphere_ai.lab.store import ManagedObject

POLICIES = ((1, "static", "High performance"), (2, "dynamic", "Balanced"), (3, "low", "Low power"),
            (4, "custom", "Custom"))  # fmt: skip


@host_manager("powerSystem")
def start(_farm: Farm, mo: ManagedObject) -> Mapping[str, Any]:
    """The four policies there are, of which the balanced one counts."""
    policies = [
        vim.host.PowerSystem.PowerPolicy(
            key=key, shortName=short, name=name, description=f"PowerPolicy.{short}.description"
        )
        for key, short, name in POLICIES
    ]
    config = mo["config"]
    config.powerSystemCapability = vim.host.PowerSystem.Capability(availablePolicy=policies)
    config.powerSystemInfo = vim.host.PowerSystem.Info(currentPolicy=policies[1])
    return {"capability": config.powerSystemCapability, "info": config.powerSystemInfo}


@changes(vim.host.PowerSystem, "ConfigurePowerPolicy", "Host.Config.Power")
def power_policy(call: Call, key: int) -> None:
    """Choose a power policy."""
    mo, _host = host_of_manager(call)
    chosen = next((p for p in call.mo["capability"].availablePolicy if p.key == key), None)
    if chosen is None:
        raise invalid_argument("key", str(key))
    if call.mo["info"].currentPolicy.key != key:
        call.mo["info"].currentPolicy = chosen
        touch(call, mo, "info")
        call.farm.record(mo, "ConfigurePowerPolicy", policy=str(chosen.shortName))
