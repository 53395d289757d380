"""Evacuation of hosts that enter maintenance mode: a running VM is powered off or moves, or the plan is refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vsphere_ai.compat.vgpu_vmotion import drs_config, hot_migration, moves_from, not_opted_in, why_not_carried
from vsphere_ai.fabric.api_types import VirtualDevice
from vsphere_ai.gpu.devices import has_vgpus, is_vgpu
from vsphere_ai.language.playbooks.play import Power, Rolling
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.finding import Finding, Problem
from vsphere_ai.model.state import Target
from vsphere_ai.planning.moves.rolling import is_down

PASSTHROUGH, SRIOV = "VirtualPCIPassthrough", "VirtualSriovEthernetCard"
POWER_OFF = "write rolling: {evacuate: power_off}"
NOWHERE = "rolling.nowhere"
"""Rule of a VM that no other host takes: see `departures`."""


def obstacles(estate: Estate, vm: Target, host: Target, rolling: Rolling, *, by_drs: bool = False) -> Iterator[Problem]:
    """Yield why a running VM that is not switched off cannot leave its host.

    A VM with vGPUs is moved by the run itself, to a host on which they have been placed (see `vgpu_moves`), every other
    one by DRS. With `by_drs` DRS has to move those with vGPUs, too.
    """
    where = f"it runs on {host.name}, which has to enter maintenance mode"
    if rolling.evacuate == "refuse":
        help_ = f"{POWER_OFF} (or vmotion), or power it off first"
        yield Finding.problem(vm, "rolling.evacuate", where, help_)
        return
    pinned = why_pinned(estate, vm, host)
    if pinned:
        yield Finding.problem(vm, "rolling.pinned", f"{where}; {pinned}", POWER_OFF)
        return
    vgpus = has_vgpus(estate[vm.ref])
    if vgpus and not hot_migration(estate):
        message = f"{where}; it has a vGPU, and vgpu.hotmigrate.enabled is not set in vCenter"
        help_ = f"set it to true in vCenter's advanced settings, or {POWER_OFF}"
        yield Finding.problem(vm, "rolling.hotmigrate", message, help_)
    reason = not_opted_in(estate, host, by_drs=by_drs) if vgpus else ""
    if reason:
        yield Finding.problem(vm, "rolling.opt-in", f"{where}; {reason}", f"set that option, or {POWER_OFF}")
    yield from _ways(estate, vm, host, drs=by_drs or not vgpus)


def why_pinned(estate: Estate, vm: Target, host: Target) -> str:
    """Return what keeps a VM on its host while it runs, "" when nothing does."""
    for device in _devices(estate, vm):
        if device["_typeName"] == SRIOV:
            return "it has an SR-IOV network adapter, which vMotion does not carry"
        if device["_typeName"] != PASSTHROUGH:
            continue
        if not is_vgpu(device):
            return "it has a passthrough device, which vMotion does not carry"
        if device.get("deviceGroupInfo"):
            return "it has a device group, of which it is not known whether another host has it free"
    if not has_vgpus(estate[vm.ref]):
        return ""
    if not moves_from(estate.about):
        about = f"{estate.about.version} build {estate.about.build}"
        return f"it has a vGPU, and vCenter {about} moves no such VM off its host (7.0 U3f does)"
    return next((why for d in _devices(estate, vm) if (why := why_not_carried(d, estate[host.ref]))), "")


def _devices(estate: Estate, vm: Target) -> tuple[VirtualDevice, ...]:
    return tuple(estate[vm.ref].get("config.hardware.device", ()))


def why_not_moved(estate: Estate, vm: Target, host: Target) -> str:
    """Return why DRS does not move a VM by itself, "" when it does.

    The automation level is that of the cluster, or of the VM's own override where the cluster allows those.
    """
    cluster = estate.cluster_of(host.ref)
    drs = drs_config(cluster)
    name = cluster.name if cluster else "its cluster"
    if not drs:
        return f"the DRS settings of {name} cannot be read, so it is not known whether DRS moves it"
    if not drs.get("enabled"):
        return f"DRS of {name} is off, so DRS does not move it"
    own = _override(cluster, drs, vm)
    if own.get("enabled") is False:
        return "DRS is disabled for it"
    level = own.get("behavior") or drs.get("defaultVmBehavior") or "manual"
    if level == "fullyAutomated":
        return ""
    whose = "its own DRS automation level" if own.get("behavior") else f"the DRS automation level of {name}"
    return f"{whose} is {level}, which only recommends a move"


def _ways(estate: Estate, vm: Target, host: Target, *, drs: bool) -> Iterator[Problem]:
    where = f"it runs on {host.name}, which has to enter maintenance mode"
    others = any(h != host and not is_down(estate, h) for h in estate.hosts_for(vm.ref))
    if not others:
        message = f"{where}; no other host of its cluster is connected and in service, so it has nowhere to move"
        yield Finding.problem(vm, "rolling.nowhere", message, POWER_OFF)
    reason = why_not_moved(estate, vm, host) if others and drs else ""
    if reason:
        yield Finding.problem(vm, "rolling.drs", f"{where}; {reason}", f"set DRS to fully automated, or {POWER_OFF}")


def _override(cluster: Facts | None, drs: Mapping[str, object], vm: Target) -> Mapping[str, object]:
    if cluster is None or drs.get("enableVmBehaviorOverrides") is False:
        return {}
    overrides = cluster.get("configurationEx", {}).get("drsVmConfig", ())
    return next((o for o in overrides if o.get("key") == vm.ref), {})


def shutdown_problems(estate: Estate, vm: Target, power: Power) -> Iterator[Problem]:
    """Yield why a running VM cannot be powered off."""
    tools = estate[vm.ref].get("guest.toolsRunningStatus")
    if tools != "guestToolsRunning" and not power.force:
        message = f"the guest cannot be shut down cleanly: VMware Tools are {tools or 'unknown'}"
        yield Finding.problem(vm, "power.tools", message, "write power: {force: true} to allow a hard power-off")
    how = "ShutdownGuest" if tools == "guestToolsRunning" else "PowerOffVM_Task"
    if how in (estate[vm.ref].get("disabledMethod") or ()):
        message = f"the VM has to be powered off, and another product has disabled {how} for it"
        help_ = "wait until that product, often a backup, has ended; or enable the method with it"
        yield Finding.problem(vm, "power.disabled", message, help_)
    if estate[vm.ref].get("runtime.question"):
        yield Finding.problem(
            vm, "power.question", "the VM waits for an answer to a question", "answer it in the vSphere Client"
        )
