"""`vsphere-ai replace`: recreates VMs of a set."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from vsphere_ai.cli.console.help_examples import TRAINING, example
from vsphere_ai.cli.console.options import (
    FILE,
    destroy_option,
    dry_run_option,
    force_option,
    is_dry_run,
    lock_option,
    variable_run_options,
    yes_option,
)
from vsphere_ai.cli.console.run_output import RunOutput, ShownRun, run_output_options

if TYPE_CHECKING:
    from vsphere_ai.app import EstateRequest
    from vsphere_ai.runs.locks import Mode

HELP_ENTRY = "Change the environment", 50, "Recreate VMs of a set, with the same addresses."


@click.command("replace")
@click.argument("playbook", type=FILE)
@click.argument("vms", metavar="VM...", nargs=-1, required=True)
@variable_run_options
@run_output_options
@lock_option
@yes_option
@dry_run_option
@destroy_option
@force_option
@example("replace playbooks/training-set.yml train-03 --dry-run", needs=TRAINING)
def command(
    playbook: Path, vms: tuple[str, ...], estate: EstateRequest, shown: ShownRun, lock: Mode | None, **more: bool
) -> int:
    """Recreate VMs of a set that PLAYBOOK makes: same name, number, MAC and IP addresses.

    Their disks are lost. Their number is asked for; without a terminal, give --yes --destroy N. Other VMs, and what the
    playbook says of hosts, are not changed.

    Exits 0 when all is done and verified, 1 when the plan is refused or a step failed, 3 when another number was
    confirmed, 7 when another run works on the vCenter, 9 when the outcome of a change is not known.
    """
    from vsphere_ai import app

    with RunOutput(shown) as output:
        request = app.ReplaceRequest(
            playbook, vms, estate, confirm=output.confirm, lock=lock, dry_run=is_dry_run(), **more
        )
        return output.exit_code(app.replace_vms(request, output.emit))
