"""MTU alignment: a distributed switch and every VMkernel adapter on it get one MTU, on all hosts.

Source: vSphere Networking 7.0, "Assign a VMkernel Adapter for PVRDMA".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from vsphere_ai.fabric import dvs, vmk
from vsphere_ai.fabric.api_types import Vnic
from vsphere_ai.fabric.corrections import KernelAdapter, SwitchMtu
from vsphere_ai.fabric.fix_plan import FixPlan, RdmaPath, by_switch
from vsphere_ai.fabric.host import used_vnic
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.state import Target

LARGEST_MTU = 9000  # of a distributed switch
Placed = tuple[Target, Vnic, int]


def align(fix_plan: FixPlan, estate: Estate, paths: Iterable[RdmaPath]) -> dict[str, int]:
    """Add the changes of MTU to a fix plan; return the MTU in bytes each switch will have, by reference."""
    goals: dict[str, int] = {}
    for ref, own in by_switch(estate, paths).items():
        switch = estate[ref]
        size = switch.get("config.maxMtu")
        if not size:
            continue
        used = list(_placed((h, v) for h, g in own if (v := used_vnic(estate, h, g)) is not None))
        goals[ref] = size
        if any(mtu > size for _, _, mtu in used):
            goals[ref] = _raise(fix_plan, estate, switch, size)
        else:
            _lift(fix_plan, estate, [p for p in used if p[2] < size], size)
    return goals


def _raise(fix_plan: FixPlan, estate: Estate, switch: Facts, size: int) -> int:
    """Raise a switch to the largest MTU of the adapters on it, and the smaller adapters with it."""
    uuid, at = switch.get("uuid"), estate.datacenter_of(switch.ref)
    vnics = ((h, v) for h in estate.hosts for v in estate[h.ref].get(vmk.VNICS, ()))
    every = list(_placed((h, v) for h, v in vnics if vmk.switch_uuid(v) == uuid))
    goal = max(mtu for _, _, mtu in every)
    if goal > LARGEST_MTU or at is None:
        why = f"an adapter on it has {goal}, and no switch takes more than {LARGEST_MTU}"
        fix_plan.keep(f"the MTU of {switch.name} stays {size}: {why}")
        return size
    fix_plan.add(SwitchMtu(at, switch.name, goal))
    _lift(fix_plan, estate, [p for p in every if p[2] < goal], goal)
    hosts = (estate.get(ref) for ref in dvs.members(switch))
    unread = sorted(h.name for h in hosts if h and vmk.VNICS not in h.properties)
    if unread:
        need = f"VMkernel adapters on {switch.name} there need MTU {goal}"
        fix_plan.keep(f"{', '.join(unread)} could not be read: {need}")
    return goal


def _lift(fix_plan: FixPlan, estate: Estate, low: Sequence[Placed], goal: int) -> None:
    for host, vnic, mtu in low:
        device, groups = vnic["device"], vmk.by_group(host.ref, estate)
        name = next((n for n, vnics in groups.items() if vnics == [vnic]), None)
        spot = f"{device} of {host.name} keeps MTU {mtu}, not {goal}"
        if device in vmk.managing(estate[host.ref]):
            fix_plan.keep(f"{spot}: it carries management, which no playbook changes")
        elif name is None:
            fix_plan.keep(f"{spot}: its port group has several adapters on that host")
        else:
            fix_plan.add(KernelAdapter(host, name, goal))


def _placed(vnics: Iterable[tuple[Target, Vnic]]) -> Iterator[Placed]:
    """Yield each adapter once, with its MTU in bytes; one without an MTU is not changed."""
    seen = set()
    for host, vnic in vnics:
        mtu = (vnic.get("spec") or {}).get("mtu")
        if mtu and (host.ref, vnic["device"]) not in seen:
            seen.add((host.ref, vnic["device"]))
            yield host, vnic, mtu
