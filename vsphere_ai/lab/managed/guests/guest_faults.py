"""Faults of guests: what a fault rule makes of the next boot of a VM."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.store import ManagedObject

STRANGER = "02:00:5e:00:53:01"
"""MAC address of the station that has an address already, where a fault says so."""
NEXT, NOW = "faults of the next boot", "faults of this boot"


@dataclass(frozen=True)
class GuestFault:
    """What is wrong in a boot; `released` is set when the rule is released."""

    value: str
    released: threading.Event


def befall(farm: Farm, names: Iterable[str], word: str, fault: GuestFault) -> None:
    """Let a fault befall the next boot of the VMs of these names."""
    wanted = set(names)
    with farm.store.lock:
        for vm in farm.store.of(vim.VirtualMachine):
            if vm["name"] in wanted:
                vm.extra.setdefault(NEXT, {})[word] = fault


def begin(mo: ManagedObject) -> Mapping[str, GuestFault]:
    """Return the faults of the boot that begins now; the next one has none of them."""
    found: dict[str, GuestFault] = mo.extra.pop(NEXT, {})
    mo.extra[NOW] = found
    return found


def of(mo: ManagedObject, word: str) -> GuestFault | None:
    """Return a fault of this boot, None where there is none."""
    found: GuestFault | None = mo.extra.get(NOW, {}).get(word)
    return found
