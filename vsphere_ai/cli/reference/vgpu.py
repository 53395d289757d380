"""`vsphere-ai vgpu`: the vGPU types of a board, as vSphere names them."""

from __future__ import annotations

import click

from vsphere_ai.cli.console.forms import output_option
from vsphere_ai.cli.console.help_examples import example
from vsphere_ai.cli.console.options import changes_nothing

HELP_ENTRY = "Look up, without a connection", 40, "List the vGPU types of a board."


@click.group("vgpu")
def command() -> None:
    """List the vGPU types of a board; needs no connection."""


@command.command("list")
@click.argument("board_key", metavar="[BOARD]", required=False)
@output_option(names="boards.board")
@changes_nothing
@example("vgpu list a100-40gb")
def list_types(board_key: str | None, *, form: str) -> None:
    """List the vGPU types of BOARD by product and PCI device id, or the boards that have any.

    The list is NVIDIA's; what a host really offers is in its own list, which `vsphere-ai show` and `plan` go by.

    Exits 0, and 64 for a board that is not known.
    """
    from vsphere_ai.documents.gpus.vgpu_types import VgpuTypesDocument
    from vsphere_ai.report.gpus.vgpu_text import board_types, boards_text
    from vsphere_ai.report.json_text import json_text

    boards = board_types(board_key)
    document = VgpuTypesDocument(boards=tuple(boards))
    click.echo(json_text(document) if form == "json" else boards_text(boards, overview=not board_key))
