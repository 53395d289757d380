"""`vsphere-ai render` of a job's nodes: host files, settings and inventories for tools that own the job."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vsphere_ai.cli.console.events import show_event
from vsphere_ai.cli.console.findings import Look, fail_on_option, show_findings
from vsphere_ai.cli.console.forms import output_option
from vsphere_ai.cli.console.help_examples import JOB, example
from vsphere_ai.cli.console.options import FILE, changes_nothing, variable_options
from vsphere_ai.cli.train.options import job_option
from vsphere_ai.errors import UsageError

if TYPE_CHECKING:
    from vsphere_ai.app import EstateRequest
    from vsphere_ai.model.finding import FailOn, Finding, Subject

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
    --check a FILE of this format is read as its own program reads it, without a connection: exits 2 where that program
    refuses the file or silently misreads it, else 0. Warnings, and what no rule is about, are printed. Without --check:
    0 when it is written, 1 when the job is refused. Changes nothing.
"""


def show_checked(findings: Sequence[Finding[Subject]], file: Path, form: str, fail_on: FailOn) -> int:
    """Print the findings of a checked file, and return the exit code; a file without any has passed."""
    from vsphere_ai.documents.network.manifests import CheckedFileDocument
    from vsphere_ai.model.finding import Finding, Subject

    passed = Finding(Subject("file", str(file)), "export", "pass", "no issues")
    return show_findings(findings or (passed,), form, fail_on, CheckedFileDocument.of, Look(wraps=False))


def commands() -> list[click.Command]:
    """Return a command for each format."""
    return [_command(name, words) for name, words in FORMATS.items()]


def _command(name: str, words: str) -> click.Command:
    @click.command(name, short_help=words, help=_MORE.format(words))
    @job_option(required=False)
    @click.option("--check", "checked", type=FILE, metavar="FILE", help="Check this file instead.")
    @variable_options
    @output_option()
    @fail_on_option
    @changes_nothing
    @example(f"render {name} -f job.yml", needs=JOB)
    def command(job: Path | None, checked: Path | None, estate: EstateRequest, form: str, fail_on: FailOn) -> int:
        if (job is None) == (checked is None):
            raise UsageError(
                "neither a job to write for nor a file to check was given", "give one of -f JOB and --check FILE"
            )
        from vsphere_ai import app

        if job is not None:
            if form != "text":
                raise UsageError(f"-o {form} is a form of findings, and a job is written", "add --check FILE")
            click.echo(app.export_job(app.JobExportRequest(name, job, estate), show_event), nl=False)
            return 0
        file = checked or Path()
        return show_checked(app.check_job_export(name, file), file, form, fail_on)

    return command
