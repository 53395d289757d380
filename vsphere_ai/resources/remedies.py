"""Remedies that change the virtual hardware of a VM, as far as its hosts let it."""

from __future__ import annotations

from vsphere_ai.model.estate.host_version import hardware_limits
from vsphere_ai.model.estate.remedies import version_for
from vsphere_ai.model.facts import Estate, grouped
from vsphere_ai.model.names.name_ranges import listed
from vsphere_ai.model.names.versions import first_esxi_with
from vsphere_ai.model.state import Target
from vsphere_ai.model.view import View
from vsphere_ai.resources.vm_hardware import VmHardware


def upgrade_for(vm: Target, view: View, needed: int) -> str:
    """Return how a playbook gives a VM at least this hardware version, or which of its hosts are too old for it."""
    everywhere = view.estate.hosts_for(vm.ref)
    possible = view.candidates(vm.ref) or everywhere
    known, hidden = view.places.of_hosts(everywhere, hardware_limits)
    version = version_for(known, needed)
    if version is None:
        known, hidden = view.places.of_hosts(possible, hardware_limits)
        version = version_for(known, needed)
    if version is None:
        old = view.places.of_hosts(possible, _too_old, needed)
        return f"hardware version {needed} needs {first_esxi_with(needed)} or later on every host of the VM: {old}"
    unsure = f"if {', '.join(hidden) or 'its host'} runs {first_esxi_with(version)} or later: "
    return ("" if known and not hidden else unsure) + _written(vm, view, version)


def _too_old(estate: Estate, hosts: tuple[Target, ...], needed: int) -> str:
    """Return which hosts run no VM of a hardware version, by their ESXi version."""
    old = grouped(
        (limit for limit in hardware_limits(estate, hosts)[0] if limit.runs(needed) is False), lambda o: o.esxi
    )
    return ", ".join(
        f"{listed(limit.host for limit in own)} run{'s' * (len(own) == 1)} ESXi {esxi}" for esxi, own in old.items()
    )


def leave_some_out(vm: Target, view: View) -> str:
    """Return what to do about too many adapters; a later hardware version is named only where the hosts run one."""
    version = (view.get(VmHardware, vm.ref) or VmHardware()).version
    known, hidden = view.places.of_hosts(view.candidates(vm.ref), hardware_limits)
    rises = version is not None and bool(known) and not hidden and known[0].hardware > version
    return "leave some out" + ("; a later hardware version may take more" if rises else "")


def _written(vm: Target, view: View, version: int) -> str:
    if view.said(VmHardware, vm.ref) is None:
        return f"add {VmHardware.kind}: {{version: {version}}} to the play"
    return f"write version: {version} under {VmHardware.kind}: in the play for {vm.name}"
