"""Replacement of members of sets: destroyed and made again, with the same addresses, MAC addresses and number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from vsphere_ai.app.estate.references import load
from vsphere_ai.app.estate.scope import EstateRequest
from vsphere_ai.app.events import Emit, ignore
from vsphere_ai.app.events.results import RunResult
from vsphere_ai.app.runs.apply_plan import ApplyRequest, apply_playbook
from vsphere_ai.app.runs.approval import Confirm, no_confirmation
from vsphere_ai.app.vms.destroy_sets import forced
from vsphere_ai.errors import UsageError
from vsphere_ai.language.inventories import patterns
from vsphere_ai.language.playbooks.play import Play, Playbook
from vsphere_ai.model.names.suggestion import suggest
from vsphere_ai.resources.makes_vms import MakesVms
from vsphere_ai.runs.locks import Mode

NO_SETS = "it has no play with vm_set: that names VMs; vsphere-ai explain vm_set shows one"


@dataclass(frozen=True)
class MembersRequest:
    """Which VMs are meant, by their names in the ranges of a playbook that makes sets."""

    playbook: Path
    vms: tuple[str, ...]
    estate: EstateRequest = field(default_factory=EstateRequest)
    yes: bool = False
    confirm: Confirm = no_confirmation
    lock: Mode | None = None

    def to_apply(self, words: str, destroy: int | None = None) -> ApplyRequest:
        """Return the request to apply the playbook to these VMs only; `words` say what is done with them."""
        estate = replace(self.estate, limit=",".join(self.vms))
        title = words.format(vms=", ".join(self.vms), playbook=self.playbook)
        return ApplyRequest(self.playbook, estate, self.yes, self.confirm, self.lock, destroy=destroy, title=title)


@dataclass(frozen=True)
class ReplaceRequest(MembersRequest):
    """Which VMs to replace; the playbook says what is made in their place.

    `destroy` is the number of VMs, without which `yes` confirms nothing. `force` powers guests off that cannot be shut
    down; `dry_run` plans, and changes nothing.
    """

    destroy: int | None = None
    force: bool = False
    dry_run: bool = False


def replace_vms(request: ReplaceRequest, emit: Emit = ignore) -> RunResult:
    """Destroy VMs of sets and make them again, in one plan; nothing else of the playbook is carried out.

    What `apply` raises; `UsageError` for a VM that no play of the playbook makes.
    """
    playbook = _replacing(load(request.playbook, request.estate, emit), request.vms)
    given = replace(request.to_apply("replace {vms} of {playbook}", request.destroy), dry_run=request.dry_run)
    return apply_playbook(forced(playbook) if request.force else playbook, given, emit)


def _replacing(playbook: Playbook, names: tuple[str, ...]) -> Playbook:
    plays = tuple(_with_replaced(playbook, names))
    require_members(playbook, names)
    return replace(playbook, plays=plays)


def require_members(playbook: Playbook, names: Sequence[str]) -> None:
    """Refuse names of VMs that no range of a playbook has."""
    known = {name for play in playbook.plays if _makes_vms(play) for name in patterns.members(play.pattern).values()}
    unknown = [name for name in names if name not in known]
    if unknown:
        text = f"no play of {playbook.path} makes the VM '{unknown[0]}'"
        raise UsageError(text, suggest(unknown[0], known, "it makes") or NO_SETS, rule="usage.no-member")


def _makes_vms(play: Play) -> bool:
    return any(isinstance(s.state, MakesVms) for s in play.states)


def _with_replaced(playbook: Playbook, names: tuple[str, ...]) -> Iterator[Play]:
    for play in playbook.plays:
        if _makes_vms(play):
            own = set(patterns.members(play.pattern).values())
            yield replace(play, replaces={name: 0 for name in names if name in own})
        else:
            yield play
