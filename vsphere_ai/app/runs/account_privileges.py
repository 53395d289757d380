"""Privileges a plan takes: asked of vCenter while planning, and before the first change is made."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from vsphere_ai.errors import Denied, StepFailed
from vsphere_ai.model.facts import grouped
from vsphere_ai.model.finding import Finding, Problem
from vsphere_ai.model.state import Target, TargetKind
from vsphere_ai.model.text import safe
from vsphere_ai.planning.privileges import PrivilegeNeed, missing_privileges, needed
from vsphere_ai.planning.record_privileges import DEFINING, for_record

if TYPE_CHECKING:
    from vsphere_ai.app.estate.connection import EstateConnection
    from vsphere_ai.app.estate.scope import EstateScope
    from vsphere_ai.connect.vcenter import VCenter
    from vsphere_ai.model.facts import Estate
    from vsphere_ai.planning.planner import Plan

RULE = "account.privileges"
ROLE = "the role is in docs/security.md; all that is missing: vsphere-ai doctor --permissions PLAYBOOK"

MOST_ASKED = 1000
MOST = 20
"""Lines of missing privileges that are shown; `doctor --permissions` has them all."""


def with_privileges(scope: EstateScope, connection: EstateConnection, plan: Plan, estate: Estate) -> Plan:
    """Return a plan with a problem for every object on which the account lacks privileges the plan takes."""
    found = tuple(_problems(scope.settings.username, _missing(connection, plan, estate)))
    return replace(plan, problems=(*plan.problems, *found)) if found else plan


def _problems(account: str, missing: Sequence[PrivilegeNeed]) -> Iterator[Problem]:
    kinds: dict[str, TargetKind] = {"HostSystem": "host", "VirtualMachine": "vm"}
    for ref, own in grouped(missing, lambda need: need.ref).items():
        target = Target(kinds.get(ref.partition(":")[0], "datacenter"), own[0].name, ref)
        listed = ", ".join(f"{n.privilege} ({n.reason})" for n in own)
        yield Finding.problem(target, RULE, f"{account} lacks privileges: {listed}", ROLE)


def require_privileges(scope: EstateScope, connection: EstateConnection, plan: Plan, estate: Estate) -> None:
    """Refuse a plan whose steps take privileges the account lacks, naming them per object."""
    missing = _missing(connection, plan, estate)
    if missing:
        lines = [f"  {safe(n.name)}: {n.privilege} ({safe(n.reason)})" for n in missing[:MOST]]
        more = [f"  and {len(missing) - MOST} more"] if len(missing) > MOST else []
        account = safe(scope.settings.username)
        lacks = f"{account} lacks privileges this plan takes; nothing was changed:"
        raise Denied("\n".join((lacks, *lines, *more)), ROLE)


def _missing(connection: EstateConnection, plan: Plan, estate: Estate) -> list[PrivilegeNeed]:
    """Return what the account lacks.

    What an earlier step of the plan makes cannot be asked about yet. A server that does not answer this question is
    no obstacle: a step that is refused later says so.
    """
    from vsphere_ai.connect.wire.plain import privilege_of

    if not plan.steps:
        return []
    needs = tuple(n for n in needed(plan, estate, privilege_of) if estate.get(n.ref) is not None)
    needs = tuple(sorted({*needs, *record_needs(connection.vcenter, plan, estate)}))
    if not needs:
        return []
    memory = connection.privileges
    lacks = memory.lacking(needs)
    if lacks is None:
        try:
            lacks = sorted(still_lacking(missing_privileges(needs, _ask(connection, needs)), connection.vcenter))
        except StepFailed:
            return []
        memory.keep(needs, lacks)
    return lacks


def record_needs(vcenter: VCenter, plan: Plan, estate: Estate) -> tuple[PrivilegeNeed, ...]:
    """Return what writing down takes what a plan puts out of service; nothing where it puts nothing out."""
    from vsphere_ai.execution.openings import puts_out

    return place_needs(vcenter, estate) if puts_out(plan) else ()


def place_needs(vcenter: VCenter, estate: Estate) -> tuple[PrivilegeNeed, ...]:
    """Return what writing down takes what is out of service, on the folder where that is in this estate."""
    from vsphere_ai.connect.out_records import home_among
    from vsphere_ai.connect.vcenter_lock import HOME, root_of
    from vsphere_ai.connect.wire.plain import privilege_of

    root = root_of(vcenter)
    home = home_among(estate.objects, root)
    return for_record((HOME, home) if home else ("the root folder", root), root, privilege_of)


def still_lacking(lacks: Collection[PrivilegeNeed], vcenter: VCenter) -> frozenset[PrivilegeNeed]:
    """Leave out the privilege to define the custom attribute of records where that is defined already."""
    from vsphere_ai.connect.out_records import is_defined

    defining = {need for need in lacks if need.reason == DEFINING}
    return frozenset(lacks) - (defining if defining and is_defined(vcenter) else frozenset())


def _ask(connection: EstateConnection, needs: Sequence[PrivilegeNeed]) -> Callable[..., Mapping[str, tuple[str, ...]]]:
    """Return what asks vCenter: at once for all objects and privileges, where few answers are not about needs."""
    refs, privileges = ([*dict.fromkeys(each)] for each in ((n.ref for n in needs), (n.privilege for n in needs)))
    many = len(refs) * len(privileges) > MOST_ASKED
    found = {} if many else connection.vcenter.missing_privileges(refs, privileges)
    return connection.vcenter.missing_privileges if many else lambda _refs, _privileges: found
