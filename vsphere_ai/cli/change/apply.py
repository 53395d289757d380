"""`vsphere-ai apply`: carries out a playbook, or a saved plan exactly as it was shown."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vsphere_ai.cli.change.plan import show_plan
from vsphere_ai.cli.console.help_examples import example
from vsphere_ai.cli.console.options import (
    FILE,
    destroy_option,
    dry_run_option,
    is_dry_run,
    lock_option,
    login_option,
    number_options,
    playbook_options,
    reboot_option,
    says_yes,
    yes_option,
)
from vsphere_ai.cli.console.run_output import RunOutput, ShownRun, run_output_options
from vsphere_ai.errors import UsageError

if TYPE_CHECKING:
    from vsphere_ai.app import EstateRequest
    from vsphere_ai.app.runs.approval import ConfirmedCounts
    from vsphere_ai.runs.locks import Mode

HELP_ENTRY = "Change the environment", 20, "Carry out a playbook or a saved plan."


@click.command("apply")
@click.argument("what", metavar="PLAYBOOK|PLAN.json", type=FILE)
@playbook_options
@login_option
@run_output_options
@lock_option
@yes_option
@dry_run_option
@number_options(destroy_option, reboot_option)
@click.option("--resume", is_flag=True, help="First finish earlier runs that have left something to put back.")
@example("apply playbooks/ai-ready-cluster.yml --yes")
@example("apply playbooks/ai-ready-cluster.yml --limit esx01.lab.local --dry-run")
def command(
    what: Path, estate: EstateRequest, shown: ShownRun, lock: Mode | None, numbers: ConfirmedCounts, **flags: bool
) -> int:
    """Carry out a playbook, or a plan saved with `plan --to`, after showing it and asking for a yes.

    A saved plan is refused when it was edited, or when the environment changed since the plan was made. Where VMs
    are destroyed, their number is asked for: --yes alone is not enough, and neither is a saved plan. Where several
    hosts reboot, their number is asked for instead of a yes; --reboot N refuses any other number. Nothing is called
    done that was not read back. Ctrl-C finishes what is in flight and starts nothing more. A run that was cut off is
    brought to its end with `resume`; while one has left something to put back, this never exits 0.

    --dry-run is `plan`; of a saved plan it shows whether it is still what would be done.
    """
    from vsphere_ai import app

    yes, first = flags["yes"], flags["resume"]
    if is_dry_run() and first:
        raise UsageError("--resume finishes earlier runs, which --dry-run does not", "leave one of them out")
    if is_dry_run() and what.suffix != ".json":
        return show_plan(what, estate, shown.form, full=shown.full)
    asks = _finishes_first if sys.stdin.isatty() and not yes and what.suffix != ".json" else None
    with RunOutput(shown) as output:
        request = app.ApplyRequest(
            *(what, estate, yes, output.confirm, lock, first, asks, numbers.destroy, numbers.reboot),
            dry_run=is_dry_run(),
        )
        return output.exit_code(app.apply(request, output.emit))


def _finishes_first(run: str) -> bool:
    return says_yes(f"Finish run {run} first? Only 'yes' does")
