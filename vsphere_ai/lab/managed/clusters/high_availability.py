"""HA of a cluster: its configuration and admission control, what vCenter shows of both, and the state of its hosts."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.admission import failover_capacity as capacity
from vsphere_ai.lab.admission.supply import hosts_of, is_good, running
from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed import Call, reads
from vsphere_ai.lab.managed.refusals import invalid_state
from vsphere_ai.lab.scenario import Ha
from vsphere_ai.lab.store import ManagedObject, fill

CLUSTER = vim.cluster


def configuration(ha: Ha) -> Any:
    """Return the HA configuration that a scenario describes, without the policy of its admission control."""
    return CLUSTER.DasConfigInfo(
        enabled=ha.enabled,
        admissionControlEnabled=ha.admission_control != "off",
        failoverLevel=ha.failover_level,
        hostMonitoring="enabled",
        vmMonitoring="vmMonitoringDisabled",
        option=[vim.option.OptionValue(key=k, value=v) for k, v in ha.options.items()],
    )


def describe(farm: Farm, mo: ManagedObject, ha: Ha) -> None:
    """Give a cluster whose hosts are there the policy of its admission control, and each host its state in HA."""
    das = mo["configurationEx"].dasConfig
    if ha.admission_control == "hosts":
        refs = [farm.named[f"host:{name}"].ref for name in ha.host_names]
        das.admissionControlPolicy = CLUSTER.FailoverHostAdmissionControlPolicy(
            failoverHosts=refs, failoverLevel=ha.failover_level
        )
    elif ha.admission_control == "slots":
        fixed = CLUSTER.FixedSizeSlotPolicy(cpu=ha.slot_cpu_mhz, memory=ha.slot_memory_mb)
        das.admissionControlPolicy = CLUSTER.FailoverLevelAdmissionControlPolicy(
            failoverLevel=ha.failover_level, slotPolicy=fixed if ha.slot_cpu_mhz else None
        )
    elif ha.admission_control == "percentage":
        policy = CLUSTER.FailoverResourcesAdmissionControlPolicy(
            cpuFailoverResourcesPercent=max(0, ha.cpu_percent),
            memoryFailoverResourcesPercent=max(0, ha.memory_percent),
            failoverLevel=ha.failover_level,
            autoComputePercentages=min(ha.cpu_percent, ha.memory_percent) < 0,
        )
        both = capacity.percentages(policy, len(mo["host"]))
        policy.cpuFailoverResourcesPercent, policy.memoryFailoverResourcesPercent = both
        das.admissionControlPolicy = policy


def show(farm: Farm, mo: ManagedObject, summary: Any) -> None:
    """Write into the summary of a cluster what its admission control says now."""
    das = capacity.settings(mo)
    policy = das.admissionControlPolicy if das is not None else None
    summary.admissionControlInfo = None
    if isinstance(policy, CLUSTER.FailoverResourcesAdmissionControlPolicy):
        cpu, memory = capacity.shares_left(farm, mo, capacity.needs_of(farm, mo, das))
        summary.admissionControlInfo = CLUSTER.FailoverResourcesAdmissionControlInfo(
            currentCpuFailoverResourcesPercent=int(cpu), currentMemoryFailoverResourcesPercent=int(memory)
        )
    elif isinstance(policy, CLUSTER.FailoverLevelAdmissionControlPolicy):
        found = capacity.slots(farm, mo, das, capacity.needs_of(farm, mo, das))
        summary.currentFailoverLevel = capacity.failover_level(found)
        summary.admissionControlInfo = CLUSTER.FailoverLevelAdmissionControlInfo(
            currentFailoverLevel=summary.currentFailoverLevel
        )
    elif isinstance(policy, CLUSTER.FailoverHostAdmissionControlPolicy):
        summary.admissionControlInfo = CLUSTER.FailoverHostAdmissionControlInfo(
            hostStatus=capacity.host_statuses(farm, policy.failoverHosts)
        )


def state_of(farm: Farm, host: ManagedObject) -> Any:
    """Return the state of a host in HA: the first good host of its cluster is the master; None without HA."""
    compute = farm.store.get(host["parent"])
    das = compute["configurationEx"].dasConfig if isinstance(compute.ref, vim.ClusterComputeResource) else None
    if das is None or not das.enabled:
        return None
    good = [each for each in hosts_of(farm, compute) if is_good(farm, each)]
    machine = farm.host(host)
    if host in good:
        state = "master" if host is good[0] else "connectedToMaster"
    else:
        state = "hostDown" if not machine.up else "uninitialized"
    reporter = good[0].ref if good and not machine.up else None
    return CLUSTER.DasFdmHostState(state=state, stateReporter=reporter)


def show_hosts(farm: Farm, compute: ManagedObject) -> None:
    """Write into the hosts of a compute resource, one of which has changed, their state in HA."""
    farm.store.touch(compute, "summary")
    for host in hosts_of(farm, compute):
        state, runtime = state_of(farm, host), host["runtime"]
        before = runtime.dasHostState
        if (before and before.state) != (state and state.state):
            runtime.dasHostState = state
            farm.store.touch(host, "runtime")


@reads(vim.ClusterComputeResource, "RetrieveDasAdvancedRuntimeInfo")
def advanced_runtime_info(call: Call) -> Any:
    """Return the slots of a cluster under a slot policy; less under another one."""
    farm, mo = call.farm, call.mo
    das = mo["configurationEx"].dasConfig
    if das is None or not das.enabled:
        raise invalid_state("HA is not enabled")
    policy = das.admissionControlPolicy
    if not das.admissionControlEnabled or not isinstance(policy, CLUSTER.FailoverLevelAdmissionControlPolicy):
        return fill(CLUSTER.DasAdvancedRuntimeInfo())
    vms = running(farm, mo)
    found = capacity.slots(farm, mo, das, [capacity.need(das, vm) for vm in vms])
    info = CLUSTER.DasFailoverLevelAdvancedRuntimeInfo
    left = capacity.unreserved_slots(found, int(policy.failoverLevel))
    return fill(
        info(
            slotInfo=info.SlotInfo(numVcpus=1, cpuMHz=found.mhz, memoryMB=found.memory_mb),
            totalSlots=sum(found.of_hosts.values()),
            usedSlots=found.used,
            unreservedSlots=left,
            totalVms=len(vms),
            totalHosts=len(mo["host"]),
            totalGoodHosts=len(found.of_hosts),
            hostSlots=[
                info.HostSlots(host=farm.store.objects[moid].ref, slots=count) for moid, count in found.of_hosts.items()
            ],
            vmsRequiringMultipleSlots=[
                info.VmSlots(vm=vm.ref, slots=count) for vm, count in zip(vms, found.taken, strict=True) if count > 1
            ],
        )
    )
