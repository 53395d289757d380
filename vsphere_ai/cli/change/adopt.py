"""`vsphere-ai adopt`: imports existing VMs into a set."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from vsphere_ai.cli.console.help_examples import example
from vsphere_ai.cli.console.options import (
    FILE,
    dry_run_option,
    is_dry_run,
    lock_option,
    variable_run_options,
    yes_option,
)
from vsphere_ai.cli.console.run_output import RunOutput, ShownRun, run_output_options

if TYPE_CHECKING:
    from vsphere_ai.app import EstateRequest
    from vsphere_ai.runs.locks import Mode

HELP_ENTRY = "Change the environment", 60, "Import existing VMs into a set; nothing of them changes."


@click.command("adopt")
@click.argument("playbook", type=FILE)
@click.argument("vms", metavar="VM...", nargs=-1, required=True)
@variable_run_options
@run_output_options
@lock_option
@yes_option
@dry_run_option
@example("adopt playbooks/training-set.yml train-02", needs="a VM that no set has yet")
def command(
    playbook: Path, vms: tuple[str, ...], estate: EstateRequest, shown: ShownRun, lock: Mode | None, **flags: bool
) -> int:
    """Import existing VMs into a set: those that PLAYBOOK names, and that were made without it.

    Their marks are written, and the leases of the addresses that their guests report. Nothing else of them changes, and
    they may run; `plan` shows afterwards in what they differ from the set. From then on the set may destroy them.

    Exits 0 when all is done and verified, 1 when the plan is refused or a step failed, 3 when another number was
    confirmed, 7 when another run works on the vCenter, 9 when the outcome of a change is not known.
    """
    from vsphere_ai import app

    with RunOutput(shown) as output:
        request = app.AdoptRequest(
            playbook, vms, estate, confirm=output.confirm, lock=lock, dry_run=is_dry_run(), **flags
        )
        return output.exit_code(app.adopt(request, output.emit))
