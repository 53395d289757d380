"""`vsphere-ai assess`: the rules of the five pillars."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import click

from vsphere_ai.cli.console.events import show_event
from vsphere_ai.cli.console.findings import failing_on
from vsphere_ai.cli.console.forms import output_option
from vsphere_ai.cli.console.help_examples import example
from vsphere_ai.cli.console.options import FILE, changes_nothing, full_option, variable_estate_options, width
from vsphere_ai.cli.train.options import attest_option

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from vsphere_ai.app import AssessResult, EstateRequest
    from vsphere_ai.model.finding import FailOn

HELP_ENTRY = "Look, and compare", 40, "Assess the environment by the rules of five pillars."


class _Given(TypedDict):
    """Files that are read and written, what is shown, and what the exit code reports."""

    attest: Path | None
    fix: Path | None
    form: str
    full: bool
    fail_on: FailOn


def _questions(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from vsphere_ai import app
        from vsphere_ai.report.training.assessment_text import questions_text

        click.echo(questions_text(app.attested_questions(), date.today()))
        ctx.exit()


@click.command("assess")
@click.argument("playbook", required=False, type=FILE)
@attest_option("attest")
@failing_on("fail")
@click.option(
    "--questions",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_questions,
    help="Write the questions that no software can answer, as a file for --attest; needs no connection.",
)
@click.option("--fix", type=FILE, help="Write the playbook that corrects what a playbook can correct into a new file.")
@variable_estate_options
@output_option("text", "json", "markdown")
@full_option
@changes_nothing
@example("assess")
@example("assess --questions")
def command(playbook: Path | None, estate: EstateRequest, **given: Unpack[_Given]) -> int:
    """Assess hosts with GPUs and the VMs that train on them, or what PLAYBOOK makes of them.

    Five pillars: reliability, security, cost, operations, performance. Unknown is worse than warn.

    The file of --fix has a play for each correction, and names the rules that are left, with the reason.

    Exits 0 when no rule fails, 2 when one does; with --fail-on unknown 1 when something is not known.
    """
    from vsphere_ai import app
    from vsphere_ai.documents.assessment import AssessmentDocument
    from vsphere_ai.model.text import counted
    from vsphere_ai.report.json_text import json_text
    from vsphere_ai.report.training.assessment_text import assessment_markdown, assessment_text

    attest, fix = given["attest"], given["fix"]
    if fix is not None:
        app.require_absent((fix,))
    result = app.assess(app.AssessRequest(playbook, attest, estate), show_event)
    about = f"vCenter {result.about.name} {result.about.version}"
    about += f", as {result.playbook} makes it" if result.playbook else ""
    what = f"{about}: {counted(len(result.hosts), 'host')} with GPUs, {counted(len(result.vms), 'training VM')}"
    form = given["form"]
    if form == "json":
        keys = {"hosts": result.hosts, "vms": result.vms, "not_applicable": result.not_applicable}
        click.echo(json_text(AssessmentDocument.of(result.findings, vcenter=result.about, **keys)))
    elif form == "markdown":
        click.echo(assessment_markdown(result.findings, result.not_applicable, what))
    else:
        click.echo(assessment_text(result.findings, result.not_applicable, what, width(), full=given["full"]))
    if fix is not None:
        _write_fix(fix, result)
    return result.exit_code(given["fail_on"])


def _write_fix(path: Path, result: AssessResult) -> None:
    from vsphere_ai import app
    from vsphere_ai.model.text import counted
    from vsphere_ai.report.training.assessment_fix import fix_of

    fix = fix_of(result.estate, result.findings, result.by_hand)
    left = f"; {counted(len(fix.left), 'rule')} left, with the reason" if fix.left else ""
    if fix.text:
        app.write_new({path: fix.text})
        click.echo(f"{path}: corrects {counted(len(fix.corrected), 'rule')}{left}", err=True)
    else:
        click.echo(f"{path} is not written: no rule that warns or fails has a correction", err=True)
