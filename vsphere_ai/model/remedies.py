"""Remedies of problems: what would work, as far as the hosts, their connection and --limit let it."""

from __future__ import annotations

from collections.abc import Collection

from vsphere_ai.model.facts import Estate
from vsphere_ai.model.host_version import hardware_limits
from vsphere_ai.model.state import Target
from vsphere_ai.model.versions import first_esxi_with
from vsphere_ai.model.view import View

ADVISED = 19
"""ESXi 7.0 U2 runs it. A later one is advised only where it is needed: an upgrade cannot be undone."""


def play_for(host: Target, view: View, setting: str) -> str:
    """Return how a playbook gives a host a setting, such as ``mig: {mode: enabled}``, or why it cannot just now."""
    state = view.facts(host.ref).get("runtime.connectionState", "connected")
    if state != "connected":
        return f"reconnect {host.name} first: vCenter reports it as {state}"
    kind = setting.partition(":")[0]
    if host.ref in view.left_out:
        return f"--limit leaves out {host.name}, which the playbook has a play for: include it, with {setting}"
    if (host.ref, kind) in view.stated:
        return f"change {kind}: in the play for {host.name}, or solve the problems it has there"
    return f"add {setting} to a play for {host.name}"


def upgrade_for(vm: Target, view: View, needed: int) -> str:
    """Return how a playbook gives a VM at least this hardware version, or which of its hosts are too old for it."""
    everywhere = view.estate.hosts_for(vm.ref)
    possible = view.candidates(vm.ref) or everywhere
    hosts = everywhere if version_for(view.estate, everywhere, needed) else possible
    version = version_for(view.estate, hosts, needed)
    known, hidden = hardware_limits(view.estate, hosts)
    if version is None:
        old = ", ".join(f"{limit.host} runs ESXi {limit.esxi}" for limit in known if limit.hardware < needed)
        return f"hardware version {needed} needs {first_esxi_with(needed)} or later on every host of the VM: {old}"
    unsure = f"if {', '.join(hidden) or 'its host'} runs {first_esxi_with(version)} or later: "
    return ("" if known and not hidden else unsure) + _written(vm, view, version)


def version_for(estate: Estate, hosts: Collection[Target], needed: int) -> int | None:
    """Return the hardware version to advise, at least the needed one, that all hosts run; None when one is too old."""
    known, _ = hardware_limits(estate, hosts)
    lowest = known[0].hardware if known else needed
    return max(needed, min(ADVISED, lowest)) if lowest >= needed else None


def leave_some_out(vm: Target, view: View) -> str:
    """Return what to do about too many adapters; a later hardware version is named only where the hosts run one."""
    version = getattr(view.state(vm.ref, "hardware"), "version", None)
    known, hidden = hardware_limits(view.estate, view.candidates(vm.ref))
    rises = version is not None and bool(known) and not hidden and known[0].hardware > version
    return "leave some out" + ("; a later hardware version may take more" if rises else "")


def _written(vm: Target, view: View, version: int) -> str:
    stated = view.stated.get((vm.ref, "hardware"))
    if stated is None:
        return f"add hardware: {{version: {version}}} to the play"
    return f"write version: {version} under hardware: in the play for {vm.name}"
