"""Context of actions: a vCenter, shells, reading again; and the pauses between two reads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vsphere_ai.errors import Conflict
from vsphere_ai.execution.actions.in_flight import InFlight
from vsphere_ai.execution.actions.task_progress import Follow
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.plain import PlainObject
from vsphere_ai.model.records.pending import NoRecord, Record
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Step
from vsphere_ai.planning.planner import PlanItem
from vsphere_ai.planning.scheduling.health import HostBefore

if TYPE_CHECKING:
    from vsphere_ai.addresses.holding import AddressLedger
    from vsphere_ai.connect.secure_shell.esxi import EsxiSsh
    from vsphere_ai.connect.vcenter import VCenter
    from vsphere_ai.connect.vcenter_lock import VCenterLock
    from vsphere_ai.security.secret_ref import Secret

AWAY = ("HostCommunication", "HostNotReachable", "NetworkDisruptedAndConfigRolledBack")
"""Faults of calls that lost the host on their way."""
UNCERTAIN = (*AWAY, "SystemError")
"""Faults that do not show how far a call came."""
TASK_TIMEOUT = 1800
COMMAND_TIMEOUT = 120
Say = Callable[[str], None]
"""Takes a line of progress."""


LATE = 0.05
"""Share of the time waited that the pause until the next look is: what is awaited is seen no later than that."""
AWAKE = 0.5
"""Seconds of a pause, at most, once a run was stopped."""
TAKEN = ("maintenance", "off", "gate", "moved")
"""Pending actions of what is out of service."""


class Withdrawn(Exception):
    """The operator stopped the run, and a step was taken back: it has no effect, now or later."""


@dataclass(frozen=True)
class Context:
    """Everything that actions use.

    `left` reads a target again and returns what is still to change there; all of it, or all but what comes last.
    """

    vcenter: VCenter
    shell: Callable[[Target], EsxiSsh]
    left: Callable[[Target, bool], tuple[PlanItem, ...]]
    gpus: Mapping[str, int]
    """Host reference -> number of NVIDIA GPUs it had when planned."""
    hosts: Mapping[str, str]
    """VM reference -> reference of its host when planned."""
    stop: threading.Event = field(default_factory=threading.Event)
    """Set when the operator stops the run."""
    note: Record = field(default_factory=NoRecord)
    found: Mapping[str, HostBefore] = field(default_factory=dict)
    """Host reference -> what its health is measured by."""
    planned: Mapping[str, Facts] = field(default_factory=dict)
    """What was read of each object when this was planned."""
    notice: Say = lambda _line: None
    """Takes a line that an operator has to see even where progress is not shown."""
    again: Callable[[Target], tuple[Step, ...] | None] = lambda _target: None
    """Reads a target again and returns the steps that are left there; None when that cannot be known."""
    is_being_read: Callable[[Target], bool] = lambda _host: False
    """Whether another command of this machine has started a host's SSH, to read over it for a moment."""
    start_ssh: bool = True
    """Whether TSM-SSH may be started on a host; the inventory says."""
    ssh_user: str = ""
    """Who logs in to hosts; lockdown mode lets its exception users in."""
    passwords: Mapping[str, Secret] = field(default_factory=dict)
    """Reference to a password -> its hash, for the accounts of guests."""
    lock: Callable[[], VCenterLock | None] = lambda: None
    """Returns the lock in vCenter that the run holds; None where it holds none."""
    give_back: Callable[[AddressLedger, AddressLedger], None] = lambda _before, _after: None
    """Gives back to programs with addresses of their own what a ledger holds and a later one does not."""
    measure: Callable[[Say], None] = lambda _say: None
    """Runs the benchmark that a step waits for."""
    leave: Callable[[Target], None] = lambda _host: None
    """Closes the connection to a host's shell, if there is one."""
    in_flight: InFlight = field(default_factory=InFlight)
    """Tasks that are under way, of which vCenter may refuse some."""
    within: Callable[[str], AbstractContextManager[None]] = lambda _name: nullcontext()
    """Makes a step's name part of the requests it sends (see `VCenter.doing`)."""

    def looking(
        self, limit: float, *, fastest: float, slowest: float = 10.0, late: float = LATE, after: float = 0.0
    ) -> Iterator[float]:
        """Yield as `polling` does, for a wait that only looks; `Withdrawn` once the operator has stopped the run.

        It looks for `after` seconds more then: what is about to be seen need not be looked at again by a resumed run.
        """
        looked, stopped = False, 0.0
        for waited in polling(limit, fastest=fastest, slowest=slowest, late=late, wake=self.stop):
            if self.stop.is_set():
                stopped = stopped or time.monotonic()
                if looked and time.monotonic() - stopped >= after:
                    raise Withdrawn
            yield waited
            looked = True

    def is_taken(self, target: Target) -> bool:
        """Return whether a target is out of service because of this run, so that it has to be put back."""
        return any(p.target.ref == target.ref and p.kind in TAKEN for p in self.note.pending())

    def read(self, target: Target, *paths: str) -> Facts:
        """Read properties of one target; `Conflict` when it is gone."""
        managed = target.ref.partition(":")[0]
        found = self.vcenter.read_objects([target.ref], {managed: paths}).get(target.ref)
        if found is None:
            raise Conflict(f"{target.name} is gone from the inventory", "plan again", rule="object.gone")
        return found

    def in_maintenance(self, host: Target) -> bool:
        """Read whether a host is in maintenance mode."""
        return bool(self.read(host, "runtime.inMaintenanceMode").get("runtime.inMaintenanceMode"))

    def task(self, target: Target, method: str, args: PlainObject, say: Say, timeout: float = TASK_TIMEOUT) -> None:
        """Call a method of a target that returns a task, and wait for its end; it is never cancelled for being slow."""
        follow = Follow(f"{target.name}: {method.removesuffix('_Task')}", say, self.notice)
        with self.in_flight.one(self.notice):
            self.vcenter.run_task(target.ref, method, args, timeout=timeout, progress=follow)


def nap(wake: threading.Event, seconds: float) -> None:
    """Wait so many seconds, or until an event is set."""
    wake.wait(seconds)


def polling(
    limit: float, *, fastest: float, slowest: float = 10.0, late: float = LATE, wake: threading.Event | None = None
) -> Iterator[float]:
    """Yield the seconds waited, at least once, in growing pauses, the last time after `limit`.

    A pause is between `fastest` and `slowest`, and about `late` of what was waited so far. `wake` ends one early; the
    pauses after that are short.
    """
    started, pause = time.monotonic(), fastest
    while True:
        yield time.monotonic() - started
        left = limit - (time.monotonic() - started)
        if left < 0.001:  # what rounding leaves over is no time to wait for
            return
        if wake is None:
            time.sleep(min(pause, left))
        elif wake.is_set():
            time.sleep(min(fastest, AWAKE, left))
        else:
            nap(wake, min(pause, left))
        pause = min(slowest, pause * (1 + late))
