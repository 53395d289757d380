"""Stun time of vGPUs: DRS does not migrate a VM that it would stun for longer than is tolerated.

DRS option `VmDevicesStunTimeTolerated`, 100 s without it, from vSphere 8.0 U2 on (VMware KB 313479); the estimates are
those of `RetrieveVgpuProfileInfo`, of several vGPUs together their sum. By hand the VM may be migrated.
"""

from __future__ import annotations

from vsphere_ai.lab.admission import CheckTests, Faults, LabCase, Occasion, requirement
from vsphere_ai.lab.admission.requirements.hardware.gpus import profiles
from vsphere_ai.lab.admission.supply import cluster_of
from vsphere_ai.lab.managed.refusals import migration_failed
from vsphere_ai.lab.managed.vms.vgpu_migration import BY_ITSELF, stun_seconds

OPTION, TOLERATED = "vmdevicesstuntimetolerated", 100


@requirement(94, frozenset({Occasion.EVACUATE}), CheckTests.NONE)
def stun_time(case: LabCase) -> Faults:
    """Yield a fault where the VM would be stunned for too long."""
    wanted, machine, cluster = profiles(case.config), case.farm.host(case.host), cluster_of(case.farm, case.host)
    if not wanted or cluster is None or machine.release < BY_ITSELF:
        return
    options = {o.key.lower(): str(o.value) for o in cluster["configurationEx"].drsConfig.option or ()}
    text = options.get(OPTION, "")
    most, needed = int(text) if text.isdigit() else TOLERATED, stun_seconds(machine, wanted)
    if needed > most:
        yield migration_failed(f"the vGPUs would stun the virtual machine for {needed} s, DRS tolerates {most} s")
