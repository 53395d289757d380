"""HostImageConfigManager and HostAccessManager: installed packages, acceptance level, lockdown mode."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed import Call, changes, reads
from vsphere_ai.lab.managed.host_managers import host_manager, host_of_manager, shows
from vsphere_ai.lab.store import ManagedObject, fill

host_manager("imageConfigManager")


@shows("hostAccessManager")
def project(farm: Farm, mo: ManagedObject) -> None:
    """Write the lockdown mode into the manager and into ``config``."""
    if mo["config"] is not None:
        mo["config"].lockdownMode = farm.host(mo).lockdown_mode
        farm.store.set(mo.extra["hostAccessManager"], lockdownMode=farm.host(mo).lockdown_mode)


@reads(vim.host.ImageConfigManager, "fetchSoftwarePackages", "Host.Config.Image")
def fetch_software_packages(call: Call) -> Any:
    """Return the installed VIBs."""
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


@reads(vim.host.ImageConfigManager, "installDate")
def install_date(call: Call) -> Any:
    """Return when the host was installed."""
    host_of_manager(call)
    return datetime(2021, 8, 20, tzinfo=UTC)


@reads(vim.host.ImageConfigManager, "HostImageConfigGetAcceptance")
def acceptance(call: Call) -> str:
    """Return the host's acceptance level."""
    host_of_manager(call)
    return "partner"


@reads(vim.host.HostAccessManager, "QueryLockdownExceptions", "Global.Settings")
def lockdown_exceptions(call: Call) -> list[str]:
    """Return the users who may log in despite lockdown."""
    _, host = host_of_manager(call)
    return sorted(host.lockdown_exceptions)


@changes(vim.host.HostAccessManager, "UpdateLockdownExceptions", "Global.Settings")
def update_exceptions(call: Call, users: Any = None) -> None:
    """Replace the users whom lockdown mode lets in."""
    mo, host = host_of_manager(call)
    if host.lockdown_exceptions != set(users or ()):
        with host.changing():
            host.lockdown_exceptions = set(users or ())
            host.notify("lockdown")
        call.farm.record(mo, "UpdateLockdownExceptions", users=sorted(users or ()))


@changes(vim.host.HostAccessManager, "ChangeLockdownMode", "Host.Config.Settings")
def change_lockdown_mode(call: Call, mode: Any) -> None:
    """Set the lockdown mode."""
    mo, host = host_of_manager(call)
    if host.lockdown_mode != str(mode):
        with host.changing():
            host.lockdown_mode = mode
            host.notify("lockdown")
        call.farm.record(mo, "ChangeLockdownMode", mode=str(mode))
