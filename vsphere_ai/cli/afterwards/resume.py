"""`vsphere-ai resume`: brings a run to its end."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import click

from vsphere_ai.cli.console.defaults import EachTime
from vsphere_ai.cli.console.help_examples import example
from vsphere_ai.cli.console.options import (
    destroy_option,
    dry_run_option,
    is_dry_run,
    lock_option,
    moved_options,
    number_options,
    reboot_option,
    yes_to,
)
from vsphere_ai.cli.console.run_output import RunOutput, ShownRun, run_output_options
from vsphere_ai.errors import UsageError

if TYPE_CHECKING:
    from vsphere_ai.app import EstateRequest
    from vsphere_ai.app.runs.approval import ConfirmedCounts
    from vsphere_ai.runs.locks import Mode

HELP_ENTRY = "After a run", 20, "Bring an unfinished run to its end."


@click.command("resume")
@click.argument("run", required=False, default="")
@moved_options
@run_output_options
@lock_option
@yes_to("Do not ask, even when there is more to do than was approved.")
@dry_run_option
@number_options(destroy_option, reboot_option)
@click.option(
    "--reboot-again", cls=EachTime, is_flag=True, help="Let hosts reboot once more; makes a new run of what is left."
)
@click.option("--cleanup", is_flag=True, help="Only put back what the run has switched; change nothing more.")
@click.option("--from-vcenter", is_flag=True, help="Put back what vCenter says that a run of elsewhere has switched.")
@example("resume --cleanup", needs="a run that is not at its end")
def command(
    run: str, estate: EstateRequest, shown: ShownRun, lock: Mode | None, numbers: ConfirmedCounts, **more: bool
) -> int:
    """Bring RUN, or the latest unfinished run, to its end.

    Reads the environment again, plans what is left of what was approved, and puts back what is pending: hosts in
    maintenance mode, SSH that was started, VMs that were switched off. Asks again when there is more to do, when
    something that was done has to be done again, and when the run was rolled back or another one worked on the same
    vCenter since; what that one changed stays. Reboots no host a second time, unless --reboot-again allows it. Where
    the plan has problems, hosts and VMs are put back all the same, and nothing more is changed.

    --from-vcenter is for a run whose journal is lost, or on a machine that does not work any more: vCenter keeps what
    each run has out of service. What is back already, or was switched by someone else since, is not touched.

    Exits 0 when all is done and verified, 1 when the plan is refused or a step failed, 3 when another number was
    confirmed, 7 when another run works on the vCenter, 9 when the outcome of a change is not known.
    """
    from vsphere_ai import app

    _require_fitting(estate, **more)
    from_vcenter = more.pop("from_vcenter")
    with RunOutput(shown) as output:
        if from_vcenter:
            where = replace(estate, start_ssh=True)
            asked = app.FromVCenterRequest(run, where, more["yes"], output.confirm, lock, numbers, is_dry_run())
            return output.exit_code(app.resume_from_vcenter(asked, output.emit))
        given = asdict(numbers) | more
        request = app.ResumeRequest(
            run, estate.inventory, confirm=output.confirm, lock=lock, dry_run=is_dry_run(), **given
        )
        return output.exit_code(app.resume(request, output.emit))


def _require_fitting(estate: EstateRequest, **given: bool) -> None:
    """Refuse options that say nothing of what is to be resumed."""
    if estate.vcenter and not given["from_vcenter"]:
        raise UsageError("--vcenter is for --from-vcenter", "a run is resumed where it was", rule="usage.resume")
    if given["from_vcenter"] and given["reboot_again"]:
        text = "--from-vcenter only puts back what is out of service, and reboots nothing"
        raise UsageError(text, "leave --reboot-again out", rule="usage.resume")
