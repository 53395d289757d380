"""Coordinator of a fleet: leases, journals, sessions, budget and outcomes of shards that workers carry out."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from vsphere_ai.documents.fleets import Shard, ShardOutcome
from vsphere_ai.documents.leases import LeaseRecord
from vsphere_ai.errors import REPORT_IT, Locked, Storage, UsageError
from vsphere_ai.execution.host_budget import HostBudget
from vsphere_ai.fleet.lease import CoordinatorLease, LeaseTimings
from vsphere_ai.fleet.rpc import Answer, Values
from vsphere_ai.fleet.run import FleetStop
from vsphere_ai.fleet.shard import outcome_of
from vsphere_ai.fleet.wire import event_of, outcome_of_values, outcome_values
from vsphere_ai.runs import lease_record as fleet_record
from vsphere_ai.runs.journal import runs_dir
from vsphere_ai.runs.replica import Replica

ENDS = ("outcome", "release")
"""What may be said again after it has ended a lease, because the answer was lost."""
ASKING = 2.0
"""Seconds; a worker that waits for a lease asks every second."""


@dataclass
class ShardState:
    """What the coordinator knows of one shard. `settled` is its outcome, reported or given up."""

    shard: Shard
    lease: CoordinatorLease
    record: LeaseRecord
    replica: Replica
    lock: threading.Lock = field(default_factory=threading.Lock)
    settled: ShardOutcome | None = None
    worker: str = ""
    asked: float = float("-inf")
    """When a worker asked for it last."""
    last: int = -1
    """Number of the write of this epoch that was taken last: one that is sent again is not taken twice."""


class Coordinator:
    """Answers workers, also that all shards are to stop."""

    def __init__(
        self, shards: Sequence[Shard], terms: LeaseTimings, stop: FleetStop, budget: HostBudget | None = None
    ) -> None:
        self.terms, self.stop, self._budget = terms, stop, budget
        self._events: deque[tuple[str, object]] = deque()
        self.changed = threading.Condition()
        """Notified when a shard is settled."""
        self._cares = {shard.run: self._care(shard) for shard in shards}

    def _care(self, shard: Shard) -> ShardState:
        record = fleet_record.read(shard.run)
        lease = CoordinatorLease(self.terms, record.epoch)
        if record.held:  # by a worker of an earlier coordinator, which may have renewed it just before that ended
            lease.until = time.monotonic() + max(record.lease, self.terms.lease)
        return ShardState(shard, lease, record, Replica(runs_dir() / f"{shard.run}.db"))

    def care(self, run: str) -> ShardState:
        """Return what is known of the shard of a run; `UsageError` for a run of another fleet."""
        if run not in self._cares:
            raise UsageError(f"run {run} is not of this fleet run", "it may have ended: vsphere-ai fleet status")
        return self._cares[run]

    def settle(self, run: str, outcome: ShardOutcome) -> None:
        """Note how a shard stands, finally for this coordinator: no further lease is granted for it."""
        with self.changed:
            care = self.care(run)
            care.settled = care.settled or outcome
            self.changed.notify_all()

    def give_up(self, run: str, outcome: ShardOutcome) -> bool:
        """Settle a shard on which no worker works; False where one does by now."""
        with self.care(run).lock:
            if self.is_held(run):
                return False
            self.settle(run, outcome)
            return True

    def is_held(self, run: str) -> bool:
        """Return whether a worker may work on a run now."""
        return self.wait(run) > 0

    def wait(self, run: str) -> float:
        """Return for how many seconds a worker may still work on a run, if it does not renew its lease."""
        return self.care(run).lease.wait(time.monotonic())

    def is_wanted(self, run: str) -> bool:
        """Return whether a worker has asked for a run just now: it is going to have it."""
        return time.monotonic() - self.care(run).asked < ASKING

    def lost_by(self, run: str) -> str:
        """Return the worker that had a lease last and has not given it back; "" where there is none."""
        care = self.care(run)
        return care.worker if care.lease.until is not None else ""

    def settled(self) -> tuple[ShardOutcome, ...]:
        """Return the outcomes that are known."""
        return tuple(c.settled for c in self._cares.values() if c.settled is not None)

    def events(self) -> Iterator[tuple[str, object]]:
        """Yield what the workers have said, with their vCenters: to be shown where no lease waits for a screen."""
        while self._events:
            yield self._events.popleft()

    def answer(self, op: str, values: Values, blob: bytes) -> Answer:
        """Answer one message of a worker; raises what is to be its answer."""
        care = self.care(str(values.get("run")))
        if op == "acquire":
            with care.lock:
                return self._acquire(care, str(values.get("worker", "")))
        epoch = values.get("epoch")
        with care.lock:
            # each answer counts as a renewal over there
            alive = isinstance(epoch, int) and care.lease.renew(epoch, time.monotonic())
            if not alive and not (op in ENDS and epoch == care.lease.epoch):
                now = f"epoch {care.lease.epoch}, by {care.worker or 'this machine'}"
                text = f"run {care.shard.run} is carried out in {now}: epoch {epoch} is over"
                raise Storage(text, "nothing: the other worker finishes it", rule="fleet.fenced")
            return self._of_holder(op, care, values, blob), b""

    def _of_holder(self, op: str, care: ShardState, values: Values, blob: bytes) -> Values:
        match op:
            case "renew":
                self._keep(care, values.get("events"))
                return {"stop": self.stop.ordered, "why": self.stop.why}
            case "begin" | "add":
                self._write(op, care, values, blob)
            case "login":
                self._note_login(care, str(values.get("key", "")))
            case "ended":
                kept = (s for s in care.record.sessions if s[0] >= care.lease.epoch)
                care.record.sessions = tuple(kept)
                fleet_record.write(care.record)
            case "budget":
                return {"found": self._ask_budget(care.shard.run, values)}
            case "outcome" | "release":
                self._keep(care, values.get("events"))
                self._end(care, values.get("outcome"))
            case _:
                raise UsageError(f"'{op}' is not known here", "use the same version of vsphere-ai everywhere")
        return {}

    def _acquire(self, care: ShardState, worker: str) -> Answer:
        stored = care.settled or outcome_of(care.shard)
        if stored.over and care.settled is None:
            self.settle(care.shard.run, stored)
        if care.settled is not None:
            return {"outcome": outcome_values(stored)}, b""
        if self.stop.ordered:
            return {"stop": self.stop.ordered}, b""
        now = care.asked = time.monotonic()
        wait = care.lease.wait(now)
        if wait:
            return {"wait": wait}, b""
        record = care.record
        record.epoch, record.held, record.lease = care.lease.epoch + 1, True, self.terms.lease
        fleet_record.write(record)  # before it is granted: no epoch is given twice, whatever becomes of this process
        epoch = care.lease.grant(now)
        care.worker, care.last = worker, -1
        found: dict[str, JsonValue] = {"epoch": epoch, "lease": self.terms.lease, "margin": self.terms.margin}
        found |= {"sessions": list(record.before(epoch)), "budget": self._budget is not None}
        found |= {"plan": dict(care.shard.plan)}  # it does not take the way over the scheduler
        return found, care.replica.content()

    def _keep(self, care: ShardState, events: JsonValue) -> None:
        found = events if isinstance(events, list) else []
        self._events.extend((care.shard.vcenter, event_of(each)) for each in found)

    def _write(self, op: str, care: ShardState, values: Values, blob: bytes) -> None:
        number = values.get("number")
        if not isinstance(number, int) or number > care.last + 1:
            raise Storage(f"write {number} of run {care.shard.run} came before the one it follows", REPORT_IT)
        if number <= care.last:
            return  # it was taken, and the answer was lost
        if op == "begin":
            care.replica.begin(blob)
        else:
            changes = values.get("changes")
            care.replica.add([(str(c[0]), c[1]) for c in changes] if isinstance(changes, list) else [])  # type: ignore[index, misc]
        care.last = number

    def _note_login(self, care: ShardState, key: str) -> None:
        if key:
            care.record.sessions = (*care.record.sessions, (care.lease.epoch, key))
            fleet_record.write(care.record)

    def _ask_budget(self, run: str, values: Values) -> JsonValue:
        budget, host, flag = self._budget, str(values.get("host", "")), bool(values.get("flag"))
        if budget is None:
            raise Locked(f"run {run} has no budget of hosts", "use the same version of vsphere-ai everywhere")
        match values.get("what"):
            case "take":
                return budget.take(run, host, force=flag)
            case "give":
                budget.give(run, host)
            case "idle":
                budget.idle(run, idle=flag)
            case _:
                return budget.refusal()
        return True

    def _end(self, care: ShardState, outcome: JsonValue) -> None:
        """End a lease; without an outcome another worker goes on."""
        care.record.held = False
        fleet_record.write(care.record)
        care.lease.release(care.lease.epoch)
        if outcome is not None:
            self.settle(care.shard.run, outcome_of_values(outcome))
