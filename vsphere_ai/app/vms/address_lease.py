"""Leases of a playbook's sets from pools of programs: asked for before planning, and kept in the ledger."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from vsphere_ai.addresses.conflicts import find_conflicts
from vsphere_ai.addresses.leasing import lease, wanted_keys
from vsphere_ai.app.estate.address_reading import read_evidence, read_recorded
from vsphere_ai.app.estate.read_estate import read_with
from vsphere_ai.app.estate.references import load
from vsphere_ai.app.estate.scope import EstateRequest
from vsphere_ai.app.estate.session import open_session
from vsphere_ai.app.events import Emit, Status, ignore
from vsphere_ai.app.runs.address_programs import with_answers_of_programs
from vsphere_ai.app.vms.address_changes import locked, store
from vsphere_ai.errors import Refused
from vsphere_ai.language.inventories.selection import groups_of
from vsphere_ai.reading.collector import Depth
from vsphere_ai.sets.lay_out import placed_in
from vsphere_ai.sets.leases import requests_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from vsphere_ai.addresses.request import Lease


@dataclass(frozen=True)
class LeaseRequest:
    """A playbook that makes VMs, and its estate."""

    playbook: Path
    estate: EstateRequest = field(default_factory=EstateRequest)


@dataclass(frozen=True)
class LeaseResult:
    """Leases that programs gave, and whether the ledger has them now."""

    vcenter: str
    leases: tuple[Lease, ...] = ()
    changed: bool = False


def lease_addresses(request: LeaseRequest, confirm: Callable[[str], bool], emit: Emit = ignore) -> LeaseResult:
    """Ask programs for the addresses that a playbook's sets lack, and keep them; the same again changes nothing.

    `Refused` when a set cannot have addresses for another reason, or when one of them is in use.
    """
    playbook = load(request.playbook, request.estate, emit)
    with (
        open_session(request.estate, playbook, emit) as session,
        locked(session.scope, session.connection, "ipam lease") as hold,
    ):
        found = read_recorded(session.scope, session.connection)
        estate = read_with(session, lambda _: Depth())
        placed = placed_in(session.scope.set_plays(playbook), estate)
        wanted = requests_of(placed, estate, partial(groups_of, session.scope.inventory))
        keys = wanted_keys(found.ledger, found.terms, wanted)
        emit(Status(""))
        count = sum(map(len, keys.values()))
        if not count or not confirm(f"ask for {count} addresses of {', '.join(sorted(keys))}"):
            return LeaseResult(session.connection.vcenter.name)
        terms = with_answers_of_programs(session.scope, found, wanted)
        given = lease(found.ledger, terms, wanted)
        problems = given.problems or find_conflicts(
            given.new, read_evidence(session.scope, session.connection).in_use, terms.pools
        )
        if problems:
            raise Refused("\n".join(e.message for e in problems), problems[0].help, rule=problems[0].rule)
        own = tuple(each for each in given.new if each.pool in keys)
        store(hold, found, given.ledger)
        return LeaseResult(session.connection.vcenter.name, own, True)
