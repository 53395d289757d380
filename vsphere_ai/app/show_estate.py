"""Show: the live state as settings per target, for which planning finds nothing to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vsphere_ai.app.events import Emit, ignore
from vsphere_ai.app.read_estate import read_everything
from vsphere_ai.app.session import EstateRequest, open_session
from vsphere_ai.language.play import TargetPlan
from vsphere_ai.model.facts import Estate
from vsphere_ai.model.state import Target
from vsphere_ai.planning.export import acceptable, observed
from vsphere_ai.planning.observing import evaluate_with
from vsphere_ai.reading.scope import depth_for
from vsphere_ai.resources import kinds
from vsphere_ai.resources.base import Resource

if TYPE_CHECKING:
    from vsphere_ai.app.session import Session


@dataclass(frozen=True)
class ShowRequest:
    """What to show: the targets within the limit of the estate request."""

    estate: EstateRequest = field(default_factory=EstateRequest)


@dataclass(frozen=True)
class ShowResult:
    """The estate, the states per target that planning accepts, and why a target's are incomplete."""

    estate: Estate
    states: Mapping[Target, Sequence[Resource]]
    remarks: Mapping[Target, str]


def show(request: ShowRequest, emit: Emit = ignore) -> ShowResult:
    """Read the live state of an estate as a playbook would state it. Changes nothing."""
    with open_session(request.estate, None, emit) as session:
        return _shown(session)


def _shown(session: Session) -> ShowResult:
    from vsphere_ai.execution.second_read import ask_as_plan

    def seen(estate: Estate) -> tuple[dict[Target, list[Resource]], dict[Target, list[str]]]:
        return observed(estate, session.limited(estate, (*estate.datacenters, *estate.hosts, *estate.vms)))

    (found, remarks), estate = evaluate_with(kinds(), read_everything(session, around=True), seen)
    wanted = {t: TargetPlan(tuple(own)) for t, own in found.items() if own}
    asked = ask_as_plan(
        session.vcenter, session.shells, session.request(lambda _: depth_for(estate, {})), wanted, estate
    )
    if asked is not estate:
        (found, remarks), estate = evaluate_with(kinds(), asked, seen)
    (kept, more), estate = evaluate_with(kinds(), estate, lambda e: acceptable(found, e))
    reasons = {t: "; ".join([*said, *more.get(t, ())]) for t, said in remarks.items()}
    return ShowResult(estate, kept, {t: words for t, words in reasons.items() if words})
