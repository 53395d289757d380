"""`vsphere-ai apply`: carries out a playbook, or a saved plan exactly as it was shown."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vsphere_ai.cli import json_stream, streams
from vsphere_ai.cli.approval import Besides, approve
from vsphere_ai.cli.options import (
    estate_options,
    format_option,
    held,
    lock_option,
    login_option,
    open_session,
    pause_status,
    read_playbook,
)
from vsphere_ai.cli.running import Request, announce, carry_out
from vsphere_ai.errors import Conflict
from vsphere_ai.model.text import safe

if TYPE_CHECKING:
    from vsphere_ai.app.session import Session
    from vsphere_ai.language.playbook import Playbook
    from vsphere_ai.planning.document import SavedPlan
    from vsphere_ai.planning.planner import Plan


@click.command("apply")
@click.argument("what", metavar="PLAYBOOK|PLAN.json", type=click.Path(path_type=Path, dir_okay=False))
@estate_options
@login_option
@format_option("text", "json")
@lock_option
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--resume", is_flag=True, help="First finish earlier runs that have left something to put back.")
def command(what: Path, form: str, lock: str | None, yes: bool, **shared: Any) -> int:
    """Carry out a playbook, or a plan saved with `plan -o`, after showing it and asking for a yes.

    A saved plan is refused when it was edited, or when the estate is not as it was when the plan was made. Nothing is
    called done that was not read back. Ctrl-C finishes what is in flight and starts nothing more. A run that was cut
    off is brought to its end with `resume`; while one has left something to put back, this never exits 0.
    """
    from vsphere_ai.app.account_privileges import with_privileges
    from vsphere_ai.app.open_runs import LEFT_OPEN, left_open
    from vsphere_ai.execution.vcenter_checks import with_answers
    from vsphere_ai.planning import document
    from vsphere_ai.runs.history import look

    json_stream.expect(form)
    saved = _saved(what)
    loaded = _embedded(saved) if saved else read_playbook(what)
    if saved:
        scope = saved.scope
        shared["limit"], shared["vcenter"] = scope.get("limit", ""), shared["vcenter"] or scope.get("vcenter", "")
    shared["start_ssh"] = True  # apply may start TSM-SSH, and stops it again
    resume, some = shared.pop("resume"), any(seen.has_pending for seen in look())
    if some and (resume or (sys.stdin.isatty() and not yes and not saved)):
        with open_session(shared, loaded) as session:
            code = _finish_first(session, shared["inventory"], form, wanted=resume, lock=lock)
        if code:
            return code
        json_stream.expect(form)
    with open_session(shared, loaded) as session, held(session, f"apply {what}", lock) as locks:
        announce(session)
        plan, estate = session.plan(loaded)
        pause_status()
        digest = document.digest(plan)
        if saved:
            _same(saved, plan, digest, what)
        plan = with_answers(plan, session.vcenter, estate, parallel=session.options.parallel)
        plan = with_privileges(session, plan, estate)
        approved = yes or bool(saved)
        opened = () if plan.steps and approved else left_open(session.vcenter)
        besides = Besides(session.left_out(loaded, estate), opened)
        if not approve(plan, digest, form, yes=approved, besides=besides):
            return LEFT_OPEN if opened else 0
        return carry_out(session, loaded, plan, estate, Request(form, str(what), shared, locks=locks, looks_back=True))


def _finish_first(session: Session, inventory: Path | None, form: str, *, wanted: bool, lock: Any) -> int:
    """Bring runs that have left something to put back to their end: when that is `wanted`, else each after asking.

    Returns the exit code of the first that does not get there, 0 when all did or nobody wanted it.
    """
    from vsphere_ai.app.open_runs import left_open, pending
    from vsphere_ai.cli.resume import bring_to_end

    for line in left_open(session.vcenter) if not wanted else ():
        streams.say(f"! {safe(line)}", "run.left-open")
    for seen, request in pending(session.vcenter.about.instance):
        if not wanted and not _says_yes(seen.run):
            continue
        json_stream.expect(form)
        code = bring_to_end(seen.run, inventory, form, yes=wanted, lock=lock, cleanup=request.endswith("--cleanup"))
        if code:
            return code
    return 0


def _says_yes(run: str) -> bool:
    answer = click.prompt(f"Finish run {run} first? Only 'yes' does", default="", show_default=False, err=True)
    return bool(answer.strip() == "yes")


def _saved(what: Path) -> SavedPlan | None:
    if what.suffix != ".json":
        return None
    from vsphere_ai.language.document import require
    from vsphere_ai.planning.document import open_saved

    require(what, "plan")
    # a damaged byte makes it another text, whose seal is broken
    return open_saved(what.read_text(encoding="utf-8", errors="replace"), str(what))


def _embedded(saved: SavedPlan) -> Playbook:
    from vsphere_ai.language.playbook import from_document
    from vsphere_ai.resources import kinds

    return from_document(saved.desired, kinds())


def _same(saved: SavedPlan, plan: Plan, digest: str, what: Path) -> None:
    """Refuse a plan that is not what would be planned now, and say what differs."""
    from vsphere_ai.planning import document
    from vsphere_ai.planning.ssh_needs import without_ssh_problems
    from vsphere_ai.report.stale import differences

    again = "plan again, look at the difference, and apply the new plan"
    if saved.vcenter.instance != plan.about.instance:
        raise Conflict(f"{what} was made for another vCenter ({saved.vcenter.name})", again, rule="plan.other-vcenter")
    if saved.digest == digest or saved.digest == document.digest(without_ssh_problems(plan)):
        return  # a host that does not let us in now is a problem that is shown, not a difference
    raise Conflict(
        f"{what} is stale, the estate changed since it was made:\n{differences(saved, plan)}", again, rule="plan.stale"
    )
