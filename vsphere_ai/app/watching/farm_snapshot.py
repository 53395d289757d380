"""Farm at a moment: hosts, VMs, GPUs, RDMA paths, and the drift from playbooks, read together."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from vsphere_ai.app.estate.read_estate import OF_PATHS, read_everything
from vsphere_ai.app.estate.scope import EstateRequest
from vsphere_ai.app.estate.session import Session
from vsphere_ai.app.gpus.gpu_capacity import Uses, uses_now
from vsphere_ai.app.runs.plan_playbook import make_plan
from vsphere_ai.app.runs.surroundings import world_of
from vsphere_ai.app.watching.live_cursor import is_lasting
from vsphere_ai.errors import Denied, VsphereAiError
from vsphere_ai.fabric.fixes import fixes_for
from vsphere_ai.fabric.trace import DEVICE, Trace, trace
from vsphere_ai.gpu.smi import live
from vsphere_ai.language.playbooks.play import Playbook
from vsphere_ai.model.facts import About, Estate
from vsphere_ai.model.view import View
from vsphere_ai.model.world import World
from vsphere_ai.planning.observing import evaluate_with, observe
from vsphere_ai.planning.planner import Plan
from vsphere_ai.resources import kinds


@dataclass(frozen=True)
class FarmRequest:
    """Which estate to read, and of which playbooks to compute the drift.

    Hosts are asked over SSH where `estate.ask_hosts` is set: for the MIG instances of their GPUs, and for what the
    playbooks need.
    """

    estate: EstateRequest = field(default_factory=lambda: EstateRequest(ask_hosts=False))
    playbooks: tuple[Path, ...] = ()


@dataclass(frozen=True)
class PlaybookDrift:
    """The plan that would bring an estate back to a playbook; None with why that is not known."""

    playbook: str
    plan: Plan | None = None
    error: str = ""
    lasting: bool = False

    @property
    def changes(self) -> int:
        """Number of fields that are not in the desired state."""
        return sum(max(1, len(item.fields)) for item in self.plan.changed()) if self.plan else 0


@dataclass(frozen=True)
class FarmSnapshot:
    """A farm as it was read: `taken` is the time since the epoch at which that ended, `seconds` how long it took.

    `lasting`: it holds for as long as vCenter reports no change. `whole` is since when (since the epoch) all of it was
    read, also what vCenter reports no changes of: 0 where that is `taken`.
    """

    world: World
    about: About
    estate: Estate
    gpus: Uses
    traces: tuple[Trace, ...]
    drift: tuple[PlaybookDrift, ...]
    taken: float
    seconds: float
    asked_hosts: bool
    lasting: bool = False
    whole: float = 0.0


def take_snapshot(session: Session, playbooks: Iterable[Playbook] = ()) -> FarmSnapshot:
    """Read a farm once, and once more for each playbook. Changes nothing.

    Read is what `show` reads; of hosts over SSH only the state of their GPUs, and what playbooks need. A playbook whose
    drift cannot be computed does not hide the others; `Denied` is raised.
    """
    began = time.monotonic()
    own = session.again()
    estate = read_everything(own, probes=live.STATE, calls=OF_PATHS)

    (gpus, traces), estate = evaluate_with(kinds(), estate, uses_and_paths)
    drift = tuple(_drift(session, playbook) for playbook in playbooks)
    seconds = time.monotonic() - began
    about, asked = own.connection.vcenter.about, own.connection.shells is not None
    lasting = is_lasting(estate) and all(each.lasting for each in drift)
    return FarmSnapshot(world_of(own.scope), about, estate, gpus, traces, drift, time.time(), seconds, asked, lasting)


def uses_and_paths(estate: Estate) -> tuple[Uses, tuple[Trace, ...]]:
    """Return what runs on the GPUs of all hosts, and the path of every PVRDMA adapter."""
    view = View(estate, observe(estate, kinds()))
    rdma = (vm for vm in estate.vms if _has_rdma(estate, vm.ref))
    traces = tuple(t for vm in rdma for t in trace(estate, vm, view.candidates(vm.ref)))
    return uses_now(estate), fixes_for(estate, traces).traces


def _has_rdma(estate: Estate, vm: str) -> bool:
    return any(d.get("_typeName") == DEVICE for d in estate[vm].get("config.hardware.device") or ())


def _drift(session: Session, playbook: Playbook) -> PlaybookDrift:
    name = str(playbook.path)
    try:
        plan, estate = make_plan(session.again(playbook), playbook)
        # addresses of sets are leased in more than properties
        return PlaybookDrift(name, plan, lasting=is_lasting(estate) and not session.scope.set_plays(playbook))
    except Denied:
        raise
    except VsphereAiError as error:
        return PlaybookDrift(name, error=error.message)
