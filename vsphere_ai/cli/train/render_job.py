"""`vsphere-ai render` of a job's nodes: host files, settings and inventories for tools that own the job."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vsphere_ai.cli.console.events import show_event
from vsphere_ai.cli.console.options import FILE, variable_options
from vsphere_ai.errors import UsageError

if TYPE_CHECKING:
    from vsphere_ai.app import EstateRequest
    from vsphere_ai.app.training.launch.export import ExportFinding

FORMATS = {
    "hostfile": "Write the host file of Open MPI, or check one.",
    "deepspeed": "Write the host file of DeepSpeed, or check one.",
    "accelerate": "Write the configuration of Accelerate for each machine, or check some.",
    "tf-config": "Write TF_CONFIG of TensorFlow for each task, or check some.",
    "nccl-env": "Write NCCL's settings as nccl.conf, or check them.",
    "ansible": "Write an inventory for Ansible, or check one.",
    "slurm": "Write files of Slurm, pyxis and enroot, or check them.",
}
_MORE = """{}

    The nodes are those of a training job, looked up now; what is written is read back before it is printed. With
    --check a FILE of this format is read as its own program reads it, without a connection: exits 1 where that program
    refuses the file or silently misreads it. Warnings, and what no rule is about, are printed. Changes nothing.
"""


def show_findings(file: str, findings: Sequence[ExportFinding]) -> int:
    """Print the findings of a checked file; return 1 where its reader refuses or misreads it, else 0."""
    for each in findings:
        click.echo(f"{file}{f':{each.line}' if each.line else ''}: {each.text}")
    if not findings:
        click.echo(f"{file}: no issues")
    return int(any(each.verdict == "fail" for each in findings))


def commands() -> list[click.Command]:
    """Return a command for each format."""
    return [_command(name, words) for name, words in FORMATS.items()]


def _command(name: str, words: str) -> click.Command:
    @click.command(name, short_help=words, help=_MORE.format(words))
    @click.option("-f", "--job", type=FILE, help="The job.")
    @click.option("--check", "checked", type=FILE, metavar="FILE", help="Check this file instead.")
    @variable_options
    def command(job: Path | None, checked: Path | None, estate: EstateRequest) -> int:
        if (job is None) == (checked is None):
            raise UsageError(
                "neither a job to write for nor a file to check was given", "give one of -f JOB and --check FILE"
            )
        from vsphere_ai import app

        if job is not None:
            click.echo(app.export_job(app.JobExportRequest(name, job, estate), show_event), nl=False)
            return 0
        found = app.check_job_export(name, checked or Path())
        return show_findings(str(checked), found)

    return command
