"""Kinds that a command is limited to with `--kind`: a playbook without its other settings."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from vsphere_ai.app.events import Emit, Remark
from vsphere_ai.errors import UsageError
from vsphere_ai.language.playbooks.play import Play, Playbook
from vsphere_ai.model.names.suggestion import suggest
from vsphere_ai.model.state import KindName
from vsphere_ai.resources import kinds
from vsphere_ai.resources.makes_vms import MakesVms


def with_kinds_only(playbook: Playbook, chosen: Collection[str], emit: Emit) -> Playbook:
    """Return a playbook with the chosen kinds of settings only; the whole one where none is chosen.

    `UsageError` for a kind that does not exist or that the playbook does not have. What a chosen kind builds on and is
    left out is said: it is planned on what is there.
    """
    if not chosen:
        return playbook
    there = tuple(dict.fromkeys(stated.state.kind for play in playbook.plays for stated in play.states))
    for kind in chosen:
        if kind not in kinds():
            raise UsageError(f"--kind: there is no resource type '{kind}'", suggest(kind, kinds()), rule="usage.kind")
        if kind not in there:
            help = f"it has {', '.join(there)}"
            raise UsageError(f"--kind: {playbook.path} has no '{kind}'", help, rule="usage.kind")
    left = tuple(kind for kind in there if kind not in chosen)
    if left:
        emit(Remark("kind.left-out", f"note: --kind leaves out {', '.join(left)}"))
    for kind in chosen:
        below = [each for each in left if each in _before(KindName(kind))]
        if below:
            text = f"note: {kind} builds on {', '.join(below)}, left out by --kind: it is planned on what is there"
            emit(Remark("kind.needs", text))
    makes = any(issubclass(kinds()[kind], MakesVms) for kind in left)
    plays = tuple(each for play in playbook.plays for each in _narrowed(play, chosen))
    # values of VMs of a set are for those who make the set
    return replace(playbook, plays=plays, outputs=() if makes else playbook.outputs)


def _narrowed(play: Play, chosen: Collection[str]) -> Iterator[Play]:
    states = tuple(stated for stated in play.states if stated.state.kind in chosen)
    if states:
        yield replace(play, states=states)


def _before(kind: KindName) -> frozenset[KindName]:
    """Return the kinds that one is planned after, directly or not; a kind for VMs also builds on what makes them."""
    found: set[KindName] = set()
    ahead: list[KindName] = [kind]
    while ahead:
        new = {each for each in _after(ahead.pop()) if each not in found}
        found |= new
        ahead += sorted(new)
    return frozenset(found)


def _after(kind: KindName) -> Iterable[KindName]:
    known = kinds()
    makers = [n for n, k in known.items() if issubclass(k, MakesVms)] if known[kind].target == "vm" else []
    return [each for each in (*known[kind].traits.after, *makers) if each in known and each != kind]
