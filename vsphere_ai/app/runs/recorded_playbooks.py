"""Playbooks of a run's record: what the run is to reach, and what it found before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vsphere_ai.language.playbooks import desired
from vsphere_ai.language.playbooks.play import Play, Playbook, TargetPlan, from_document
from vsphere_ai.model.facts import Estate
from vsphere_ai.model.state import KindName, Target
from vsphere_ai.model.view import View
from vsphere_ai.planning.observing import observe
from vsphere_ai.planning.planner import Plan
from vsphere_ai.planning.rollback import stated_before
from vsphere_ai.resources import kinds
from vsphere_ai.sets.wanted import pin_leaving

if TYPE_CHECKING:
    from vsphere_ai.app.estate.scope import EstateScope
    from vsphere_ai.app.estate.session import Session
    from vsphere_ai.model.records.run_record import JsonObject


def playbook_of(document: JsonObject) -> Playbook:
    """Return a playbook from a document of a record: what the run was to reach, or what it found before."""
    return from_document(document, kinds())


def before(session: Session, playbook: Playbook, plan: Plan, estate: Estate) -> Playbook:
    """Return what a plan is about to change as a playbook of how it is now: what a rollback goes back to."""
    wanted = session.desired(playbook, estate)
    view = View(estate, observe(estate, kinds()), stated=wanted.stated)
    changing = {(i.target, i.kind) for i in plan.changed()}
    plays = [
        _play_before(session.scope, t, p, [k for k in kinds() if (t, k) in changing], view) for t, p in wanted.items()
    ]
    return Playbook(f"before {playbook.path}", playbook.digest, tuple(p for p in plays if p.states))


def _play_before(
    scope: EstateScope, target: Target, plan: TargetPlan, changing: Sequence[KindName], view: View
) -> Play:
    stated = stated_before(target, changing, view, kinds())
    how = (plan.rolling, plan.power, scope.settings.name)
    return Play(target.name, target.kind, target.ref, stated, *how, targets=(target,))


def pinned(session: Session, playbook: Playbook, estate: Estate) -> Playbook:
    """Return a playbook that is for the targets it means now, narrowed by `--limit`, whatever they are called."""
    only = session.desired(playbook, estate)
    done = desired.pinned(playbook, session.scope.inventory, estate, only, vcenter=session.scope.settings.name)
    return pin_leaving(done, only, estate)
