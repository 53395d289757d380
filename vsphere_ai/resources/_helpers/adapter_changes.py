"""Changes of network adapters of a VM, and the order in which the guest has them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from vsphere_ai.model.view import View
from vsphere_ai.resources._helpers import ethernet
from vsphere_ai.resources._helpers.network_adapter import NetworkAdapter, device_of, edited, matched
from vsphere_ai.resources._helpers.vm_devices import device_change


def device_changes(
    devices: Iterable[Mapping[str, Any]], before: Iterable[NetworkAdapter], after: Sequence[NetworkAdapter], view: View
) -> tuple[list[Mapping[str, Any]], bool]:
    """Return the changes by device key, and whether the VM has to be off for them; `devices` are as they were read."""
    wanted = {n.device: n for n in after if n.device is not None}
    have = {n.device: n for n in before}
    changes: list[Mapping[str, Any]] = []
    cold = False
    for device in devices:
        key, nic = device["key"], wanted.get(device["key"])
        if nic is None:
            changes.append(device_change("remove", device))
            cold |= ethernet.type_of(device) in ethernet.COLD
        elif nic != have.get(key):
            changes.append(device_change("edit", edited(device, have[key], nic)))
            cold |= nic.type in ethernet.COLD or nic.mac != have[key].mac
    for nic in after:
        if nic.device is None:
            changes.append(device_change("add", device_of(nic, view)))
            cold |= nic.type in ethernet.COLD
    return changes, cold


def order_notes(view: View, listed: Sequence[NetworkAdapter], there: Sequence[NetworkAdapter]) -> Iterator[str]:
    """Say that a wanted order could only be had of new adapters."""
    places = [at for _, at in sorted(matched(listed, there).items())]
    if places != sorted(places):
        order = ", ".join(
            f"{t} on {ethernet.named(view.estate, p)}" for t, p in (there[i].identity for i in sorted(places))
        )
        yield (
            f"the guest has its adapters in the order {order}: vSphere gives a new one the next free place and "
            "moves none; only removing those that are too early changes it"
        )


def in_words(changes: Iterable[Mapping[str, object]]) -> str:
    """Return how many adapters are added, edited and removed."""
    count = Counter(c["operation"] for c in changes)
    return ", ".join(f"{verb} {count[verb]}" for verb in ("add", "edit", "remove") if count[verb]) or "reserve memory"
