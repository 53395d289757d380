"""`vsphere-ai calculate`: checkpoints and memory of training, by published formulas; needs no connection."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vsphere_ai.cli.console.forms import output_option
from vsphere_ai.cli.console.help_examples import example
from vsphere_ai.cli.console.options import changes_nothing, gathering
from vsphere_ai.cli.train.options import tensor_option

if TYPE_CHECKING:
    from vsphere_ai.app import CheckpointRequest, MemoryRequest

HELP_ENTRY = "Look up, without a connection", 50, "Calculate checkpoints and memory of training."
_MANY = click.IntRange(1, 1_000_000)
_OR_NOT = click.IntRange(0, 1_000_000)


def _checkpoint() -> type[CheckpointRequest]:
    from vsphere_ai.app import CheckpointRequest

    return CheckpointRequest


def _memory() -> type[MemoryRequest]:
    from vsphere_ai.app import MemoryRequest

    return MemoryRequest


@click.group("calculate")
def command() -> None:
    """Calculate checkpoints and memory of training; needs no connection."""


@command.command("checkpoint")
@gathering(
    "request",
    _checkpoint,
    click.option("--size", default="", metavar="SIZE", help="Size of a checkpoint, such as 2.3TiB."),
    click.option("--params", "parameters", default="", metavar="COUNT", help="Parameters of the model, such as 175B."),
    click.option(
        "--bytes-per-param", "bytes_each", type=click.FloatRange(0.1, 64), default=14.0, show_default=True, metavar="N"
    ),
    click.option("--rate", required=True, metavar="RATE", help="Write rate of the storage: 19.2GB/s, 200Gb/s."),
    click.option("--mtbf", default="", metavar="TIME", help="Mean time between failures of one node, such as 400h."),
    click.option("--nodes", type=_MANY, default=1, show_default=True, help="Nodes of the job."),
)
@output_option()
@changes_nothing
@example("calculate checkpoint --size 2.3TiB --rate 19.2GB/s --mtbf 400h --nodes 64")
def checkpoint(request: CheckpointRequest, form: str) -> int:
    """Show the size of a checkpoint, the time to write it, and with --mtbf how often to write one.

    Units are as they are written: GB are 10^9 bytes, GiB 2^30, Gb 10^9 bits.

    Exits 0.
    """
    from vsphere_ai import app
    from vsphere_ai.report.json_text import json_text
    from vsphere_ai.report.training.calculate_text import checkpoint_document, checkpoint_text

    found = app.calculate_checkpoints(request)
    click.echo(json_text(checkpoint_document(found)) if form == "json" else checkpoint_text(found), nl=form == "json")
    return 0


@command.command("memory")
@gathering(
    "request",
    _memory,
    click.option("--params", "parameters", required=True, metavar="COUNT", help="Parameters of the model: 7B, 350M."),
    click.option("--gpus", type=_MANY, default=1, show_default=True, help="GPUs of the job."),
    tensor_option,
    click.option("--pipeline", type=_MANY, default=1, show_default=True, help="Stages of the pipeline."),
    click.option("--zero", type=click.IntRange(0, 3), default=0, show_default=True, help="Stage of ZeRO or FSDP (3)."),
    click.option("--memory", default="", metavar="SIZE", help="Memory of a GPU, or of its vGPU profile: 40GB."),
    click.option("--layers", type=_OR_NOT, default=0, metavar="N", help="Shape of the model, for its activations."),
    click.option("--hidden", type=_OR_NOT, default=0, metavar="N"),
    click.option("--heads", type=_OR_NOT, default=0, metavar="N"),
    click.option("--sequence", type=_OR_NOT, default=0, metavar="N"),
    click.option("--micro-batch", type=_MANY, default=1, show_default=True),
    click.option("--recompute", type=click.Choice(("none", "selective", "full")), default="selective"),
)
@output_option()
@changes_nothing
@example("calculate memory --params 7B --gpus 8 --zero 2 --memory 40GB")
def memory(request: MemoryRequest, form: str) -> int:
    """Show what training a transformer with Adam in mixed precision takes of each GPU.

    Exits 1 where it is more than --memory.
    """
    from vsphere_ai import app
    from vsphere_ai.report.json_text import json_text
    from vsphere_ai.report.training.calculate_text import memory_document, memory_text

    found, have = app.calculate_memory(request)
    text = json_text(memory_document(found, have)) if form == "json" else memory_text(found, have)
    click.echo(text, nl=form == "json")
    return int(have is not None and found.total > have)
