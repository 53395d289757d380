"""Leases of addresses: written under the lock in vCenter, where they are as they were at planning."""

from __future__ import annotations

import hashlib
import time
from dataclasses import replace

from vsphere_ai.addresses.holding import Ledger
from vsphere_ai.addresses.ledger_text import ledger_text, read_ledger
from vsphere_ai.errors import Conflict, Locked
from vsphere_ai.execution.actions.context import Context
from vsphere_ai.model.steps import WriteLeases

NOW = -1
"""Time of a release in a plan: when it is written."""


def write(context: Context, step: WriteLeases) -> None:
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
    context.give_back(read_ledger(stored.text), read_ledger(step.text))
    address_ledger.write_text(lock, stored, ledger_text(_at(read_ledger(step.text), int(time.time()))))


def is_written(context: Context, step: WriteLeases) -> bool:
    """Read whether the ledger is as a step leaves it."""
    from vsphere_ai.connect import address_ledger

    return _is(address_ledger.read_text(context.vcenter).text, step)


def _is(text: str, step: WriteLeases) -> bool:
    """Compare without the times of releases: an earlier attempt wrote its own."""
    return _at(read_ledger(text), NOW).holdings == _at(read_ledger(step.text), NOW, every=True).holdings


def _at(ledger: Ledger, moment: int, *, every: bool = False) -> Ledger:
    """Return a ledger in which what is released now is released at a moment; with NOW, whenever it was released."""
    whole = every or moment == NOW
    holdings = {
        nic: replace(h, released=tuple(replace(r, at=moment) if whole or r.at == NOW else r for r in h.released))
        for nic, h in ledger.holdings.items()
    }
    return replace(ledger, holdings=holdings)
