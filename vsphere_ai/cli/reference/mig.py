"""`vsphere-ai mig`: does a MIG layout fit on a GPU, how to get there, and which layouts are there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vsphere_ai.cli.console.events import show_event
from vsphere_ai.cli.console.forms import output_option
from vsphere_ai.cli.console.help_examples import example
from vsphere_ai.cli.console.options import FILE, changes_nothing, gathering, host_options

if TYPE_CHECKING:
    from vsphere_ai.app import EstateRequest
    from vsphere_ai.app.gpus.mig_layouts import LayoutRequest
    from vsphere_ai.documents.printed import PrintedDocument

HELP_ENTRY = "Look up, without a connection", 30, "Explain MIG layouts, and what leads to them."
_DRIVER = click.option(
    "--driver",
    type=click.IntRange(min=300, max=9999),
    help="Driver branch on the host, e.g. 470; a current one is assumed without it.",
)
_LAYOUT = (
    click.argument("layout", nargs=-1, required=True, type=click.UNPROCESSED, callback=lambda _c, _p, v: " ".join(v)),
    click.option("--from", "current", default="", metavar="NOW", help="Current layout: 3g.20gb:4,1g.5gb:0."),
    click.option(
        "--in-use", multiple=True, metavar="ITEM", help="One of these that is in use: 1g.5gb:0 or 1g.5gb:0=train-03."
    ),
    _DRIVER,
)
# Unknown options are part of a layout: an operator may paste a whole nvidia-smi command.
_PASTED = {"ignore_unknown_options": True}


def _layout_request() -> type[LayoutRequest]:
    from vsphere_ai.app.gpus.mig_layouts import LayoutRequest

    return LayoutRequest


_layout_options = gathering("request", _layout_request, *_LAYOUT)


@click.group("mig")
def command() -> None:
    """Explain MIG layouts, and how to get from one to another."""


@command.command("explain", context_settings=_PASTED)
@_layout_options
@click.option("--gpu", default="", metavar="BOARD", help="Board, e.g. a100-40gb.")
@click.option(
    "--xml",
    type=click.Path(path_type=Path, allow_dash=True),
    help="Take board and driver from a saved answer of nvidia-smi -q -x.",
)
@output_option()
@changes_nothing
@example("mig explain 3g.20gb,3g.20gb --gpu a100-40gb")
def explain_layout(request: LayoutRequest, form: str) -> None:
    """Explain whether LAYOUT fits on one GPU, where, or why not and what would.

    LAYOUT is a list such as 19,14,9 or 3g.20gb,2g.10gb:0, or a pasted nvidia-smi command. With --from: whether it can
    be reached from the current layout, and what has to go. Exits 1 when it cannot.
    """
    from vsphere_ai.app.gpus.mig_layouts import explain, is_impossible
    from vsphere_ai.documents.gpus.mig import MigLayoutDocument
    from vsphere_ai.report.gpus import mig_text as text

    found = explain(request)
    answer, lines = text.explained(found.case, found.pooled)
    document = MigLayoutDocument.model_validate({**answer.keywords, "notes": found.notes})
    _echo(form, document, [*lines, *text.note_lines(found.notes)])
    _exit(impossible=is_impossible(found.case))


@command.command(context_settings=_PASTED)
@_layout_options
@click.option("--gpu", default="", metavar="BOARD", help="Board, e.g. a100-40gb; with --host a PCI address.")
@click.option("--host", default="", metavar="HOST", help="Read the current layout from this ESXi host.")
@host_options
@output_option()
@changes_nothing
@example("mig plan 3g.20gb,3g.20gb --gpu a100-40gb --from 1g.5gb:1")
def plan(request: LayoutRequest, host: str, estate: EstateRequest, form: str) -> None:
    """Print the commands that lead to LAYOUT, in order; changes nothing.

    LAYOUT [] is the empty one. Destroys as few instances as any way does, and never one in use; switches MIG on first
    where the host's GPU has it off. Without --host the GPU is as --from says, empty by default. Exits 1 when there is
    no way.
    """
    from vsphere_ai.app.gpus.mig_layouts import is_impossible, plan_layout
    from vsphere_ai.documents.gpus.mig import MigLayoutDocument
    from vsphere_ai.report.gpus import mig_text as text

    if host:
        _plan_host(request, replace(estate, limit=host), form)
        return
    case = plan_layout(request)
    _echo(form, MigLayoutDocument.model_validate(text.case_part(case).keywords), text.case_lines(case))
    _exit(impossible=is_impossible(case))


@command.command("layouts")
@click.argument("board_key", metavar="BOARD")
@_DRIVER
@output_option()
@changes_nothing
@example("mig layouts a100-40gb")
def list_layouts(board_key: str, *, driver: int | None, form: str) -> None:
    """List the MIG profiles of BOARD and every layout that fills it.

    Layouts are made of the plain profiles; those with media extensions or double memory are listed, not combined.

    Exits 0, and 64 for a board that is not known.
    """
    from vsphere_ai.app.gpus.mig_layouts import full_layouts
    from vsphere_ai.report.gpus import mig_text as text

    board, chosen = full_layouts(board_key, driver)
    _echo(form, text.layouts_document(board, chosen), text.layouts_lines(board, chosen))


@command.command("parted")
@click.argument("file", required=False, type=FILE)
@click.argument("config", required=False, default="")
@click.option("--gpu", default="", metavar="BOARD", help="Board to check against, e.g. a100-40gb.")
@click.option("--host", default="", metavar="HOST", help="ESXi host to check against: its own GPUs.")
@click.option("--from-host", default="", metavar="HOST", help="Write the MIG state of this host as such a file.")
@host_options
@output_option()
@changes_nothing
@example("mig parted --from-host esx01.lab.local")
def parted(file: Path | None, config: str, estate: EstateRequest, form: str, **where: str) -> None:
    """Check the configurations of NVIDIA's mig-parted, and say them as a play; or write such a file.

    FILE is a configuration file of mig-parted (version: v1), CONFIG one of its configurations; all are checked without
    it. Exits 1 when one does not fit.
    """
    from vsphere_ai.app.gpus import mig_parted
    from vsphere_ai.errors import UsageError

    given = [name for name in where.values() if name]
    if len(given) != 1 or (file is None) != bool(where["from_host"]):
        raise UsageError("nothing to check was given", "give FILE and --gpu or --host, or only --from-host")
    if file is None:
        click.echo(mig_parted.written(replace(estate, limit=given[0]), show_event), nl=False)
        return
    if where["gpu"]:
        checked = mig_parted.checked_on_board(file, config, given[0], show_event)
    else:
        checked = mig_parted.checked_on_host(file, config, replace(estate, limit=given[0]), show_event)
    _echo(form, mig_parted.document(checked), mig_parted.lines(checked))
    _exit(impossible=any(each.reasons for each in checked))


def _plan_host(request: LayoutRequest, host: EstateRequest, form: str) -> None:
    from vsphere_ai.app.gpus.mig_host import cases
    from vsphere_ai.app.gpus.mig_layouts import is_impossible, items_of
    from vsphere_ai.documents.gpus.mig import MigGpuDocument, MigHostDocument
    from vsphere_ai.errors import UsageError
    from vsphere_ai.report.gpus import mig_text as text

    items = items_of(request.layout)
    if request.current or request.in_use or request.driver:
        given = "--from, --in-use and --driver are read from the host"
        raise UsageError(given, "leave them out beside --host")
    found = cases(items, request.gpu, host, show_event)
    gpus = (
        MigGpuDocument.model_validate({**text.case_part(case).keywords, "pci": pci, "notes": case.notes})
        for pci, case in found.items()
    )
    lines = "\n\n".join("\n".join(text.case_lines(case)) for case in found.values())
    _echo(form, MigHostDocument(host=host.limit, gpus=tuple(gpus)), [lines])
    _exit(impossible=any(map(is_impossible, found.values())))


def _exit(*, impossible: bool) -> None:
    if impossible:
        click.get_current_context().exit(1)


def _echo(form: str, document: PrintedDocument, lines: Iterable[str]) -> None:
    from vsphere_ai.report.json_text import json_text

    click.echo(json_text(document) if form == "json" else "\n".join(lines))
