"""`vsphere-ai health`: whether VMs are fit for training, as their guests and their hosts show it."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import click

from vsphere_ai.cli.console.events import show_event
from vsphere_ai.cli.console.findings import Look, fail_on_option, show_findings
from vsphere_ai.cli.console.forms import output_option
from vsphere_ai.cli.console.help_examples import TRAINING, example
from vsphere_ai.cli.console.options import (
    agreed,
    changes_nothing,
    full_option,
    variable_estate_options,
    yes_option,
)
from vsphere_ai.cli.train.options import learn_option, profile_option

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from vsphere_ai.app import EstateRequest
    from vsphere_ai.model.finding import FailOn

HELP_ENTRY = "Train", 10, "Report whether VMs are fit for training, from guest and host."


class _Shown(TypedDict):
    """What is shown, and how."""

    form: str
    fail_on: FailOn
    full: bool
    learned: Path | None
    idle: bool
    yes: bool


@click.command("health")
@click.argument("what", metavar="PLAYBOOK|PATTERN")
@profile_option
@learn_option("the profile of VMs that are known to be good")
@click.option("--dcgm", type=click.IntRange(1, 4), metavar="LEVEL", help="Run DCGM's diagnostics as well.")
@click.option("--idle", is_flag=True, help="Show which VMs hold GPUs and do not use them.")
@variable_estate_options
@output_option()
@full_option
@fail_on_option
@yes_option
@changes_nothing
@example("health playbooks/training-set.yml", needs=TRAINING)
@example("health playbooks/training-set.yml --learn profile.yml", needs=TRAINING)
def command(what: str, profile: Path | None, dcgm: int | None, estate: EstateRequest, **shown: Unpack[_Shown]) -> int:
    """Report how GPUs, RDMA, network and versions are of the VMs of a PLAYBOOK, or of those that PATTERN means.

    Guests and hosts are asked; nothing is changed. Exits 0 when all are well or only warnings are reported, 1 when
    something is not known, 2 when a check failed.
    """
    from vsphere_ai import app
    from vsphere_ai.documents.health import CheckedVmDocument, HealthDocument
    from vsphere_ai.report.json_text import json_text
    from vsphere_ai.report.training import health_text as text

    request = app.HealthRequest(app.meant(what, estate), profile, dcgm or 0)
    if shown["learned"] is not None:
        app.require_absent([shown["learned"]])
        app.write_new({shown["learned"]: text.profile_text(app.learn_profile(request, show_event))})
        click.echo(f"{shown['learned']} is written.")
        return 0
    if shown["idle"]:
        vcenter, rows = app.gpu_use(request, show_event)
        document = text.use_document(vcenter, rows)
        click.echo(json_text(document) if shown["form"] == "json" else text.use_text(rows, datetime.now(UTC)))
        return 0
    result = app.check_health(request, show_event, lambda question: agreed(question, yes=shown["yes"]))
    vms = [CheckedVmDocument.of(vm.node, vm.verdict) for vm in result.vms]
    look = Look(f"{result.vcenter}: all VMs", full=shown["full"])
    of_findings = partial(HealthDocument.of, vcenter=result.vcenter, vms=vms)
    return show_findings(result.findings, shown["form"], shown["fail_on"], of_findings, look)
