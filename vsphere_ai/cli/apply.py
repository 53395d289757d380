"""`vsphere-ai apply`: carries out a playbook, or a saved plan exactly as it was shown."""

from __future__ import annotations

import sys
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vsphere_ai.cli import json_stream
from vsphere_ai.cli.options import (
    code_of,
    estate_options,
    format_option,
    held,
    hush,
    lock_option,
    open_bench,
    read_playbook,
    width,
)
from vsphere_ai.cli.running import Way, announce, carry_out
from vsphere_ai.errors import Conflict, Denied, Refused, Unreachable, UsageError

if TYPE_CHECKING:
    from vsphere_ai.plan import Plan
    from vsphere_ai.state import Target


@click.command("apply")
@click.argument("what", metavar="PLAYBOOK|PLAN.json", type=click.Path(path_type=Path, dir_okay=False))
@estate_options
@format_option("text", "json")
@lock_option
@click.option("--yes", is_flag=True, help="Do not ask.")
def command(what: Path, form: str, lock: str | None, yes: bool, **shared: Any) -> int:
    """Carry out a playbook, or a plan saved with `plan -o`, after showing it and asking for a yes.

    A saved plan is refused when it was edited, or when the estate is not as it was when the plan was made. Nothing is
    called done that was not read back. Ctrl-C finishes what is in flight and starts nothing more. A run that was cut
    off is brought to its end with `resume`.
    """
    from vsphere_ai.report import plan_json

    json_stream.expect(form)
    saved = _saved(what)
    loaded = _embedded(saved) if saved else read_playbook(what)
    if saved:
        scope = saved.get("scope", {})
        shared["limit"], shared["vcenter"] = scope.get("limit", ""), shared["vcenter"] or scope.get("vcenter", "")
    shared["start_ssh"] = True  # apply may start TSM-SSH, and stops it again
    with open_bench(shared, loaded) as bench, held(bench, f"apply {what}", lock) as locks:
        announce(bench)
        plan, estate = bench.plan(loaded)
        hush()
        digest = plan_json.digest(plan)
        if saved:
            _same(saved, plan, digest, what)
        if not approve(plan, digest, form, yes=yes or bool(saved), left_out=bench.left_out(loaded, estate)):
            return 0
        return carry_out(bench, loaded, plan, estate, Way(form, str(what), shared, locks=locks))


def _saved(what: Path) -> dict[str, Any] | None:
    if what.suffix != ".json":
        return None
    from vsphere_ai.documents import require
    from vsphere_ai.report.plan_json import open_saved

    require(what, "plan")
    # a damaged byte makes it another text, whose seal is broken
    return open_saved(what.read_text(encoding="utf-8", errors="replace"), str(what))


def _embedded(saved: dict[str, Any]) -> Any:
    from vsphere_ai.playbook import from_document
    from vsphere_ai.resources import kinds

    return from_document(saved["desired"], kinds())


def _same(saved: dict[str, Any], plan: Plan, digest: str, what: Path) -> None:
    """Refuse a plan that is not what would be planned now, and say what differs."""
    again = "plan again, look at the difference, and apply the new plan"
    if saved["vcenter"]["instance"] != plan.about.instance:
        raise Conflict(f"{what} was made for another vCenter ({saved['vcenter']['name']})", again)
    if saved["digest"] == digest:
        return
    from vsphere_ai.report.stale import differences

    raise Conflict(f"{what} is stale, the estate changed since it was made:\n{differences(saved, plan)}", again)


def approve(plan: Plan, digest: str, form: str, *, yes: bool, left_out: Collection[Target] = ()) -> bool:
    """Show a plan and ask for a yes; False when there is nothing to do or it was not given, `Refused` on problems."""
    from vsphere_ai.cli.plan import colour
    from vsphere_ai.report.plan_text import plan_text

    if form == "text" or plan.problems or (plan.steps and not yes):  # nobody is asked about what was not shown
        click.echo(colour(plan_text(plan, digest, width(), left_out=left_out)), err=form == "json")
    if plan.problems:
        refusal = {4: Denied, 5: Unreachable}.get(code_of(plan.problems), Refused)("nothing was changed")
        _nothing_done(plan, digest, form, refusal.exit_code)
        raise refusal
    if not plan.steps:
        _nothing_done(plan, digest, form)
        return False
    if yes:
        return True
    if not sys.stdin.isatty():
        raise UsageError("there is no terminal to ask on", "give --yes, or apply a saved plan")
    click.echo("", err=form == "json")
    answer = click.prompt("Carry this out? Only 'yes' is accepted", default="", show_default=False, err=True)
    if answer.strip() != "yes":
        click.echo("Nothing was changed.", err=True)
        _nothing_done(plan, digest, form)
        return False
    return True


def _nothing_done(plan: Plan, digest: str, form: str, code: int = 0) -> None:
    """End a JSON stream that has no events: of a plan that was refused, was empty, or was not wanted."""
    if form == "json":
        from vsphere_ai.outcome import Run
        from vsphere_ai.report.run_json import header_line, summary_line

        json_stream.write("header", header_line(digest, len(plan.steps)))
        json_stream.write("summary", summary_line(Run(plan, (), 0.0), code))
