"""Options that several commands about training share: sets, jobs, attestations, programs in guests."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

from vsphere_ai.cli.console.options import FILE

F = TypeVar("F", bound=Callable[..., int | None])

baseline_option = click.option("--baseline", type=FILE, help="Compare with these figures.")
preflight_option = click.option(
    "--no-preflight", "preflight", is_flag=True, flag_value=False, default=True, help="Do not ask guests first."
)
tolerance_option = click.option(
    "--tolerance", type=click.FloatRange(0, 1), default=0.1, show_default=True, help="Share below the baseline."
)
profile_option = click.option("--profile", type=FILE, help="What a healthy VM is like: vsphere-ai health --learn.")
slowdown_option = click.option(
    "--slowdown", type=click.FloatRange(0.01, 0.9), default=0.25, show_default=True, help="Share to look for."
)
suffix_option = click.option(
    "--suffix", default="", metavar="TEXT", help="Suffix of the programs of nccl-tests, such as _mpi."
)
python_option = click.option(
    "--python", default="python3", show_default=True, metavar="PATH", help="Their Python with PyTorch."
)

tensor_option = click.option(
    "--tensor", type=click.IntRange(1, 1_000_000), default=1, show_default=True, help="GPUs that share each layer."
)


def set_option(name: str = "set") -> Callable[[F], F]:
    """Add ``--set``, which a command gets by that name."""
    return click.option("--set", name, default="", metavar="NAME", help="Set of the playbook, where it has several.")


def job_option(*, required: bool) -> Callable[[F], F]:
    """Add ``-f``, ``--job``: the file of a training job."""
    return click.option("-f", "--job", type=FILE, required=required, help="The job.")


def attest_option(name: str) -> Callable[[F], F]:
    """Add ``--attest``, the file of attestations, which a command gets by that name."""
    return click.option("--attest", name, type=FILE, help="File of attestations (manual checks).")


def run_timeout_option(seconds: float) -> Callable[[F], F]:
    """Add ``--timeout``: how long a program in guests may run."""
    return click.option(
        "--timeout", type=click.FloatRange(1), default=seconds, show_default=True, help="Seconds that a run may take."
    )


def learn_option(what: str) -> Callable[[F], F]:
    """Add ``--learn FILE``, where a command writes what later ones are compared with; `what` it is."""
    return click.option("--learn", "learned", type=FILE, help=f"Write {what}.")
