"""Show: the live state as settings per target, for which planning finds nothing to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vsphere_ai.app.estate.read_estate import read_everything
from vsphere_ai.app.estate.scope import EstateRequest
from vsphere_ai.app.estate.session import open_session
from vsphere_ai.app.events import Emit, ignore
from vsphere_ai.errors import UsageError
from vsphere_ai.language.playbooks.play import TargetPlan
from vsphere_ai.model.facts import Estate
from vsphere_ai.model.names.suggestion import suggest
from vsphere_ai.model.state import KindName, Target
from vsphere_ai.planning.export import acceptable, observed
from vsphere_ai.planning.observing import evaluate_with
from vsphere_ai.planning.play_groups import PlayGroup, grouped_plays
from vsphere_ai.reading.host_calls import calls_for
from vsphere_ai.reading.scope import depth_for
from vsphere_ai.resources import kinds
from vsphere_ai.resources.base import Resource
from vsphere_ai.resources.mixins import topics_of

if TYPE_CHECKING:
    from vsphere_ai.app.estate.session import Session


@dataclass(frozen=True)
class ShowRequest:
    """What to show: the targets within the limit of the estate request, and of them these kinds, or all of them."""

    estate: EstateRequest = field(default_factory=EstateRequest)
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True)
class ShowResult:
    """The estate, the states per target that planning accepts, the same as plays, and why a target's are incomplete.

    `groups` are names of the inventory, which mean their group where a pattern has them; plays of a snapshot name none.
    """

    estate: Estate
    states: Mapping[Target, Sequence[Resource]]
    remarks: Mapping[Target, str]
    plays: Sequence[PlayGroup] = ()
    groups: Mapping[str, frozenset[Target]] = field(default_factory=dict)


def show(request: ShowRequest, emit: Emit = ignore) -> ShowResult:
    """Read the live state of an estate as a playbook would state it. Changes nothing.

    `UsageError` for a kind that there is not.
    """
    chosen = _kinds(request.kinds)
    with open_session(request.estate, None, emit) as session:
        return shown(session, chosen)


def _kinds(names: Sequence[str]) -> Mapping[KindName, type[Resource]]:
    unknown = next((name for name in names if name not in kinds()), None)
    if unknown is not None:
        raise UsageError(
            f"there is no resource type '{unknown}'", suggest(unknown, kinds(), "there is"), rule="usage.kind"
        )
    return {name: kind for name, kind in kinds().items() if not names or name in names}


def shown(session: Session, chosen: Mapping[KindName, type[Resource]]) -> ShowResult:
    """Read, with a session, the states of some kinds that planning accepts."""
    from vsphere_ai.execution.second_read import ask_as_plan

    def seen(estate: Estate) -> tuple[dict[Target, list[Resource]], dict[Target, list[str]]]:
        targets = session.scope.limited(estate, (*estate.datacenters, *estate.hosts, *estate.vms))
        return observed(estate, targets, chosen)

    calls = calls_for(frozenset(chosen), topics_of(chosen))
    (found, remarks), estate = evaluate_with(kinds(), read_everything(session, around=True, calls=calls), seen)
    wanted = {t: TargetPlan(tuple(own)) for t, own in found.items() if own}
    asked = ask_as_plan(
        session.connection.vcenter,
        session.connection.shells,
        session.request(lambda _: depth_for(estate, {})),
        wanted,
        estate,
    )
    if asked is not estate:
        (found, remarks), estate = evaluate_with(kinds(), asked, seen)
    (kept, more), estate = evaluate_with(kinds(), estate, lambda e: acceptable(found, e))
    reasons = {t: "; ".join([*said, *more.get(t, ())]) for t, said in remarks.items()}
    groups = dict.fromkeys((*session.scope.inventory.hosts, *session.scope.inventory.vms), frozenset[Target]())
    return ShowResult(estate, kept, {t: words for t, words in reasons.items() if words}, grouped_plays(kept), groups)
