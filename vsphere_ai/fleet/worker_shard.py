"""Shard on a worker: under a lease of the coordinator, from the coordinator's copy of the journal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from pydantic import JsonValue

from vsphere_ai.app.events import Event, RunStarted
from vsphere_ai.connect.leave import may_change, watch_logins
from vsphere_ai.documents.fleets import Shard, ShardOutcome
from vsphere_ai.errors import Storage, Unreachable, VsphereAiError
from vsphere_ai.fleet.fence import fence
from vsphere_ai.fleet.holder import PAUSE, LeaseHolder
from vsphere_ai.fleet.lease import LeaseTimings, WorkerLease, clock
from vsphere_ai.fleet.rpc import Answer, Caller
from vsphere_ai.fleet.run import FleetStop
from vsphere_ai.fleet.shard import failed_outcome, open_or_resume
from vsphere_ai.fleet.takeover import adopt
from vsphere_ai.fleet.wire import cleaned, outcome_values
from vsphere_ai.runs import journal
from vsphere_ai.runs.replica import Replica, published

if TYPE_CHECKING:
    from vsphere_ai.fleet.site import Site

REACHED = 30.0
"""Seconds for which a coordinator is tried that does not answer at all."""


def carry_out_shard(site: Site, request: Mapping[str, JsonValue]) -> JsonValue:
    """Carry a shard out, or find that it is over, or not ours; the coordinator gets what comes of it."""
    values = request["shard"]
    shard = Shard.model_validate({**(values if isinstance(values, dict) else {}), "inventory": str(site.inventory)})
    host, port, token = (str(request[name]) for name in ("host", "port", "token"))
    caller = Caller((host, int(port)), token, site.context)
    with site.working(shard.run), closing(caller):
        asked, (found, content) = _acquired(caller, shard, site)
        plan = found.get("plan")
        if not isinstance(plan, dict):
            return "over"
        site.say(f"{shard.vcenter}: run {shard.run}, epoch {found['epoch']}")
        _under_lease(site, shard.model_copy(update={"plan": plan}), caller, (asked, (found, content)))
        return "reported"


def _acquired(caller: Caller, shard: Shard, site: Site) -> tuple[float, Answer]:
    """Ask for the lease until it is granted, or there is nothing to do; return when that was asked, and the answer."""
    reached = clock()
    while True:
        asked = clock()
        if site.stop.number:
            return asked, ({}, b"")
        try:
            answer = caller.call("acquire", {"run": shard.run, "worker": site.name}, within=REACHED)
            reached = asked
        except Unreachable:
            if asked - reached > REACHED:
                raise
            time.sleep(PAUSE)
            continue
        wait = answer[0].get("wait")
        if not isinstance(wait, int | float):
            return asked, answer
        time.sleep(min(float(wait), 1.0))


def _under_lease(site: Site, shard: Shard, caller: Caller, granted: tuple[float, Answer]) -> None:
    asked, (found, content) = granted
    held = WorkerLease(LeaseTimings(float(str(found["lease"])), float(str(found["margin"]))), asked)
    stop = FleetStop()
    site.stop.add(stop)
    with LeaseHolder(caller, shard.run, int(str(found["epoch"])), held, stop) as holder:
        outcome = _outcome(shard, (found, content), holder, _listener(holder, stop))
        # this worker is to end, and another one goes on
        ours = site.stop.number and not outcome.over
        try:
            holder.end(None if ours else cleaned(outcome_values(outcome)))
        except Storage as error:
            site.say(f"{shard.vcenter}: {error.message}")
        else:
            site.say(f"{shard.vcenter}: run {shard.run} {outcome.state}")
    site.stop.drop(stop)
    journal.remove(shard.run)  # the coordinator has it; what is here only would be taken for unfinished


def _listener(holder: LeaseHolder, stop: FleetStop) -> Callable[[Event], None]:
    def listen(event: Event) -> None:
        if isinstance(event, RunStarted):
            stop.add(event.stop)
        holder.emit(event)

    return listen


def _outcome(shard: Shard, grant: Answer, holder: LeaseHolder, listen: Callable[[Event], None]) -> ShardOutcome:
    found, content = grant
    keys = found["sessions"]
    earlier = [str(key) for key in keys] if isinstance(keys, list) else []
    try:
        with _guarded(holder), published(shard.run, holder):
            if earlier:  # who has not logged in has sent nothing, and has no lock there
                fence(shard, earlier)
                holder.ask("ended", {})
            _place(shard, content)
            return open_or_resume(shard, listen, holder if found.get("budget") else None)
    except VsphereAiError as error:
        return failed_outcome(shard, error)


@contextmanager
def _guarded(holder: LeaseHolder) -> Iterator[None]:
    """Have sessions that this thread begins ask the holder before logins and changes."""
    tokens = watch_logins.set(holder.login), may_change.set(holder.may_change)
    try:
        yield
    finally:
        watch_logins.reset(tokens[0])
        may_change.reset(tokens[1])


def _place(shard: Shard, content: bytes) -> None:
    """Put the coordinator's copy of the journal in place, as a run of this process: who had it before is fenced."""
    journal.remove(shard.run)
    if not content:
        return
    Replica(journal.runs_dir() / f"{shard.run}.db").begin(content)
    adopt(shard)
