"""Holder of a lease: the worker's side of one shard. Renews, publishes the journal, asks leave for logins and hosts."""

from __future__ import annotations

import signal
import threading
import time
from collections import deque
from collections.abc import Sequence

from pydantic import JsonValue

from vsphere_ai.app.events import Event
from vsphere_ai.errors import Storage, Unreachable, VsphereAiError
from vsphere_ai.fleet.lease import WorkerLease, clock
from vsphere_ai.fleet.rpc import Caller, Values
from vsphere_ai.fleet.run import FleetStop
from vsphere_ai.fleet.wire import cleaned, event_values
from vsphere_ai.runs.replica import Change

FENCED = "fleet.fenced"
PAUSE = 0.1
"""Seconds until the coordinator is asked again that did not answer."""
MOST_EVENTS = 5_000


class LeaseHolder:
    """Publisher of a journal, budget of hosts and gate of changes, for as long as a lease lasts.

    `stop` is called when the coordinator asks to stop, and when the lease is lost.
    """

    def __init__(self, caller: Caller, run: str, epoch: int, held: WorkerLease, stop: FleetStop) -> None:
        self._caller, self._run, self._epoch, self.held, self._request_stop = caller, run, epoch, held, stop
        self._events: deque[JsonValue] = deque(maxlen=MOST_EVENTS)
        self._number, self._fenced = 0, False
        self._writing, self._ended = threading.Lock(), threading.Event()
        self._renewing = threading.Thread(target=self._renew, name=f"lease-{run}", daemon=True)

    def __enter__(self) -> LeaseHolder:
        self._renewing.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._renewing.join()

    # -- for the run

    def emit(self, event: Event) -> None:
        """Have an event shown by the coordinator, with the next renewal."""
        values = event_values(event)
        if values is not None:
            self._events.append(cleaned(values))

    def begin(self, content: bytes) -> None:
        """Have the coordinator take a whole journal."""
        self._write("begin", {}, content)

    def add(self, changes: Sequence[Change]) -> None:
        """Have the coordinator take writes; they are on its disk when this returns."""
        rows: list[JsonValue] = [[name, [list(row) for row in each]] for name, each in changes]
        self._write("add", {"changes": rows})

    def _write(self, op: str, values: Values, blob: bytes = b"") -> None:
        with self._writing:
            self.ask(op, {**values, "number": self._number}, blob)
            self._number += 1

    def login(self, key: str) -> None:
        """Ask leave for a login (key ""), or note the session that came of it, so that it can be ended."""
        self.ask("login", {"key": key})

    def may_change(self) -> None:
        """Return when a change may be sent; raises `Storage` where it may not any more."""
        while not self.held.may_send(clock()):
            if self.held.over(clock()):
                raise self._lost()
            time.sleep(PAUSE / 4)

    def take(self, run: str, host: str, *, force: bool = False) -> bool:
        """Count a host as out of service; return whether it may go."""
        return bool(self._budget("take", host, flag=force))

    def give(self, run: str, host: str) -> None:
        """Count a host no more."""
        self._budget("give", host)

    def idle(self, run: str, *, idle: bool) -> None:
        """Note whether this run has nothing in flight."""
        self._budget("idle", flag=idle)

    def refusal(self) -> str:
        """Return why no run can ever get a host."""
        return str(self._budget("refusal") or "")

    def _budget(self, what: str, host: str = "", *, flag: bool = False) -> JsonValue:
        return self.ask("budget", {"what": what, "host": host, "flag": flag})["found"]

    def end(self, outcome: JsonValue) -> None:
        """Give the lease back, with the outcome of the shard, or None where another worker is to go on."""
        self.ask("outcome" if outcome is not None else "release", {"outcome": outcome, "events": self._taken()})

    # -- towards the coordinator

    def ask(self, op: str, values: Values, blob: bytes = b"") -> Values:
        """Ask until there is an answer, or the lease is lost: then, and where the answer is no, raise `Storage`."""
        while True:
            if self.held.over(clock()):
                raise self._lost()
            try:
                return self._asked(op, values, blob)
            except Unreachable:
                time.sleep(PAUSE)

    def _asked(self, op: str, values: Values, blob: bytes = b"") -> Values:
        asked = clock()
        within = max(PAUSE, self.held.asked + self.held.terms.lease - asked)
        try:
            found, _ = self._caller.call(op, {**values, "run": self._run, "epoch": self._epoch}, blob, within)
        except Unreachable:
            raise
        except VsphereAiError as error:
            if error.rule == FENCED:
                self._fenced = self.held.lost = True
                self._request_stop(signal.SIGTERM)
            raise Storage(error.message, error.remedy, rule=error.rule) from error
        self.held.renewed(asked)
        return found

    def _lost(self) -> Storage:
        why = (
            "another worker has it" if self._fenced else f"no word from the coordinator for {self.held.terms.lease:g} s"
        )
        text = f"run {self._run}: {why}, so nothing is sent"
        return Storage(text, "see: vsphere-ai fleet status, there", rule=FENCED if self._fenced else "fleet.lost")

    def _taken(self) -> list[JsonValue]:
        found = []
        while self._events:
            found.append(self._events.popleft())
        return found

    def _renew(self) -> None:
        """Renew until the end; a lease that is lost stops the run."""
        while not self._ended.wait(self.held.terms.every):
            events = self._taken()
            try:
                found = self._asked("renew", {"events": events})
            except Unreachable:
                self._events.extendleft(reversed(events))
                if not self.held.over(clock()):
                    continue
                self.held.lost = True
                self._request_stop(signal.SIGTERM)
                return
            except Storage:
                return
            stop = found.get("stop")
            if isinstance(stop, int) and stop:
                self._request_stop(stop, str(found.get("why", "")))
