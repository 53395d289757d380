"""Processors and memory of a host as vCenter shows them: ceilings, hyperthreading, what the system keeps, features."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.scenario import Host as HostSpec
from vsphere_ai.lab.store import ManagedObject, fill

MOST_RUNNING, MOST_VCPUS_OF_HOST = 1024, 4096
"""VMs and virtual CPUs that run on a host at most (VMware Configuration Maximums, unverified)."""
LICENSED_VMS = "licensed_vms"
"""Among what the lab keeps of a host: how many VMs its licence lets run, 0 for any number."""
VCPUS_OF_VM = (((7, 0, 1), 768), ((7, 0, 0), 256), ((0, 0, 0), 128))
"""Virtual CPUs of a VM at most, by release (the same)."""
PARTIAL_SINCE = (8, 0, 3)
BLOCKING = "quickPatchPartialMM"
"""The partial mode in which VMs that run go on, and no others start or arrive (HostPartialMaintenanceModeId)."""
MOST_MEMORY_MB = 24576 * 1024


def most_vcpus(release: tuple[int, ...]) -> int:
    """Return how many virtual CPUs a VM can have on an ESXi release."""
    return next(most for since, most in VCPUS_OF_VM if release >= since)


def ceilings(release: tuple[int, ...]) -> dict[str, Any]:
    """Return the fields of HostCapability that bound what runs on a host of an ESXi release."""
    return {
        "maxSupportedVcpus": most_vcpus(release),
        "maxHostSupportedVcpus": MOST_VCPUS_OF_HOST,
        "maxHostRunningVms": MOST_RUNNING,
        "maxSupportedVMs": MOST_RUNNING,
        "maxSupportedVmMemory": MOST_MEMORY_MB,
        "featureCapabilitiesSupported": True,
        "latencySensitivitySupported": True,
        "perVmSwapFiles": True,
        "localSwapDatastoreSupported": True,
        "unsharedSwapVMotionSupported": True,
        "remoteDeviceVMotionSupported": False,
    }


def describe(farm: Farm, mo: ManagedObject, spec: HostSpec) -> None:
    """Write into a host what its mainboard is like, and where swap files are that are to be local to it."""
    board, config = farm.host(mo).mainboard, mo["config"]
    mo.extra[LICENSED_VMS] = spec.licensed_vms
    mo["capability"].maxRunningVMs = spec.licensed_vms or None
    config.hyperThread = vim.host.CpuSchedulerSystem.HyperThreadScheduleInfo(
        available=spec.hyperthreading or board.threads > board.cores, active=board.threads > board.cores, config=True
    )
    config.featureCapability = capabilities(board.own_features)
    config.maskedFeatureCapability = capabilities(board.shown_features)
    if spec.swap_datastore:
        config.localSwapDatastore = farm.named[f"datastore:{spec.swap_datastore}"].ref
    if not spec.shows_system_resources:
        return
    kept = vim.ResourceAllocationInfo(
        reservation=board.system_memory_mb, expandableReservation=False, limit=-1,
        shares=vim.SharesInfo(shares=500, level="custom"),
    )  # fmt: skip
    cpu = vim.ResourceAllocationInfo(
        reservation=board.system_mhz, expandableReservation=False, limit=-1,
        shares=vim.SharesInfo(shares=500, level="custom"),
    )  # fmt: skip
    resources = fill(
        vim.host.SystemResourceInfo(
            key="host/system", config=vim.ResourceConfigSpec(cpuAllocation=cpu, memoryAllocation=kept)
        )
    )
    config.systemResources = resources
    farm.store.set(mo, systemResources=resources)


def show_partial_maintenance(host: ManagedObject, release: tuple[int, ...], mode: str) -> None:
    """Let a host show the partial maintenance mode that it is in, if its release has such modes."""
    if mode and release >= PARTIAL_SINCE:
        shown = vim.host.PartialMaintenanceModeRuntimeInfo(key=mode, hostStatus="inPartialMM")
        host["runtime"].partialMaintenanceMode = [fill(shown)]


def blocks_arrivals(host: ManagedObject) -> bool:
    """Return whether a host takes no VM because it is patched alive."""
    modes = host["runtime"].partialMaintenanceMode or ()
    return any(mode.key == BLOCKING and mode.hostStatus != "notInPartialMM" for mode in modes)


def capabilities(features: tuple[str, ...]) -> list[Any]:
    """Return features of processors as a host shows them; those that are not named it has not."""
    return [vim.host.FeatureCapability(key=f"cpuid.{f}", featureName=f"cpuid.{f}", value="1") for f in features]


def requirements(features: tuple[str, ...]) -> list[Any]:
    """Return what a VM demands of a host that is to show it these features."""
    return [vim.vm.FeatureRequirement(key=f"cpuid.{f}", featureName=f"cpuid.{f}", value="Bool:Min:1") for f in features]
