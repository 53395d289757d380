"""vMotion of VMs with vGPUs: which versions carry them, the switches for it, and how long a VM is stunned.

Sources: Broadcom KB 88271 and 94881 (evacuation by version, `VgpuMMAutomationTimeoutSecs`); vSphere documentation,
"Using vMotion to Migrate vGPU Virtual Machines" (`vgpu.hotmigrate.enabled`); vSphere Web Services API reference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from vsphere_ai.fabric.api_types import VirtualDevice
from vsphere_ai.model.facts import About, Estate, Facts
from vsphere_ai.model.names.versions import Version, numbers
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Query

SERVICE = "ServiceInstance:ServiceInstance"
HOT = "vgpu.hotmigrate.enabled"
SWITCH = Query(HOT, "content.setting", "QueryOptions", {"name": HOT}, SERVICE)
OPT_IN, OPT_IN_VALUE = "VgpuMMAutomationTimeoutSecs", "-1"
FIRST: tuple[Version, int] = ((7, 0, 3), 20051473)
"""vCenter 7.0 U3f, the first that moves VMs with vGPUs off a host for maintenance; by opting in."""
SINCE_8_U1: Version = (8, 0, 1)
"""From 8.0 U1 on no opting in is needed for moves that are asked for."""
DRS_BY_ITSELF: Version = (8, 0, 2)
"""From 8.0 U2 on DRS moves such VMs for maintenance without the option."""
PROFILES_API = (7, 0, 3)
"""`RetrieveVgpuProfileInfo` is of vSphere API 7.0.3.0; estimates of stun times are of 8.0.2.0."""


class Stun(NamedTuple):
    """An estimate of vCenter: a VM is stunned for so many seconds at a bandwidth in Mbit/s."""

    mbps: int
    seconds: int

    def __str__(self) -> str:
        speed = f"{self.mbps / 1000:g} Gbit/s" if self.mbps >= 1000 else f"{self.mbps} Mbit/s"
        return f"{self.seconds} s at {speed}"


def moves_from(about: About) -> bool:
    """Return whether this vCenter moves VMs with vGPUs off a host that enters maintenance mode."""
    build = int(about.build) if about.build.isdecimal() else 0
    version = _version(about)
    return version > FIRST[0] or (version, build) >= FIRST


def not_opted_in(estate: Estate, host: Target, *, by_drs: bool) -> str:
    """Return why moving VMs with vGPUs for maintenance is not switched on in a cluster, "" where nothing is missing."""
    if _version(estate.about) >= (DRS_BY_ITSELF if by_drs else SINCE_8_U1):
        return ""
    cluster = estate.cluster_of(host.ref)
    options = {o.get("key"): str(o.get("value")) for o in drs_config(cluster).get("option") or ()}
    if options.get(OPT_IN) == OPT_IN_VALUE:
        return ""
    name = cluster.name if cluster else "its cluster"
    return (
        f"it has a vGPU, and vCenter {estate.about.version} moves it only where {OPT_IN} of DRS is {OPT_IN_VALUE}, "
        f"which {name} has {f'as {options[OPT_IN]}' if OPT_IN in options else 'not'}"
    )


def drs_config(cluster: Facts | None) -> Mapping[str, Any]:
    """Return the DRS settings of a cluster; empty when they cannot be read."""
    found: Mapping[str, Any] = ((cluster.get("configurationEx") if cluster else None) or {}).get("drsConfig") or {}
    return found


def hot_migration(estate: Estate) -> bool:
    """Return whether vCenter allows vMotion of VMs with vGPUs; a setting that does not exist is not set."""
    service = estate.get(SERVICE)
    options = service.get(f"query:{SWITCH.name}") if service else None
    return any(str(o.get("value")).lower() == "true" for o in options or ())


def why_not_carried(device: VirtualDevice, host: Facts) -> str:
    """Return why vMotion does not carry a vGPU from or to a host, "" when both device and host say it does.

    A server that says nothing of the device (the field is of API 7.0.2.0) leaves it to the host's driver.
    """
    backing = device.get("backing") or {}
    profile = str(backing.get("vgpu", "")).lower()
    if not profile:
        return ""
    if backing.get("migrateSupported") is False:
        return f"its vGPU {profile} does not support vMotion"
    listed = {c["vgpu"].lower(): c.get("migrateSupported") for c in host.get("config.sharedGpuCapabilities") or ()}
    if listed.get(profile) is False:
        return f"the NVIDIA host driver of {host.name} does not support vMotion of {profile}"
    if backing.get("migrateSupported") is None and listed.get(profile) is None:
        return f"neither the VM nor {host.name} shows whether {profile} supports vMotion"
    return ""


def profile_query(host: str) -> Query:
    """Return the question for the vGPU profiles of a host, with their stun times."""
    return Query("vgpu profiles", "configManager.graphicsManager", "RetrieveVgpuProfileInfo", on=host, keep=_estimates)


def _estimates(answer: Iterable[Mapping[str, Any]] | None) -> dict[str, list[list[int]]]:
    found = {}
    for info in answer or ():
        times = info.get("stunTimeEstimates") or ()
        found[str(info["profileName"]).lower()] = [[int(t["migrationBW"]), int(t["stunTime"])] for t in times]
    return found


def stun_times(estate: Estate) -> Mapping[str, Mapping[int, int]]:
    """Return the stun times of vGPU profiles as hosts estimate them, seconds by bandwidth (Mbit/s)."""
    known: dict[str, dict[int, int]] = {}
    for facts in estate.of_type("HostSystem"):
        for name, times in (facts.get("query:vgpu profiles") or {}).items():
            known.setdefault(name, {int(mbps): int(seconds) for mbps, seconds in times})
    return known


def stun(known: Mapping[str, Mapping[int, int]], profiles: Iterable[str]) -> tuple[Stun, ...]:
    """Return for how long a VM with these vGPUs is stunned, the times of all devices added; empty when not known."""
    each = [known.get(p, {}) for p in profiles]
    common = set.intersection(*map(set, each)) if each else set()
    return tuple(Stun(mbps, sum(times[mbps] for times in each)) for mbps in sorted(common))


def _version(about: About) -> Version:
    return numbers(about.version) or ()
