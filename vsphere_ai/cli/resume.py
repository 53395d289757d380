"""`vsphere-ai resume`: brings a run to its end."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vsphere_ai.cli.options import destroy_option, lock_option, moved_inventory_option, number_options, reboot_option
from vsphere_ai.cli.run_output import RunOutput, Shown, run_output_options

if TYPE_CHECKING:
    from vsphere_ai.app.approval import Numbers
    from vsphere_ai.runs.locks import Mode


@click.command("resume")
@click.argument("run", required=False, default="")
@moved_inventory_option
@run_output_options
@lock_option
@click.option("--yes", is_flag=True, help="Do not ask, even when there is more to do than was approved.")
@number_options(destroy_option, reboot_option)
@click.option("--reboot-again", is_flag=True, help="Let hosts reboot once more; makes a new run of what is left.")
@click.option("--cleanup", is_flag=True, help="Only put back what the run has switched; change nothing more.")
def command(run: str, inventory: Path | None, shown: Shown, lock: Mode | None, numbers: Numbers, **more: bool) -> int:
    """Bring RUN, or the latest unfinished run, to its end.

    Reads the estate again, plans what is left of what was approved, and puts back what is pending: hosts in
    maintenance mode, SSH that was started, VMs that were switched off. Asks again when there is more to do, when
    something that was done has to be done again, and when the run was rolled back or another one worked on the same
    vCenter since; what that one changed stays. Reboots no host a second time, unless --reboot-again allows it. Where
    the plan has problems, hosts and VMs are put back all the same, and nothing more is changed.
    """
    from vsphere_ai import app

    with RunOutput(shown) as output:
        given = asdict(numbers) | more
        request = app.ResumeRequest(run, inventory, confirm=output.confirm, lock=lock, **given)
        return output.exit_code(app.resume(request, output.emit))
