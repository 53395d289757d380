"""`vsphere-ai render nhc` and `render prometheus`: files for tools that watch nodes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vsphere_ai.cli.console.events import show_event
from vsphere_ai.cli.console.help_examples import TRAINING, example
from vsphere_ai.cli.console.options import changes_nothing, check_option, one_of, prints_only, variable_options
from vsphere_ai.cli.train.options import set_option
from vsphere_ai.model.text import counted

if TYPE_CHECKING:
    from vsphere_ai.app import EstateRequest
    from vsphere_ai.app.training.nodes.export import Form

_WHAT = click.argument("what", metavar="[PLAYBOOK|PATTERN]...", nargs=-1)
_SET = set_option("chosen")
_CHECK = check_option("Check this file instead; needs no connection. Several times for several.")


def _run(form: Form, what: Sequence[str], chosen: str, checked: Sequence[Path], estate: EstateRequest) -> int:
    from vsphere_ai import app

    one_of(what, checked)
    if checked:
        result = app.check_node_files(form, checked)
        for note in result.notes:
            click.echo(note)
        click.echo(f"{counted(result.count, 'check' if form == 'nhc' else 'rule')}, no fault")
    else:
        click.echo(app.export_nodes(app.NodesExportRequest(form, what, chosen, estate), show_event), nl=False)
    return 0


@click.command("nhc")
@_WHAT
@_SET
@_CHECK
@variable_options
@prints_only("a configuration of Node Health Check")
@changes_nothing
@example("render nhc playbooks/training-set.yml", needs=TRAINING)
def nhc(what: Sequence[str], chosen: str, checked: Sequence[Path], estate: EstateRequest) -> int:
    """Write a configuration of Node Health Check for the VMs of a playbook's set or of PATTERN.

    Slurm runs it on each node (HealthCheckProgram). What the guest of a vGPU does not see is left to `vsphere-ai
    health`, which asks the ESXi host. With --check every fault of FILE is shown with its place.

    Exits 0, and 65 with every fault of a checked FILE.
    """
    return _run("nhc", what, chosen, checked, estate)


@click.command("prometheus")
@_WHAT
@_SET
@_CHECK
@variable_options
@prints_only("rules of Prometheus")
@changes_nothing
@example("render prometheus playbooks/training-set.yml", needs=TRAINING)
def prometheus(what: Sequence[str], chosen: str, checked: Sequence[Path], estate: EstateRequest) -> int:
    """Write alert rules of Prometheus for the VMs of a playbook's set or of PATTERN.

    They need dcgm-exporter (port 9400) and node_exporter (9100) in the guests. With --check every fault of FILE is
    shown with its place.

    Exits 0, and 65 with every fault of a checked FILE.
    """
    return _run("prometheus", what, chosen, checked, estate)
