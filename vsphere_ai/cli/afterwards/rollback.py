"""`vsphere-ai rollback`: reverts a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict, Unpack

import click

from vsphere_ai.cli.console.help_examples import example
from vsphere_ai.cli.console.options import (
    dry_run_option,
    is_dry_run,
    lock_option,
    moved_inventory_option,
    number_options,
    reboot_option,
    yes_option,
)
from vsphere_ai.cli.console.run_output import RunOutput, ShownRun, run_output_options

if TYPE_CHECKING:
    from vsphere_ai.app.runs.approval import ConfirmedCounts
    from vsphere_ai.runs.locks import Mode

HELP_ENTRY = "After a run", 30, "Revert a run."


class _Flags(TypedDict):
    yes: bool
    evacuate: Literal["refuse", "power_off", "vmotion"] | None


@click.command("rollback")
@click.argument("run")
@moved_inventory_option
@run_output_options
@lock_option
@yes_option
@dry_run_option
@number_options(reboot_option)
@click.option(
    "--evacuate",
    type=click.Choice(["refuse", "power_off", "vmotion"]),
    help="VMs on hosts that enter maintenance mode.  [default: as in the run's playbook]",
)
@example("rollback RUN --dry-run")
def command(
    run: str,
    inventory: Path | None,
    shown: ShownRun,
    lock: Mode | None,
    numbers: ConfirmedCounts,
    **flags: Unpack[_Flags],
) -> int:
    """Revert RUN to the state before its first change; shown and approved like any plan.

    A hardware version cannot go back, and settings that only follow from others (reservations, MMIO) are not reverted.
    The plan names all of these.

    Exits 0 when all is done and verified, 1 when the plan is refused or a step failed, 3 when another number was
    confirmed, 7 when another run works on the vCenter, 9 when the outcome of a change is not known.
    """
    from vsphere_ai import app

    with RunOutput(shown) as output:
        request = app.RollbackRequest(
            *(run, inventory, flags["yes"], output.confirm, lock, numbers.reboot, flags["evacuate"]),
            dry_run=is_dry_run(),
        )
        return output.exit_code(app.rollback(request, output.emit))
