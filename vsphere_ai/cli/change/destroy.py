"""`vsphere-ai destroy`: destroys the VMs of sets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vsphere_ai.cli.console.help_examples import TRAINING, example
from vsphere_ai.cli.console.options import (
    destroy_option,
    dry_run_option,
    force_option,
    is_dry_run,
    lock_option,
    variable_estate_options,
    yes_option,
)
from vsphere_ai.cli.console.run_output import RunOutput, ShownRun, run_output_options

if TYPE_CHECKING:
    from vsphere_ai.app import EstateRequest
    from vsphere_ai.runs.locks import Mode

HELP_ENTRY = "Change the environment", 40, "Destroy the VMs of sets, with all their disks."


@click.command("destroy")
@click.argument("what", metavar="PLAYBOOK|SET")
@variable_estate_options
@run_output_options
@lock_option
@yes_option
@destroy_option
@force_option
@click.option("--detach-disks", is_flag=True, help="Detach disks that are not the VMs' own; they stay.")
@dry_run_option
@example("destroy playbooks/training-set.yml --dry-run", needs=TRAINING)
def command(
    what: str, estate: EstateRequest, shown: ShownRun, lock: Mode | None, destroy: int | None, **flags: bool
) -> int:
    """Destroy all VMs of the sets of PLAYBOOK, or of the SET of that name, after showing them with their disks.

    Only VMs that carry the mark of the set go. Their number is asked for; without a terminal, give --yes --destroy N.
    Their addresses are released once all of them are gone. Nothing else of a playbook is carried out.

    Exits 0 when all is done and verified, 1 when the plan is refused or a step failed, 3 when another number was
    confirmed, 7 when another run works on the vCenter, 9 when the outcome of a change is not known.
    """
    from vsphere_ai import app

    with RunOutput(shown) as output:
        request = app.DestroyRequest(
            what, estate, confirm=output.confirm, lock=lock, destroy=destroy, dry_run=is_dry_run(), **flags
        )
        return output.exit_code(app.destroy(request, output.emit))
