"""What becomes of a running VM whose host enters maintenance mode: it goes off, it moves, or the plan is refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from vsphere_ai.facts import Estate, Facts
from vsphere_ai.playbook import Rolling
from vsphere_ai.rolling import is_down
from vsphere_ai.state import Problem, Target

PINNING = ("VirtualPCIPassthrough", "VirtualSriovEthernetCard")
POWER_OFF = "write rolling: {evacuate: power_off}"


def obstacles(estate: Estate, vm: Target, host: Target, rolling: Rolling) -> Iterator[Problem]:
    """Yield why a running VM that is not switched off cannot leave its host."""
    where = f"it runs on {host.name}, which has to enter maintenance mode"
    if rolling.evacuate == "refuse":
        help_ = "write rolling: {evacuate: power_off} (or vmotion), or power it off first"
        yield Problem(vm, "rolling.evacuate", where, help_)
    elif is_pinned(estate, vm):
        message = f"{where}; it has a vGPU or passthrough device, which vSphere 7.0 U2 does not evacuate"
        yield Problem(vm, "rolling.pinned", message, POWER_OFF)
    else:
        yield from _ways(estate, vm, host, where)


def is_pinned(estate: Estate, vm: Target) -> bool:
    """Tell whether a VM has a device that keeps it on its host while it runs."""
    return any(d["_typeName"] in PINNING for d in estate[vm.ref].get("config.hardware.device", ()))


def why_not_moved(estate: Estate, vm: Target, host: Target) -> str:
    """Return why DRS does not move a VM by itself, "" when it does.

    The automation level is that of the cluster, or of the VM's own override where the cluster allows those.
    """
    cluster = estate.cluster_of(host.ref)
    drs = _drs(cluster)
    name = cluster.name if cluster else "its cluster"
    if not drs:
        return f"the DRS settings of {name} cannot be read, so it is not known whether anybody moves it"
    if not drs.get("enabled"):
        return f"DRS of {name} is off, so nobody moves it"
    own = _override(cluster, drs, vm)
    if own.get("enabled") is False:
        return "DRS is disabled for it"
    level = own.get("behavior") or drs.get("defaultVmBehavior") or "manual"
    if level == "fullyAutomated":
        return ""
    whose = "its own DRS automation level" if own.get("behavior") else f"the DRS automation level of {name}"
    return f"{whose} is {level}, which only recommends a move"


def _ways(estate: Estate, vm: Target, host: Target, where: str) -> Iterator[Problem]:
    others = [h for h in estate.hosts_for(vm.ref) if h != host and not is_down(estate, h)]
    networks = estate[vm.ref].get("network", ())
    missing = [[n for n in networks if n not in estate[h.ref].get("network", ())] for h in others]
    if not others:
        message = f"{where}; no other host of its cluster is connected and in service, so it has nowhere to move"
        yield Problem(vm, "rolling.nowhere", message, POWER_OFF)
    elif all(missing):
        closest = min(missing, key=len)
        names = ", ".join(_name(estate, ref) for ref in closest)
        message = f"{where}; no other host of its cluster has its networks (missing: {names})"
        yield Problem(vm, "rolling.network", message, f"connect another host to them, or {POWER_OFF}")
    reason = why_not_moved(estate, vm, host) if others else ""
    if reason:
        yield Problem(vm, "rolling.drs", f"{where}; {reason}", f"set DRS to fully automated, or {POWER_OFF}")


def _drs(cluster: Facts | None) -> Mapping[str, Any]:
    found: Mapping[str, Any] = ((cluster.get("configurationEx") if cluster else None) or {}).get("drsConfig") or {}
    return found


def _override(cluster: Facts | None, drs: Mapping[str, Any], vm: Target) -> Mapping[str, Any]:
    if cluster is None or drs.get("enableVmBehaviorOverrides") is False:
        return {}
    overrides = cluster.get("configurationEx", {}).get("drsVmConfig", ())
    return next((o for o in overrides if o.get("key") == vm.ref), {})


def _name(estate: Estate, ref: str) -> str:
    facts = estate.get(ref)
    return facts.name if facts else ref.partition(":")[2]
