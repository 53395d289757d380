"""`vsphere-ai accept`: the gates of a hand-over, and the certificate that comes of them."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from vsphere_ai.cli.console.events import show_event
from vsphere_ai.cli.console.findings import fail_on_option
from vsphere_ai.cli.console.forms import output_option
from vsphere_ai.cli.console.help_examples import example
from vsphere_ai.cli.console.options import FILE, changes_nothing, full_option, gathering, variable_run_options, width
from vsphere_ai.cli.train.options import attest_option, profile_option, set_option

if TYPE_CHECKING:
    from vsphere_ai.app import AcceptRequest
    from vsphere_ai.model.finding import FailOn

HELP_ENTRY = "Train", 40, "Carry out the gates of a hand-over, and write its certificate."
_GATES = ("assess", "health", "rdma", "nccl")
_OPTIONAL = ("megatron",)
_SKIP = "skip"
_ANSWERS: dict[str, Literal["yes", "no", "not applicable"]] = {"y": "yes", "n": "no", "na": "not applicable"}


def _request() -> type[AcceptRequest]:
    from vsphere_ai.app.training.acceptance.values import AcceptRequest

    return AcceptRequest


_options = gathering(
    "request",
    _request,
    click.argument("playbook", type=FILE),
    click.option("--certificate", type=FILE, required=True, help="File of the certificate; it goes on from it."),
    set_option(),
    click.option(
        "--gate",
        "gates",
        type=click.Choice((*_GATES, *_OPTIONAL)),
        multiple=True,
        default=_GATES,
        help="Carry out only this gate; repeatable. [default: all but megatron]",
    ),
    attest_option("attestations"),
    profile_option,
    click.option("--baseline", type=FILE, help="What benchmarks have to reach: vsphere-ai bench parse --learn."),
    click.option("--again", is_flag=True, help="Measure everything again."),
    click.option(
        "--megatron-folder",
        default="/opt/Megatron-LM",
        show_default=True,
        metavar="PATH",
        help="Megatron-LM in the guests.",
    ),
)


@click.command("accept")
@variable_run_options
@_options
@click.option("--verify", is_flag=True, help="Only compare the facts of the certificate with the environment.")
@fail_on_option
@output_option("text", "json", "html", "markdown", "ctrf", "junit")
@full_option
@changes_nothing
@example(
    "accept playbooks/hand-over.yml --certificate certificate.json",
    needs="VMs that were made by playbooks/hand-over.yml (docs/hand-over.md)",
)
def command(request: AcceptRequest, verify: bool, fail_on: FailOn, form: str, *, full: bool) -> int:
    """Accept the set of PLAYBOOK for hand-over: assessment, health, and benchmarks, in one certificate.

    On a terminal it asks first for the answers that only operators have. Exits 0 when every gate passed or only warns,
    1 when something is not known, such as gates that --gate leaves out, 2 when a gate failed. With --verify 2 means
    that a gate never passed or that facts changed since, which are findings of different rules.
    """
    from vsphere_ai import app
    from vsphere_ai.model.finding import exit_code
    from vsphere_ai.report.report_in import report_in
    from vsphere_ai.report.training.certificate_text import (
        certificate_json,
        certificate_text,
        changes_json,
        changes_text,
    )

    if verify:
        state = app.verify_certificate(request, show_event)
        click.echo(
            changes_json(state.changes, state.tests, state.findings)
            if form == "json"
            else changes_text(state.certificate, state.changes, state.tests, width(), state.not_asked)
        )
        return exit_code(state.findings, fail_on)
    result = app.accept(_with_answers(request), show_event)
    if form == "text":
        click.echo(certificate_text(result.certificate, width(), result.kept, full=full))
    elif form == "json":
        click.echo(certificate_json(result.certificate))
    else:
        click.echo(report_in(result.certificate, form))
    return exit_code(result.findings, fail_on)


def _with_answers(request: AcceptRequest) -> AcceptRequest:
    """Ask on a terminal for answers that rules of the assessment lack, before anything is measured; keep them."""
    from vsphere_ai import app
    from vsphere_ai.cli.console import streams
    from vsphere_ai.model.records.assessment import Attestation
    from vsphere_ai.model.text import counted
    from vsphere_ai.security.asking import asking

    left = app.unanswered_questions(request.attestations) if "assess" in request.gates and sys.stdin.isatty() else {}
    if not left:
        return request
    streams.say(f"{counted(len(left), 'manual check')} of the assessment without an answer: these rules stay unknown.")
    with asking():
        if not click.confirm("Answer them now", default=False, err=True):
            return request
        owner = str(click.prompt("Your name or address", err=True)).strip()
        file = request.attestations or Path(click.prompt("File for the answers", default="attestations.yml", err=True))
        today = date.today()
        until = today.replace(year=today.year + 1, day=min(today.day, 28))
        given = []
        for rule, question in left.items():
            choice = click.Choice((*_ANSWERS, _SKIP))
            answer = click.prompt(f"{rule}: {question}", type=choice, default=_SKIP, err=True)
            if answer != _SKIP:
                given.append(Attestation(rule, _ANSWERS[answer], owner, today, until))
    if given:
        app.keep_answers(file, given)
    return replace(request, attestations=file if given else request.attestations)
