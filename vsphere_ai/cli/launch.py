"""`vsphere-ai launch`: distributed training on the VMs of a set, by the launcher of a framework."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from vsphere_ai.cli.events import show_event
from vsphere_ai.cli.options import FILE, format_option, vcenter_options

if TYPE_CHECKING:
    from vsphere_ai.app import EstateRequest
    from vsphere_ai.training.job import Mode

MODES = {
    "torchrun": "PyTorch: torchrun on each node starts its processes",
    "env": "one process per GPU, with the variables of its rank",
    "mpi": "Open MPI: mpirun on the first node",
    "horovod": "Horovod: horovodrun, or mpirun, on the first node",
    "deepspeed": "DeepSpeed: its launcher on each node, or on the first",
    "accelerate": "Hugging Face Accelerate, on each node",
    "lightning": "Lightning: by torchrun, or one process per GPU",
    "tensorflow": "TensorFlow: a process per task, with TF_CONFIG",
}
MODE = "MODE"


class Modes(click.Group):
    """One command for all modes, which comes by the name of each."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Give the name of a mode to the command as its first argument."""
        if args and args[0] in MODES:
            return args[0], self.commands[MODE], args
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the modes, then the other commands."""
        with formatter.section("Modes"):
            formatter.write_dl(list(MODES.items()))
        others = [(n, c.get_short_help_str(limit=90)) for n, c in self.commands.items() if n != MODE]
        if others:
            with formatter.section("Commands"):
                formatter.write_dl(others)


@click.group("launch", cls=Modes, subcommand_metavar="MODE -f FILE | COMMAND")
def command() -> None:
    """Launch a training job on the VMs of a set."""


@command.command(MODE)
@click.argument("mode", type=click.Choice(tuple(MODES)), metavar="")
@click.option("-f", "--job", type=FILE, required=True, help="The job.")
@click.option("--print", "printing", is_flag=True, help="Print the commands of every node; connect to no guest.")
@vcenter_options
@format_option()
def launch_mode(mode: Mode, job: Path, printing: bool, form: str, estate: EstateRequest) -> int:
    """Launch a job on the VMs of the set that it names.

    The nodes are looked up now, and refused where a VM is not as its playbook says. With --print nothing is started:
    every command is printed per node, with its variables and their reasons.
    """
    from vsphere_ai import app
    from vsphere_ai.report.json_text import json_text
    from vsphere_ai.report.launch_text import launch_document, launch_text

    if not printing:
        raise click.UsageError("give --print")
    made = app.planned_launch(app.LaunchRequest(job, mode, estate), show_event)
    click.echo(json_text(**launch_document(made)) if form == "json" else launch_text(made), nl=form == "json")
    return 0
