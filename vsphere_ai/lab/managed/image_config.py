"""HostImageConfigManager and HostAccessManager: installed packages, acceptance level, lockdown mode."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.managed import Call, handles
from vsphere_ai.lab.managed.host_managers import demand, host_of_manager
from vsphere_ai.lab.store import fill


@handles(vim.host.ImageConfigManager, "fetchSoftwarePackages")
def fetch_software_packages(call: Call) -> Any:
    """Return the installed VIBs."""
    demand(call, "Host.Config.Image")
    _, host = host_of_manager(call)
    return [
        fill(
            vim.host.SoftwarePackage(
                name=vib.name,
                version=vib.version,
                type="bootbank",
                vendor=vib.vendor,
                acceptanceLevel={"VMwareCertified": "vmware_certified", "VMwareAccepted": "vmware_accepted"}.get(
                    vib.acceptance, "partner"
                ),
                summary=vib.name,
                description=vib.name,
                creationDate=datetime.fromisoformat(vib.installed).replace(tzinfo=UTC),
                maintenanceModeRequired=True,
            )
        )
        for vib in host.vibs
    ]


@handles(vim.host.ImageConfigManager, "installDate")
def install_date(call: Call) -> Any:
    """Return when the host was installed."""
    host_of_manager(call)
    return datetime(2021, 8, 20, tzinfo=UTC)


@handles(vim.host.ImageConfigManager, "HostImageConfigGetAcceptance")
def acceptance(call: Call) -> str:
    """Return the host's acceptance level."""
    host_of_manager(call)
    return "partner"


@handles(vim.host.HostAccessManager, "QueryLockdownExceptions")
def lockdown_exceptions(call: Call) -> list[str]:
    """Return the users who may log in despite lockdown."""
    demand(call, "Global.Settings")
    _, host = host_of_manager(call)
    return sorted(host.lockdown_exceptions)


@handles(vim.host.HostAccessManager, "ChangeLockdownMode")
def change_lockdown_mode(call: Call, mode: Any) -> None:
    """Set the lockdown mode."""
    demand(call, "Host.Config.Settings")
    mo, host = host_of_manager(call)
    if host.lockdown_mode != str(mode):
        with host.changing():
            host.lockdown_mode = mode
            host.notify("lockdown")
        call.farm.record(mo, "ChangeLockdownMode", mode=str(mode))
