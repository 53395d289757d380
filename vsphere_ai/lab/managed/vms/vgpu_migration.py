"""Migration of vGPUs as vCenter describes it: per device, per profile with stun times, and whether DRS does it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.hardware.host import LabHost
from vsphere_ai.lab.hardware.vgpu import VgpuType, known_types
from vsphere_ai.lab.managed import Call, reads
from vsphere_ai.lab.managed.host_managers import host_of_manager
from vsphere_ai.lab.managed.placement import release
from vsphere_ai.lab.store import ManagedObject

NVIDIA = 0x10DE
TESTED_MBPS = 10_000
"""Bandwidth of VMware's table of stun times (vSphere 7.0, "Using vMotion to Migrate vGPU Virtual Machines"): 2 s with
1 GB of frame buffer, 12 s with 8, 22 s with 16, 39 s with 32. The lab takes 1 s, and 1.2 s for each GB."""
OPT_IN, OPT_IN_VALUE = "VgpuMMAutomationTimeoutSecs", "-1"
FIRST_WITH_OPT_IN = ((7, 0, 3), 20051473)
"""vCenter 7.0 U3f (KB 88271)."""
BY_ITSELF = (8, 0, 2)
"""From 8.0 U2 on DRS evacuates VMs with vGPUs without the option (VMware's blog of 2023-09-08 on 8.0 U2)."""


@reads(vim.host.GraphicsManager, "RetrieveVgpuProfileInfo")
def retrieve_vgpu_profile_info(call: Call) -> Any:
    """Return of each vGPU type of the host's boards its size, how it shares the GPU, and how long a vMotion stuns."""
    _, host = host_of_manager(call)
    return [_profile_info(host, name, kind) for name, kind in sorted(known_types(host).items())]


def _profile_info(host: LabHost, name: str, kind: VgpuType) -> Any:
    gb, compute = kind.framebuffer_gb, name.removesuffix("me").endswith("c")
    estimates = [
        vim.vm.VMotionStunTimeInfo(migrationBW=mbps, stunTime=max(1, round((1 + 1.2 * gb) * TESTED_MBPS / mbps)))
        for mbps in (TESTED_MBPS, 25_000)
    ]
    return vim.vm.VgpuProfileInfo(
        name="",
        profileName=name,
        deviceVendorId=host.gpus[0].device_id << 16 | NVIDIA,
        fbSizeInGib=gb,
        profileSharing="mig" if kind.profile else "timeSliced",
        profileClass="compute" if compute else "quadro",
        stunTimeEstimates=estimates if compute or name.endswith("q") else [],
    )


def stun_seconds(host: LabHost, names: Sequence[str]) -> int:
    """Return for how long a vMotion of these vGPUs together stuns their VM, at the bandwidth of VMware's table."""
    known = known_types(host)
    return sum(max(1, round(1 + 1.2 * known[name].framebuffer_gb)) for name in names if name in known)


def complete(host: LabHost, backing: Any) -> None:
    """Fill in what the server says of a vGPU's backing."""
    kind = known_types(host).get(backing.vgpu)
    backing.migrateSupported = host.migrates_vgpus
    backing.enhancedMigrateCapability = host.migrates_vgpus
    backing.vgpuMigrateDataSizeMB = kind.framebuffer_gb * 1024 if kind else 0


def drs_may(farm: Farm, cluster: ManagedObject) -> bool:
    """Return whether DRS of this vCenter and cluster evacuates VMs with vGPUs when a host enters maintenance mode."""
    server = farm.scenario.vcenter
    version = release(server.version)
    if version >= BY_ITSELF:
        return True
    if (version, int(server.build)) < FIRST_WITH_OPT_IN:
        return False
    options = {o.key: str(o.value) for o in cluster["configurationEx"].drsConfig.option or ()}
    return options.get(OPT_IN) == OPT_IN_VALUE
