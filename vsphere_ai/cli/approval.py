"""A plan is shown, and a yes asked for, before anything of it is carried out."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from vsphere_ai.cli import json_stream, streams
from vsphere_ai.cli.options import code_of, width
from vsphere_ai.errors import Denied, Refused, Unreachable, UsageError
from vsphere_ai.model.text import safe

if TYPE_CHECKING:
    from vsphere_ai.model.state import Target
    from vsphere_ai.planning.planner import Plan


@dataclass(frozen=True)
class Besides:
    """What is shown beside a plan: targets that `--limit` left out, and what earlier runs have left to put back."""

    left_out: Collection[Target] = ()
    opened: Sequence[str] = ()


def approve(plan: Plan, digest: str, form: str, *, yes: bool, besides: Besides = Besides()) -> bool:
    """Show a plan and ask for a yes; False when there is nothing to do or it was not given, `Refused` on problems."""
    from vsphere_ai.cli.plan import colour
    from vsphere_ai.report.plan_text import plan_text

    if form == "text" or plan.problems or (plan.steps and not yes):  # nobody is asked about what was not shown
        click.echo(colour(plan_text(plan, digest, width(), left_out=besides.left_out)), err=form == "json")
    if plan.problems:
        refusal = {4: Denied, 5: Unreachable}.get(code_of(plan.problems), Refused)("nothing was changed")
        _nothing_done(plan, digest, form, refusal.exit_code)
        raise refusal
    if not plan.steps:
        for line in besides.opened:
            streams.say(safe(f"! {line}"), "run.left-open")
        _nothing_done(plan, digest, form, 1 if besides.opened else 0, besides.opened)
        return False
    if yes:
        return True
    if not sys.stdin.isatty():
        raise UsageError(
            "there is no terminal to ask on", "give --yes, or apply a saved plan", rule="usage.no-terminal"
        )
    click.echo("", err=form == "json")
    answer = click.prompt("Carry this out? Only 'yes' is accepted", default="", show_default=False, err=True)
    if answer.strip() != "yes":
        click.echo("Nothing was changed.", err=True)
        _nothing_done(plan, digest, form, 1 if besides.opened else 0, besides.opened)
        return False
    return True


def _nothing_done(plan: Plan, digest: str, form: str, code: int = 0, opened: Sequence[str] = ()) -> None:
    """End a JSON stream that has no events: of a plan that was refused, was empty, or was not wanted."""
    if form == "json":
        from vsphere_ai.execution.outcome import Run
        from vsphere_ai.report.run_json import header_line, summary_line

        json_stream.write("header", header_line(digest, len(plan.steps)))
        json_stream.write("summary", summary_line(Run(plan, (), 0.0, open=tuple(opened)), code, streams.remarks()))
