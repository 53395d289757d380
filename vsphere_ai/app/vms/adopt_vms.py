"""Adoption: VMs that were made without a set become VMs of it; nothing of them changes but their mark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from vsphere_ai.app.estate.references import load
from vsphere_ai.app.events import Emit, ignore
from vsphere_ai.app.events.results import RunResult
from vsphere_ai.app.runs.apply_plan import apply_playbook
from vsphere_ai.app.vms.replace_members import MembersRequest, require_members
from vsphere_ai.language.inventories import patterns
from vsphere_ai.language.playbooks.play import Playbook
from vsphere_ai.resources.makes_vms import MakesVms


@dataclass(frozen=True)
class AdoptRequest(MembersRequest):
    """Which VMs to adopt into the sets of the playbook. `dry_run` plans, and changes nothing."""

    dry_run: bool = False


def adopt(request: AdoptRequest, emit: Emit = ignore) -> RunResult:
    """Write the marks of sets into VMs, and the leases of the addresses that they have; what differs is not changed.

    What `apply` raises; `UsageError` for a VM that no play of the playbook names.
    """
    playbook = _adopting(load(request.playbook, request.estate, emit), request.vms)
    given = request.to_apply("adopt {vms} into {playbook}")
    if request.dry_run:
        given = replace(given, yes=False, confirm=lambda _: False, dry_run=True)
    return apply_playbook(playbook, given, emit)


def _adopting(playbook: Playbook, names: Sequence[str]) -> Playbook:
    """Return a playbook that only makes VMs of its names members of its sets."""
    plays = []
    for play in playbook.plays:
        states = tuple(s for s in play.states if isinstance(s.state, MakesVms))
        own = set(patterns.members(play.pattern).values()) if states else set()
        if adopts := tuple(name for name in names if name in own):
            plays.append(replace(play, states=states, adopts=adopts))
    require_members(playbook, names)
    return replace(playbook, path=f"adopt into {playbook.path}", plays=tuple(plays), outputs=())
