"""Budget of one run: which of its hosts count in the budget that it shares with other runs."""

from __future__ import annotations

from vsphere_ai.errors import NoRoom
from vsphere_ai.execution.host_budget import HostBudget
from vsphere_ai.execution.run_state import RunState
from vsphere_ai.model.records.pending import Record

OUT = ("maintenance", "reboot")
"""Pending actions of a host that is out of service."""


class RunBudget:
    """Takes a host before it goes out of service, and gives it back once it is in service; used by one thread."""

    def __init__(self, budget: HostBudget, run: str) -> None:
        self._budget, self._run = budget, run
        self._taken: set[str] = set()
        self._kept: set[str] = set()  # taken for steps that have not begun: their clusters are being read

    def begin(self, record: Record) -> None:
        """Count the hosts that an earlier attempt has left out of service."""
        for ref in _out(record):
            self._budget.take(self._run, ref, force=True)
            self._taken.add(ref)

    def take(self, step: str, state: RunState) -> bool:
        """Return whether a step may start; a host that it takes out of service counts from now on."""
        host = state.rollout.entries.get(step)
        if host is None or host.ref in self._taken:
            return True
        if not self._budget.take(self._run, host.ref):
            return False
        self._taken.add(host.ref)
        self._kept.add(host.ref)
        return True

    def give(self, step: str, state: RunState) -> None:
        """Count the host of a step no more, as the step is not started now; not where it has begun already."""
        host = state.rollout.entries.get(step)
        if host is not None and host not in state.in_maintenance():
            self._give(host.ref)

    def settle(self, record: Record, state: RunState, ended: str = "") -> None:
        """Count no more what is in service again, after a step has ended; without a host there is nothing to do."""
        host = state.rollout.entries.get(ended)
        if host is not None:  # from now on it counts for as long as it is out of service
            self._kept.discard(host.ref)
        if not self._taken:
            return
        still = {*_out(record), *self._kept, *(host.ref for host in (*state.in_maintenance(), *state.down()))}
        for ref in sorted(self._taken - still):
            self._give(ref)

    def refusal(self) -> NoRoom | None:
        """Return why no further host is ever started; to be called when nothing of the run is in flight."""
        self._budget.idle(self._run, idle=True)
        why = self._budget.refusal()
        if not why:
            return None
        return NoRoom(f"no further host is started: {why}", "bring these hosts back into service, then use resume")

    def end(self, record: Record, state: RunState) -> None:
        """Note that the run has ended: hosts that are still out of service stay so."""
        self._kept.clear()
        self.settle(record, state)
        self._budget.idle(self._run, idle=True)

    def _give(self, ref: str) -> None:
        self._taken.discard(ref)
        self._kept.discard(ref)
        self._budget.give(self._run, ref)


def _out(record: Record) -> set[str]:
    return {p.target.ref for p in record.pending() if p.kind in OUT}
