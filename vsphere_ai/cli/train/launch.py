"""`vsphere-ai launch`: distributed training on the VMs of a set, by the launcher of a framework."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vsphere_ai.cli.console.events import show_event
from vsphere_ai.cli.console.forms import output_option
from vsphere_ai.cli.console.help_examples import JOB, example
from vsphere_ai.cli.console.options import (
    changes_nothing,
    dry_run_option,
    gathering,
    is_dry_run,
    variable_options,
)
from vsphere_ai.cli.train.options import job_option, preflight_option
from vsphere_ai.errors import VsphereAiError
from vsphere_ai.model.names.suggestion import suggest

if TYPE_CHECKING:
    from vsphere_ai.app import EstateRequest, LaunchRequest
    from vsphere_ai.app.training.launch.watch import JobRun

HELP_ENTRY = "Train", 20, "Launch a training job on the VMs of a set."
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

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the modes, then the other commands."""
        return [*MODES, *(name for name in super().list_commands(ctx) if name != MODE)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the one command of all modes, or another one."""
        return self.commands[MODE] if cmd_name in MODES else super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Give the name of a mode to the command as its first argument."""
        if args and args[0] in MODES:
            return args[0], self.commands[MODE], args
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            raise click.UsageError(
                f"No such mode or command '{args[0]}'; {suggest(args[0], self.list_commands(ctx), 'there are')}", ctx
            )
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


_JOB = job_option(required=True)


def _request() -> type[LaunchRequest]:
    from vsphere_ai.app import LaunchRequest

    return LaunchRequest


@command.command(MODE)
@dry_run_option
@click.option("--wait", is_flag=True, help="Wait until the run has ended.")
@variable_options
@gathering(
    "request",
    _request,
    click.argument("mode", type=click.Choice(tuple(MODES)), metavar=""),
    _JOB,
    preflight_option,
)
@output_option()
@example("launch torchrun -f job.yml --dry-run", needs=JOB)
def launch_mode(wait: bool, form: str, request: LaunchRequest) -> int:
    """Launch a job on the VMs of the set that it names.

    The nodes are looked up now, and refused where a VM is not as its playbook says. Processes are started over SSH and
    go on by themselves: when one fails, all are stopped. With --dry-run nothing is started: the commands of each node
    are printed, with their variables and reasons; guests are asked for their RDMA devices, except with --no-preflight.
    Exits 1 where the job does not start, or with --wait where it failed.
    """
    from vsphere_ai import app
    from vsphere_ai.report.json_text import json_text
    from vsphere_ai.report.training.launch_text import launch_document, launch_text

    if is_dry_run():
        made = app.planned_launch(request, show_event)
        click.echo(json_text(launch_document(made)) if form == "json" else launch_text(made), nl=form == "json")
        return 0
    found = app.start_job(request, show_event)
    if wait:
        found = app.wait_for_run(app.RunRequest(request.job, found.run, request.estate), show_event)
    return _show(found, form)


def _run_options(function: Callable[..., int]) -> Callable[..., int]:
    run = click.option("--run", default="", metavar="NAME", help="Which run. [default: the newest]")
    return _JOB(run(variable_options(output_option()(function))))


@command.command("status")
@_run_options
@changes_nothing
@example("launch status -f job.yml", needs="a run of job.yml")
def status(job: Path, run: str, form: str, estate: EstateRequest) -> int:
    """Show how a run of a job stands on each of its nodes, and whether it gets on.

    Its steps are read from its logs, and NCCL is asked about its ranks: a rank that holds up the others is named with
    its VM, ESXi host and GPU. Exits 1 where it failed or hangs, where a node cannot be asked, and where its supervisor
    is gone before the end. Changes nothing.
    """
    from vsphere_ai import app

    return _show(app.watch_run(app.RunRequest(job, run, estate), show_event), form)


@command.command("stop")
@_run_options
@dry_run_option
@example("launch stop -f job.yml", needs="a run of job.yml")
def stop(job: Path, run: str, form: str, estate: EstateRequest) -> int:
    """Stop a run of a job on all its nodes.

    Its processes are asked to end, killed after the job's time of grace, and looked for afterwards, also with
    nvidia-smi where there is one. Exits 1 where a process is left. With --dry-run the run is shown, as by `status`.
    """
    from vsphere_ai import app

    act = app.watch_run if is_dry_run() else app.stop_run
    return _show(act(app.RunRequest(job, run, estate), show_event), form)


@command.command("logs")
@_run_options
@changes_nothing
@example("launch logs -f job.yml", needs="a run of job.yml")
def logs(job: Path, run: str, form: str, estate: EstateRequest) -> int:
    """Print the ends of what the processes of a run wrote, by node and process.

    Exits 1 where a node cannot be asked.
    """
    from vsphere_ai import app
    from vsphere_ai.report.json_text import json_text
    from vsphere_ai.report.training.launch_text import logs_document, logs_text

    found = app.run_logs(app.RunRequest(job, run, estate), show_event)
    click.echo(json_text(logs_document(found)) if form == "json" else logs_text(found), nl=form == "json")
    return int(any(isinstance(each, VsphereAiError) for each in found.logs.values()))


def _show(found: JobRun, form: str) -> int:
    from vsphere_ai.report.json_text import json_text
    from vsphere_ai.report.training.launch_text import run_document, run_text

    click.echo(json_text(run_document(found)) if form == "json" else run_text(found), nl=form == "json")
    return found.exit_code
