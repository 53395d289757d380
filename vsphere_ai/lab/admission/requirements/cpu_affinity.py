"""CPU affinity: a VM that is bound to logical processors is not migrated while it runs (AffinityConfigured)."""

from __future__ import annotations

from pyVmomi import vim

from vsphere_ai.lab.admission import CheckTests, Faults, LabCase, Occasion, requirement


@requirement(24, frozenset({Occasion.VMOTION, Occasion.EVACUATE}), CheckTests.SOURCE)
def cpu_affinity(case: LabCase) -> Faults:
    """Yield a fault where the VM is bound to processors."""
    affinity = case.config.cpuAffinity
    if affinity is not None and affinity.affinitySet and not case.runs_here:
        yield vim.fault.AffinityConfigured(
            configuredAffinity=["cpu"], msg="The virtual machine has CPU affinity configured and cannot be migrated."
        )
