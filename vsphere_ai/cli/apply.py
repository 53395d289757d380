"""`vsphere-ai apply`: carries out a playbook, or a saved plan exactly as it was shown."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vsphere_ai.cli.options import estate_options, estate_request, format_option, lock_option, login_option, says_yes
from vsphere_ai.cli.run_output import RunOutput

if TYPE_CHECKING:
    from vsphere_ai.runs.locks import Mode


@click.command("apply")
@click.argument("what", metavar="PLAYBOOK|PLAN.json", type=click.Path(path_type=Path, dir_okay=False))
@estate_options
@login_option
@format_option("text", "json")
@lock_option
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--resume", is_flag=True, help="First finish earlier runs that have left something to put back.")
def command(what: Path, form: str, lock: Mode | None, yes: bool, resume: bool, **shared: Any) -> int:
    """Carry out a playbook, or a plan saved with `plan -o`, after showing it and asking for a yes.

    A saved plan is refused when it was edited, or when the estate is not as it was when the plan was made. Nothing is
    called done that was not read back. Ctrl-C finishes what is in flight and starts nothing more. A run that was cut
    off is brought to its end with `resume`; while one has left something to put back, this never exits 0.
    """
    from vsphere_ai import app

    asks = sys.stdin.isatty() and not yes and what.suffix != ".json"
    with RunOutput(form) as output:
        request = app.ApplyRequest(
            what,
            estate_request(shared),
            yes,
            output.confirm,
            lock,
            resume_first=resume,
            confirm_resume=_finishes_first if asks else None,
        )
        return output.exit_code(app.apply(request, output.emit))


def _finishes_first(run: str) -> bool:
    return says_yes(f"Finish run {run} first? Only 'yes' does")
