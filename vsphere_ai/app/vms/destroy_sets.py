"""Destruction of sets: all VMs of a playbook's sets, or of one set by its name, with every safety of a plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import ValidationError

from vsphere_ai.addresses.holding import RESERVED
from vsphere_ai.addresses.ledger_text import read_ledger
from vsphere_ai.app.estate.references import load
from vsphere_ai.app.estate.scope import EstateRequest, require_no_values
from vsphere_ai.app.estate.session import open_session
from vsphere_ai.app.events import Emit, Remark, ignore
from vsphere_ai.app.events.results import RunResult
from vsphere_ai.app.runs.apply_plan import ApplyRequest, apply_playbook
from vsphere_ai.app.runs.approval import Confirm, no_confirmation
from vsphere_ai.connect.address_ledger import read_text
from vsphere_ai.errors import Mark, UsageError
from vsphere_ai.language.playbooks.play import Play, Playbook, Power, Stated
from vsphere_ai.model.names.suggestion import suggest
from vsphere_ai.model.vm_sets import mark_of
from vsphere_ai.resources import kinds
from vsphere_ai.resources.base import Resource
from vsphere_ai.resources.makes_vms import MakesVms
from vsphere_ai.runs.locks import Mode


@dataclass(frozen=True)
class DestroyRequest:
    """What to destroy: the file of a playbook, which means the VMs of its sets, or the name of a set.

    `destroy` is the number of VMs, without which `yes` confirms nothing. `force` powers guests off that cannot be shut
    down; `detach_disks` keeps disks that are not the VMs' own; `dry_run` plans, and changes nothing.
    """

    what: str
    estate: EstateRequest = field(default_factory=EstateRequest)
    yes: bool = False
    confirm: Confirm = no_confirmation
    lock: Mode | None = None
    destroy: int | None = None
    force: bool = False
    detach_disks: bool = False
    dry_run: bool = False


def destroy(request: DestroyRequest, emit: Emit = ignore) -> RunResult:
    """Destroy all members of sets, then release their addresses; other plays of a playbook are not carried out.

    What `apply` raises; `UsageError` for a playbook without sets, and for what is neither a file nor the name of a set.
    """
    path = Path(request.what)
    is_file = path.suffix != "" or path.exists()
    playbook = _without_members(load(path, request.estate, emit)) if is_file else _named(request)
    playbook = forced(playbook) if request.force else playbook
    if request.detach_disks:
        playbook = replace(playbook, plays=tuple(replace(play, detach_disks=True) for play in playbook.plays))
    given = ApplyRequest(path, request.estate, request.yes, request.confirm, request.lock)
    given = replace(given, destroy=request.destroy, title=playbook.path)
    if request.dry_run:
        given = replace(given, yes=False, confirm=lambda _: False, destroy=None, dry_run=True)
    result = apply_playbook(playbook, given, emit)
    if not (is_file or result.plan.steps or result.plan.items or request.estate.limit):
        _require_known(request, emit)
        emit(Remark("set.none", f"there is no VM of the set '{request.what}' any more"))
    return result


def _require_known(request: DestroyRequest, emit: Emit) -> None:
    """Refuse the name of a set that no VM carries in its mark, and that has no address, in quarantine or held."""
    with open_session(request.estate, None, emit) as session:
        vms = session.connection.vcenter.read({"VirtualMachine": ("config.extraConfig", "config.instanceUuid")})
        marks = [mark.set for facts in vms.values() if (mark := mark_of(facts)) is not None]
        held = [
            nic.set for nic in read_ledger(read_text(session.connection.vcenter).text).holdings if nic.set != RESERVED
        ]
    if request.what not in (*marks, *held):
        text = f"there is no set '{request.what}' in this vCenter"
        raise UsageError(text, suggest(request.what, {*marks, *held}, "it has"), rule="usage.no-set")


def forced(playbook: Playbook) -> Playbook:
    """Return a playbook whose plays may power VMs off the hard way."""
    plays = (replace(play, power=play.power.model_copy(update={"force": True})) for play in playbook.plays)
    return replace(playbook, plays=tuple(plays))


def _without_members(playbook: Playbook) -> Playbook:
    """Return a playbook that wants its sets to have no VM, and nothing else."""
    plays = tuple(_emptied(playbook))
    if not plays:
        text, help_ = f"no play of {playbook.path} makes VMs", "give a playbook with vm_set, or the name of a set"
        raise UsageError(text, help_, rule="usage.no-set")
    return replace(playbook, path=f"destroy {playbook.path}", plays=plays)


def _emptied(playbook: Playbook) -> Iterator[Play]:
    for play in playbook.plays:
        own = tuple(s for s in play.states if isinstance(s.state, MakesVms))
        if own:
            # no name is left of its pattern, and none is looked up
            yield replace(play, pattern=f"{EMPTY}:!{EMPTY}", states=own, targets=())


EMPTY = "none"


def _named(request: DestroyRequest) -> Playbook:
    """Return a playbook that wants a set to have no VM, of which only the name is known."""
    require_no_values(request.estate)
    kind = next(k for k in kinds().values() if issubclass(k, MakesVms) and issubclass(k, Resource))
    try:
        state = kind.named(request.what)
    except ValidationError:
        text = f"'{request.what}' is neither a file nor the name of a set"
        raise UsageError(text, "give the path of a playbook, or the name of a set", rule="usage.no-set") from None
    play = Play(
        name=f"set {request.what}",
        target="vm",
        pattern=f"{EMPTY}:!{EMPTY}",
        states=(Stated(state, Mark("")),),
        power=Power(),
        vcenter=request.estate.vcenter,
        targets=(),
    )
    return Playbook(f"destroy set {request.what}", "", (play,))
