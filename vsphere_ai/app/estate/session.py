"""Session: the scope of a command, its connection, and what a playbook sets there of each target."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from vsphere_ai.app.estate.connection import EstateConnection
from vsphere_ai.app.estate.desired_states import DesiredStates
from vsphere_ai.app.estate.scope import EstateRequest, EstateScope, require_no_values, scope_of
from vsphere_ai.app.events import Emit, Remark, SessionOpened, ignore
from vsphere_ai.errors import UsageError
from vsphere_ai.language.inventories.inventory import Inventory, find_inventory
from vsphere_ai.language.inventories.selection import groups_of
from vsphere_ai.language.playbooks.play import Desired, Playbook
from vsphere_ai.model.facts import Estate
from vsphere_ai.model.names.suggestion import suggest
from vsphere_ai.model.state import Target
from vsphere_ai.reading import requirements
from vsphere_ai.reading.host_calls import QUERY, is_call, should_query
from vsphere_ai.resources.makes_vms import OUTLINES, SERVICES
from vsphere_ai.sets.set_plays import LaidOut, makes_vms

if TYPE_CHECKING:
    from vsphere_ai.reading.collector import CollectorRequest, Depth
    from vsphere_ai.sets.leases import LeaseLedger


class Session:
    """One vCenter and one playbook (or none): what was asked, what is open, and what is desired of it.

    As a context manager it closes its connection.
    """

    def __init__(self, scope: EstateScope, connection: EstateConnection) -> None:
        self._scope, self._connection = scope, connection
        self._states: DesiredStates | None = None

    @property
    def scope(self) -> EstateScope:
        """What was asked for."""
        return self._scope

    @property
    def connection(self) -> EstateConnection:
        """What is open."""
        return self._connection

    def again(self, playbook: Playbook | None = None) -> Session:
        """Return a session for another reading, of the same playbook or another one, over the same connection.

        `UsageError` where a playbook is about another vCenter. Only the session that was opened first is closed.
        """
        scope = scope_of(self.scope.inventory, playbook or self.scope.playbook, self.scope.options)
        if scope.settings != self.scope.settings:
            name, mine = scope.settings.name, self.scope.settings.name
            raise UsageError(f"{playbook and playbook.path} is about {name}, not {mine}", "give --vcenter NAME")
        return Session(scope, self.connection)

    def reading_also(self, paths: Mapping[str, tuple[str, ...]]) -> Session:
        """Return a session over the same connection that reads these property paths, too, by managed type."""
        return Session(replace(self.scope, more_paths=paths), self.connection)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self.connection.end(error)

    def desired(self, playbook: Playbook, estate: Estate) -> Desired:
        """Return what the playbook sets of each target, narrowed by `--limit`."""
        return self._states_of(playbook, estate).own

    def _states_of(self, playbook: Playbook, estate: Estate) -> DesiredStates:
        """Return what is desired; derived anew where the last estate that was asked about lists other objects."""
        known = self._states
        if known is None or not known.holds_for(playbook, estate):
            every = self.scope.desired(playbook, estate)
            own = Desired({t: every[t] for t in self.scope.limited(estate, tuple(every))})
            known = self._states = DesiredStates(playbook, estate, every, own)
        return known

    def split(self, playbook: Playbook, estate: Estate) -> Playbook:
        """Return a playbook whose plays have one value of each variable: those whose hosts have several are parts.

        Its variables are those that count for what `--limit` and `--kind` leave.
        """
        only = self.desired(playbook, estate) if playbook.variables or playbook.varying else None
        parts = self.scope.split(playbook, estate, only)
        for line in self.scope.unknown_hosts(playbook, estate):
            self.connection.emit(Remark("variable.no-host", line))
        return parts

    def left_out(self, playbook: Playbook, estate: Estate) -> frozenset[Target]:
        """Return the playbook's targets that `--limit` leaves out."""
        if not self.scope.options.limit:
            return frozenset()
        states = self._states_of(playbook, estate)
        return frozenset(states.every) - frozenset(states.own)

    def require_targets(self, playbook: Playbook, estate: Estate) -> None:
        """Refuse a `--limit` that leaves none of the playbook's targets: nothing to do would say nothing of them."""
        states = self._states_of(playbook, estate)
        if not states.own and (every := states.every):
            text = f"--limit: '{self.scope.options.limit}' leaves none of the targets of {playbook.path}"
            raise UsageError(text, suggest("", (t.name for t in every), "its targets"), rule="usage.limit")

    def laid_out(self, playbook: Playbook | None, estate: Estate, *, addresses: bool = True) -> LaidOut:
        """Return an estate with the VMs of the playbook's sets, those to be made included; `addresses`: with theirs."""
        plays = self.scope.set_plays(playbook)
        if not plays:
            return LaidOut(estate)
        from vsphere_ai.sets.lay_out import expand_sets

        return expand_sets(plays, estate, self._book if addresses else None)

    def placed(self, playbook: Playbook, estate: Estate, approved_hosts: Mapping[str, str]) -> Estate:
        """Return an estate that was read for a playbook, in which new VMs of sets are on hosts with room for them.

        `approved_hosts`: reference of a VM that a run is to make -> name of its host, where that run goes on.
        """
        plays = self.scope.set_plays(playbook)
        if not plays:
            return estate
        from vsphere_ai.sets.host_choice import with_hosts
        from vsphere_ai.sets.lay_out import addressed_again
        from vsphere_ai.sets.leaves import leaves_of
        from vsphere_ai.sets.rules import with_faults

        states, inventory = self._states_of(playbook, estate), self.scope.inventory
        leaves = leaves_of(inventory, estate)
        moved = with_hosts(plays, states.own, with_faults(plays, estate), approved_hosts, leaves)
        if moved is not estate and any(pool.affinity.hosts for pool in inventory.pools.values()):
            moved = addressed_again(plays, moved, self._book)
        self._states = replace(states, estate=moved)  # what is wanted of a VM does not depend on its host
        return moved

    @cached_property
    def _book(self) -> LeaseLedger:
        """The leases of addresses as vCenter keeps them, read once."""
        from vsphere_ai.addresses.request import PoolSettings
        from vsphere_ai.app.estate.address_ip_pools import read_ip_pools
        from vsphere_ai.connect.address_ledger import read_text
        from vsphere_ai.sets.leases import LeaseLedger

        inventory, vcenter = self.scope.inventory, self.connection.vcenter
        terms = PoolSettings(inventory.pools, int(time.time()), inventory.reserved)
        pools = inventory.pools.values()
        groups = partial(groups_of, inventory) if any(p.affinity.vms or p.affinity.hosts for p in pools) else None
        ip_pools = tuple(read_ip_pools(vcenter, self.connection.emit))
        return LeaseLedger(read_text(vcenter).text, terms, ip_pools, groups)

    def request(self, choose: Callable[[Estate], Depth]) -> CollectorRequest:
        """Return a request to read what all kinds ask for, as deeply as `choose` says."""
        from vsphere_ai.reading.collector import CollectorRequest

        scope, connection = self.scope, self.connection
        making, locks = makes_vms(scope.playbook), connection.locks
        more = requirements.with_stated(scope.playbook, scope.more_paths)
        stated = requirements.stated_queries(scope.playbook)
        always = frozenset((*filter(is_call, more.get("HostSystem", ())), *(f"{QUERY}{q.name}" for q in stated)))
        return CollectorRequest(
            paths=requirements.wanted_paths(more, makes_vms=making),
            choose=choose,
            outlines=OUTLINES if making else {},
            services=SERVICES if making else {},
            probes=requirements.probes(),
            queries=(*requirements.queries(), *stated),
            worth=lambda host, call: call in always or should_query(host, call),
            always=always,
            start_ssh=scope.may_start_ssh,
            parallel=scope.options.parallel,
            progress=connection.progress,
            seen=locks.respect if locks else None,
            shared_note=connection.reading_record.noted if locks else None,
            remembered=connection.remembered,
        )


def open_session(estate: EstateRequest, playbook: Playbook | None = None, emit: Emit = ignore) -> Session:
    """Return a session with the vCenter of a playbook, or the one that is asked for; it logs in when it first reads.

    Use it as a context manager: that logs out. `UsageError` when there is no inventory, or no such vCenter in it.
    """
    if playbook is None:
        require_no_values(estate)
    session = session_of(find_inventory(estate.inventory), playbook, estate, emit)
    emit(SessionOpened(session.connection.close, session.scope.inventory.notify_request))
    return session


def session_of(inventory: Inventory, playbook: Playbook | None, options: EstateRequest, emit: Emit = ignore) -> Session:
    """Return a session with a vCenter of an inventory that was read already."""
    scope = scope_of(inventory, playbook, options)
    return Session(scope, EstateConnection(scope, emit))
