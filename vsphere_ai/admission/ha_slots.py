"""Policy of vSphere HA, and its slots: what a cluster with the slot policy has left once certain VMs run. Pure.

A slot is as large as the largest reservation of a running VM, of CPU and of memory apart. Hosts have whole slots; those
of the largest hosts stay free (vSphere Availability 8.0, "Slot Policy Admission Control").
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, inf

from vsphere_ai.admission.machine import Bounds, Machine
from vsphere_ai.model.cluster_rules import Object
from vsphere_ai.model.facts import Facts

DEFAULT_MHZ = 32
"""What HA reckons for the CPU of a VM without reservation (das.vmcpuminmhz; vSphere Availability 6.7)."""


def policy_of(cluster: Facts | None) -> Object:
    """Return the policy of HA admission control of a cluster; empty where it is off."""
    das: Object = ((cluster.get("configurationEx") if cluster else None) or {}).get("dasConfig") or {}
    if not das.get("enabled") or das.get("admissionControlEnabled") is False:
        return {}
    policy: Object = das.get("admissionControlPolicy") or {}
    return policy


@dataclass(frozen=True)
class SlotPolicy:
    """How slots are counted: hosts whose failure is covered, a fixed slot (0: none), and limits by advanced options."""

    hosts: int
    fixed_mhz: int = 0
    fixed_mb: int = 0
    most_mhz: float = inf
    most_mb: float = inf
    least_mhz: int = DEFAULT_MHZ
    least_mb: int = 0

    @classmethod
    def of(cls, das: Object) -> SlotPolicy | None:
        """Return the policy of a `ClusterDasConfigInfo`; None where it does not say how many hosts may fail."""
        policy = das.get("admissionControlPolicy") or {}
        level, fixed = policy.get("failoverLevel"), policy.get("slotPolicy") or {}
        if level is None:
            return None
        options = {str(o.get("key")).lower(): str(o.get("value")) for o in das.get("option") or ()}
        values = {key: int(value) for key, value in options.items() if value.isdecimal()}
        return cls(
            int(level),
            int(fixed.get("cpu") or 0),
            int(fixed.get("memory") or 0),
            values.get("das.slotcpuinmhz") or inf,
            values.get("das.slotmeminmb") or inf,
            values.get("das.vmcpuminmhz", DEFAULT_MHZ),
            values.get("das.vmmemoryminmb", 0),
        )


def slots_left(policy: SlotPolicy, hosts: Iterable[tuple[Bounds, Bounds]], vms: Sequence[Machine]) -> Bounds | None:
    """Return how many slots are left, at least and at most; below zero: too few. None where a VM's memory is unknown.

    `hosts` are MHz and MB that hosts can guarantee, `vms` all that run, the new one included.
    """
    needs = []
    for vm in vms:
        if vm.reserved_mb is None:
            return None
        memory = max(vm.reserved_mb, policy.least_mb)
        needs.append((max(vm.reserved_mhz, policy.least_mhz), Bounds(memory, memory) + vm.overhead_mb))
    rooms = tuple(hosts)
    worst = [(mhz.low, mb.low) for mhz, mb in rooms], [(mhz, need.high) for mhz, need in needs]
    best = [(mhz.high, mb.high) for mhz, mb in rooms], [(mhz, need.low) for mhz, need in needs]
    return Bounds(_left(policy, *worst), _left(policy, *best))


def _left(policy: SlotPolicy, rooms: Sequence[tuple[float, float]], needs: Sequence[tuple[float, float]]) -> int:
    largest = max(mhz for mhz, _ in needs), max(mb for _, mb in needs)
    found = policy.fixed_mhz or min(largest[0], policy.most_mhz), policy.fixed_mb or min(largest[1], policy.most_mb)
    slot = tuple(max(1.0, size) for size in found)
    each = sorted(min(have // of for have, of in zip(room, slot, strict=True)) for room in rooms)
    used = sum(max(1, *(ceil(need / of) for need, of in zip(vm, slot, strict=True))) for vm in needs)
    return int(sum(each[: max(len(each) - policy.hosts, 0)])) - used
