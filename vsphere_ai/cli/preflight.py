"""Whether the account may do all that a plan says, asked before the first change is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vsphere_ai.errors import Denied, StepFailed
from vsphere_ai.report.values import safe

if TYPE_CHECKING:
    from vsphere_ai.facts import Estate
    from vsphere_ai.plan import Plan
    from vsphere_ai.workbench import Workbench

MOST = 20
"""Lines of missing privileges that are shown; `doctor --permissions` has them all."""


def require_privileges(bench: Workbench, plan: Plan, estate: Estate) -> None:
    """Refuse a plan whose steps take privileges the account lacks, naming them per object.

    What an earlier step of the plan makes cannot be asked about yet. A server that does not answer this question is
    no obstacle: a step that is refused later says so.
    """
    from vsphere_ai.connect.privileges import privilege_of
    from vsphere_ai.permissions import lacking, needed

    needs = [n for n in needed(plan, estate, privilege_of) if estate.get(n.ref) is not None]
    try:
        missing = sorted(lacking(needs, bench.vcenter.missing_privileges))
    except StepFailed:
        return
    if missing:
        lines = [f"  {safe(n.name)}: {n.privilege} ({safe(n.reason)})" for n in missing[:MOST]]
        more = [f"  and {len(missing) - MOST} more"] if len(missing) > MOST else []
        account = safe(bench.settings.username)
        raise Denied(
            "\n".join((f"{account} lacks privileges this plan takes; nothing was changed:", *lines, *more)),
            "the role is in docs/security.md; all that is missing: vsphere-ai doctor --permissions PLAYBOOK",
        )
