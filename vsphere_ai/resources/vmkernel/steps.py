"""Steps of one VMkernel adapter: it is made or changed, and selected for the traffic it carries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from vsphere_ai.fabric.vmk import VMOTION, Spot, carries_vmotion
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.state import Change
from vsphere_ai.model.steps import Step
from vsphere_ai.resources._helpers.factories import invoke
from vsphere_ai.resources.vmkernel.adapter import VmkernelAdapter, nic_spec


def adapter_step(change: Change, spot: Spot, wanted: VmkernelAdapter) -> Step:
    """Return the call that makes an adapter, or changes what is wanted of one that is there."""
    new = spot.vnic is None
    what = f"make a VMkernel adapter on {spot.name}" if new else f"change {spot.device} on {spot.name}"
    words = [str(wanted.address or ""), f"MTU {wanted.mtu}" if wanted.mtu else ""]
    return invoke(
        change,
        "configManager.networkSystem",
        "AddVirtualNic" if new else "UpdateVirtualNic",
        {"portgroup" if new else "device": "" if new else spot.device, "nic": nic_spec(spot, wanted)},
        f"{what}: {', '.join(w for w in words if w)}",
        # the host leaves the storage cluster while its adapter for vSAN changes
        needs_maintenance="vsan" in spot.services,
    )


def service_steps(change: Change, spot: Spot, wanted: VmkernelAdapter, now: VmkernelAdapter) -> Iterator[Step]:
    """Yield the calls that select an adapter for a kind of traffic, or no longer."""
    have = set(now.services or ())
    want = have if wanted.services is None else set(wanted.services)
    for service in sorted(have ^ want):
        selected = service in want
        yield invoke(
            change,
            "configManager.virtualNicManager",
            "SelectVnicForNicType" if selected else "DeselectVnicForNicType",
            {"nicType": service, "device": spot.device},
            f"{'let' if selected else 'no longer let'} the adapter on {spot.name} carry {service}",
            needs_maintenance="vsan" in (service, *spot.services),
        )


def beside_moves(
    steps: list[Step], wanted: VmkernelAdapter, now: VmkernelAdapter, hosts: tuple[Facts, Facts]
) -> Iterator[Step]:
    """Yield the steps of an adapter with their place beside moves of VMs; `hosts` is the host now and afterwards.

    What makes or moves the way of vMotion comes before them. What takes the last one away comes after them.
    """
    have, want = now.services or (), now.services if wanted.services is None else wanted.services
    if VMOTION not in (*have, *(want or ())):
        yield from steps
        return
    last = bool(carries_vmotion(hosts[0])) and carries_vmotion(hosts[1]) is False
    yield from (replace(step, comes_first=not last, comes_last=last) for step in steps)
