"""vMotion: a VM that is not bound to logical processors (AffinityConfigured), between hosts with a network for it.

Both hosts of a migration have a VMkernel adapter that carries vMotion (VMotionNotConfigured).

vCenter Server and Host Management 8.0, host configuration for vMotion. A scenario that describes no VMkernel adapter of
a host leaves its management network open, too: such a host migrates.
"""

from __future__ import annotations

from pyVmomi import vim

from vsphere_ai.lab.admission import CheckTests, Faults, LabCase, Occasion, requirement
from vsphere_ai.lab.store import ManagedObject

STACK = "vmotion"
"""TCP/IP stack on which an adapter carries vMotion without being selected for it."""


@requirement(23, frozenset({Occasion.VMOTION, Occasion.EVACUATE}), CheckTests.NETWORK)
def vmotion_network(case: LabCase) -> Faults:
    """Yield a fault for the host, and for the one the VM comes from, that has no adapter for it."""
    source = case.farm.host_of(case.vm)
    for host in () if case.runs_here else (source, case.host):
        if not _is_ready(host):
            yield vim.fault.VMotionNotConfigured(
                atSourceHost=host is source,
                failedHost=str(host["name"]),
                failedHostEntity=host.ref,
                msg=f"The vMotion interface is not configured (or is misconfigured) on the host '{host['name']}'.",
            )


@requirement(24, frozenset({Occasion.VMOTION, Occasion.EVACUATE}), CheckTests.SOURCE)
def cpu_affinity(case: LabCase) -> Faults:
    """Yield a fault where the VM is bound to processors."""
    affinity = case.config.cpuAffinity
    if affinity is not None and affinity.affinitySet and not case.runs_here:
        yield vim.fault.AffinityConfigured(
            configuredAffinity=["cpu"], msg="The virtual machine has CPU affinity configured and cannot be migrated."
        )


def _is_ready(host: ManagedObject) -> bool:
    adapters = (host["config"].network.vnic if host["config"] is not None else None) or ()
    selected = host.extra.get("vnic_services", {}).get("vmotion") or ()
    on_stack = any(adapter.spec.netStackInstanceKey == STACK for adapter in adapters)
    return not adapters or on_stack or any(adapter.device in selected for adapter in adapters)
