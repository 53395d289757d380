"""`vsphere-ai plan`: what a playbook would change and disrupt; changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from vsphere_ai.cli.console import streams
from vsphere_ai.cli.console.colour import colour
from vsphere_ai.cli.console.events import show_event
from vsphere_ai.cli.console.forms import output_option
from vsphere_ai.cli.console.help_examples import example
from vsphere_ai.cli.console.options import (
    FILE,
    changes_nothing,
    full_option,
    login_option,
    playbook_options,
    quiet_option,
    to_option,
    width,
)
from vsphere_ai.model.names.name_ranges import shell_word

if TYPE_CHECKING:
    from vsphere_ai.app import EstateRequest

HELP_ENTRY = "Change the environment", 10, "Show what a playbook would change and disrupt; changes nothing."


@click.command("plan")
@click.argument("playbook", type=FILE)
@playbook_options
@login_option
@output_option()
@full_option
@quiet_option
@to_option("Save the plan, for apply.")
@click.option("--detailed-exitcode", is_flag=True, help="Exit 2 when there is something to do.")
@changes_nothing
@example("plan playbooks/ai-ready-cluster.yml")
@example("plan playbooks/time-sliced.yml --to plan.json")
def command(playbook: Path, form: str, to: Path | None, estate: EstateRequest, **flags: bool) -> int:
    """Show what PLAYBOOK would change, which hosts reboot and which VMs are switched off. Changes nothing.

    Exits 0, or 1 when the plan has problems, 4 when one of them is that a host refused the SSH login or its key. SSH
    that is stopped, and that apply starts, refuses no plan: what it hides is not known, and apply plans again.
    """
    return show_plan(playbook, estate, form, to, **flags)


def show_plan(playbook: Path, estate: EstateRequest, form: str, to: Path | None = None, **flags: bool) -> int:
    """Show the plan of a playbook, save it where a file is given, and return the exit code.

    `flags`: `full` does not group identical targets, `detailed_exitcode` returns 2 where there is something to do.
    """
    from vsphere_ai import app
    from vsphere_ai.report.json_text import json_text
    from vsphere_ai.report.plans.plan_text import Beside, plan_text, result_lines

    if to:
        app.require_replaceable(to)  # before anything is read: that may take minutes
    result = app.plan(app.PlanRequest(playbook, estate), show_event)
    if form == "json":
        click.echo(json_text(result.document()))
    elif streams.is_quiet():
        click.echo("\n".join(result_lines(result.plan, width())))
    else:
        around = result.around
        variables = result.playbook.variables
        beside = Beside(result.excluded, result.outputs, flags["full"], around.world, around.estimate, variables)
        shown = plan_text(result.plan, result.digest, width(), beside)
        click.echo(colour(shown))
    if result.plan.awaits_ssh and not to:
        _say_apply(playbook, estate, form)
        return 2 if flags.get("detailed_exitcode") else 0
    if result.plan.problems:
        why = "add --start-ssh to plan what SSH shows" if result.plan.awaits_ssh else "a refused plan cannot be applied"
        if to:
            click.echo(f"{to} was not written: {why}", err=True)
        return result.exit_code or 1
    if to:
        app.save_plan(result, to)
        streams.note(f"Saved. Apply it with: vsphere-ai apply {shell_word(str(to))}")
    elif result.plan.steps:
        _say_apply(playbook, estate, form)
    return 2 if flags.get("detailed_exitcode") and result.plan.steps else 0


def _say_apply(playbook: Path, estate: EstateRequest, form: str) -> None:
    if form == "text":
        streams.note(f"Apply it with: vsphere-ai apply {_as_given(estate)}{shell_word(str(playbook))}")


def _as_given(estate: EstateRequest) -> str:
    """Return the shared options as they were typed, to be put before a playbook."""
    given = [("-i", estate.inventory), ("--vcenter", estate.vcenter), ("--limit", estate.limit)]
    given += [("--kind", ",".join(estate.only_kinds))]
    given += [("--vars-file", file) for file in estate.vars_files] + [("--var", pair) for pair in estate.variables]
    return "".join(f"{option} {shell_word(str(value))} " for option, value in given if value)
