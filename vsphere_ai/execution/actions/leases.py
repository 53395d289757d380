"""Leases of addresses: written under the lock in vCenter, where they are as they were at planning."""

from __future__ import annotations

import hashlib
import time
from dataclasses import replace

from vsphere_ai.addresses.holding import AddressLedger, Holding
from vsphere_ai.addresses.ledger_text import ledger_text, read_ledger
from vsphere_ai.errors import Conflict, Locked
from vsphere_ai.execution.actions.context import Context, Say
from vsphere_ai.execution.running_clones import running_clones
from vsphere_ai.model.steps import WriteLeases
from vsphere_ai.model.vm_sets import GENERATIONS, instance_uuid

NOW = -1
"""Time of a release in a plan: when it is written."""
LONGEST_CLONE = 1800.0
"""Seconds that clones under way are waited for before addresses are released."""
_UUID = "config.instanceUuid"


def write(context: Context, step: WriteLeases, say: Say) -> None:
    """Write the ledger and read it back; `Conflict` where it was changed since planning."""
    from vsphere_ai.connect import address_ledger

    stored = address_ledger.read_text(context.vcenter)
    if _is(stored.text, step):
        return
    if hashlib.sha256(stored.text.encode()).hexdigest() != step.before:
        words = "the leases of addresses were changed by another run since planning"
        raise Conflict(f"{words}; nothing was leased", "plan again", rule="leases.changed")
    lock = context.lock()
    if lock is None:
        raise Locked("leases are only written under the lock in vCenter", "apply with --lock vcenter", rule="lock.none")
    _require_gone(context, read_ledger(stored.text), read_ledger(step.text), say)
    context.give_back(read_ledger(stored.text), read_ledger(step.text))
    address_ledger.write_text(lock, stored, ledger_text(_at(read_ledger(step.text), int(time.time()))))


def _require_gone(context: Context, before: AddressLedger, after: AddressLedger, say: Say) -> None:
    """Raise `Conflict` where a VM is there, or may yet come, whose addresses are to be released.

    A run that was killed may have left a clone under way, and no plan sees a VM before its clone has ended.
    """
    vcenter = context.vcenter.about.instance
    members = {
        instance_uuid(vcenter, nic.set, index, generation): f"number {index} of the set {nic.set}"
        for nic, holding in before.holdings.items()
        for index in range(after.holdings.get(nic, Holding()).count + 1, holding.count + 1)
        for generation in range(1, GENERATIONS + 1)
    }
    if not members:
        return
    for waited in context.looking(LONGEST_CLONE, fastest=0.5, slowest=5.0):
        busy = sorted(running_clones(context.vcenter))
        if not busy:
            break
        say(f"{busy[0].partition(':')[2]} still makes a VM, {waited:.0f} of {LONGEST_CLONE:.0f} s")
    else:
        words = f"{busy[0].partition(':')[2]} still makes a VM, which may be one whose addresses are to be released"
        raise Conflict(f"{words}; nothing was released", "plan again once it has ended", rule="leases.in-use")
    there = context.vcenter.read({"VirtualMachine": ("name", _UUID)})
    found = [f"{f.name} ({members[f.get(_UUID)]})" for f in there.values() if f.get(_UUID) in members]
    if found:
        words = f"{', '.join(sorted(found)[:5])} came to be since planning, with addresses that were to be released"
        raise Conflict(f"{words}; nothing was released", "plan again", rule="leases.in-use")


def is_written(context: Context, step: WriteLeases) -> bool:
    """Read whether the ledger is as a step leaves it."""
    from vsphere_ai.connect import address_ledger

    return _is(address_ledger.read_text(context.vcenter).text, step)


def _is(text: str, step: WriteLeases) -> bool:
    """Compare without the times of releases: an earlier attempt wrote its own."""
    return _at(read_ledger(text), NOW).holdings == _at(read_ledger(step.text), NOW, every=True).holdings


def _at(ledger: AddressLedger, moment: int, *, every: bool = False) -> AddressLedger:
    """Return a ledger in which what is released now is released at a moment; with NOW, whenever it was released."""
    whole = every or moment == NOW
    holdings = {
        nic: replace(h, released=tuple(replace(r, at=moment) if whole or r.at == NOW else r for r in h.released))
        for nic, h in ledger.holdings.items()
    }
    return replace(ledger, holdings=holdings)
