"""`vsphere-ai mig`: does a MIG layout fit on a GPU, how to get there, and which layouts are there."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from vsphere_ai.gpu.catalog import Board
    from vsphere_ai.gpu.layout import Item
    from vsphere_ai.gpu.placement import Instance

_FORMAT = click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="Output format.")
_DRIVER = click.option(
    "--driver",
    type=click.IntRange(min=300, max=9999),
    help="Driver branch on the host, e.g. 470; a current one is assumed without it.",
)
_FROM = click.option("--from", "current", default="", metavar="NOW", help="What stands there: 3g.20gb:4,1g.5gb:0.")
_IN_USE = click.option(
    "--in-use", multiple=True, metavar="ITEM", help="One of these that is in use: 1g.5gb:0 or 1g.5gb:0=train-03."
)
_INVENTORY = click.option(
    "-i", "--inventory", type=click.Path(path_type=Path, dir_okay=False), help="Inventory file, to read a host."
)
_VCENTER = click.option("--vcenter", default="", metavar="NAME", help="Which vCenter of the inventory.")
_START_SSH = click.option(
    "--start-ssh", is_flag=True, help="Allow to start a stopped SSH service for reading (stopped again)."
)
EMPTY_LAYOUT = ("", "[]")
# Unknown options are part of a layout: an operator may paste a whole nvidia-smi command.
_PASTED = {"ignore_unknown_options": True}


@click.group("mig")
def command() -> None:
    """Explain MIG layouts, and how to get from one to another."""


@command.command(context_settings=_PASTED)
@click.argument("layout", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--gpu", default="", metavar="BOARD", help="Board, e.g. a100-40gb.")
@click.option(
    "--xml",
    type=click.Path(path_type=Path, allow_dash=True),
    help="Take board and driver from a saved answer of nvidia-smi -q -x.",
)
@_FROM
@_IN_USE
@_DRIVER
@_FORMAT
def explain(layout: Sequence[str], **asked: Any) -> None:
    """Check whether LAYOUT fits on one GPU, where, or why not and what would.

    LAYOUT is a list such as 19,14,9 or 3g.20gb,2g.10gb:0, or a pasted nvidia-smi command. With --from: whether it can
    be reached from what stands there, and what has to go. Exits 1 when it cannot.
    """
    from vsphere_ai.gpu import layout as layouts
    from vsphere_ai.gpu import placement
    from vsphere_ai.gpu.layout_case import LayoutCase
    from vsphere_ai.report import mig_text as text

    board, driver, notes = _which(asked)
    items = layouts.parse(" ".join(layout))
    present = _standing(board, asked)
    answer = placement.transition(board, present, items, driver_major=driver)
    if present:
        case = LayoutCase(board, present, items, answer)
        data, lines = text.case_document(case), text.case_lines(case)
    elif isinstance(answer, placement.Impossible):
        pooled = placement.pool(board, items, driver_major=driver) or ()
        data = text.refusal(board, items, answer, pooled=pooled)
        lines = text.refusal_lines(board, items, answer, pooled=pooled)
    else:
        data, lines = text.fit(board, answer.create), text.fit_lines(board, answer.create)
    _echo(asked["form"], {**data, "notes": list(notes)}, [*lines, *text.note_lines(notes)])
    _exit(impossible=isinstance(answer, placement.Impossible))


@command.command(context_settings=_PASTED)
@click.argument("layout", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--gpu", default="", metavar="BOARD", help="Board, e.g. a100-40gb; with --host a PCI address.")
@_FROM
@_IN_USE
@_DRIVER
@click.option("--host", default="", metavar="HOST", help="Read what stands there from this ESXi host.")
@_INVENTORY
@_VCENTER
@_START_SSH
@_FORMAT
def plan(layout: Sequence[str], **asked: Any) -> None:
    """Print the commands that lead to LAYOUT, in order; changes nothing.

    LAYOUT [] is the empty one. Destroys as few instances as any way does, and never one in use; switches MIG on first
    where the host's GPU has it off. Without --host the GPU is as --from says, empty by default. Exits 1 when there is
    no way.
    """
    from vsphere_ai.errors import UsageError
    from vsphere_ai.gpu import catalog, moves, placement
    from vsphere_ai.gpu import layout as layouts
    from vsphere_ai.gpu.layout_case import LayoutCase
    from vsphere_ai.report import mig_text as text

    wanted = " ".join(layout).strip()
    items = () if wanted in EMPTY_LAYOUT else layouts.parse(wanted)
    if asked["host"]:
        _plan_host(items, asked)
        return
    if not asked["gpu"]:
        raise UsageError("which GPU?", "give a board with --gpu, e.g. a100-40gb, or a host with --host")
    board = catalog.board(asked["gpu"])
    present = _standing(board, asked)
    answer = placement.transition(board, present, items, driver_major=asked["driver"])
    commands = () if isinstance(answer, placement.Impossible) else tuple(moves.moves_on_paper(board, answer))
    case = LayoutCase(board, present, items, answer, commands)
    _echo(asked["form"], text.case_document(case), text.case_lines(case))
    _exit(impossible=isinstance(answer, placement.Impossible))


@command.command("layouts")
@click.argument("board_key", metavar="BOARD")
@_DRIVER
@_FORMAT
def list_layouts(board_key: str, *, driver: int | None, form: str) -> None:
    """List the MIG profiles of BOARD and every layout that fills it.

    Layouts are made of the plain profiles; those with media extensions or double memory are listed, not combined.
    """
    from vsphere_ai.gpu import catalog, search
    from vsphere_ai.report import mig_text as text

    board = catalog.board(board_key)
    full = search.full_layouts(board, search.plain_profiles(board), driver) if board.profiles else ()
    chosen = [[spot.instance for spot in places] for places in full]
    _echo(form, text.layouts_document(board, chosen), text.layouts_lines(board, chosen))


@command.command("parted")
@click.argument("file", required=False, type=click.Path(path_type=Path, dir_okay=False))
@click.argument("config", required=False, default="")
@click.option("--gpu", default="", metavar="BOARD", help="Board to check against, e.g. a100-40gb.")
@click.option("--host", default="", metavar="HOST", help="ESXi host to check against: its own GPUs.")
@click.option("--from-host", default="", metavar="HOST", help="Write the MIG state of this host as such a file.")
@_INVENTORY
@_VCENTER
@_START_SSH
@_FORMAT
def parted(file: Path | None, config: str, **asked: Any) -> None:
    """Check the configurations of NVIDIA's mig-parted, and say them as a play; or write such a file.

    FILE is a configuration file of mig-parted (version: v1), CONFIG one of its configurations; all are checked without
    it. Exits 1 when one does not fit.
    """
    from vsphere_ai.cli import mig_parted
    from vsphere_ai.errors import UsageError

    given = [name for name in ("gpu", "host", "from_host") if asked[name]]
    if len(given) != 1 or (file is None) != bool(asked["from_host"]):
        raise UsageError("what to check?", "give FILE and --gpu or --host, or only --from-host")
    if file is None:
        click.echo(mig_parted.written(asked), nl=False)
        return
    checked = mig_parted.checked(file, config, asked)
    _echo(asked["form"], mig_parted.document(checked), mig_parted.lines(checked))
    _exit(impossible=any(each.reasons for each in checked))


def _which(asked: dict[str, Any]) -> tuple[Board, int | None, tuple[str, ...]]:
    """Return the board that is asked about, the driver branch, and what a file said besides."""
    from vsphere_ai.app.mig_xml import answered
    from vsphere_ai.errors import UsageError
    from vsphere_ai.gpu import catalog

    if asked["xml"] is not None:
        if asked["driver"]:
            raise UsageError("--driver is read from the file when there is --xml")
        found = answered(asked["xml"], asked["gpu"], placed=bool(asked["current"]))
        return found.board, found.driver_major, found.notes
    if not asked["gpu"]:
        raise UsageError("which GPU?", "give a board with --gpu, e.g. a100-40gb, or an answer of nvidia-smi with --xml")
    return catalog.board(asked["gpu"]), asked["driver"], ()


def _standing(board: Board, asked: dict[str, Any]) -> tuple[Instance, ...]:
    from vsphere_ai.gpu.standing import standing

    return standing(board, asked["current"], asked["in_use"])


def _plan_host(items: tuple[Item, ...], asked: dict[str, Any]) -> None:
    from vsphere_ai.cli.mig_live import cases
    from vsphere_ai.errors import UsageError
    from vsphere_ai.gpu.placement import Impossible
    from vsphere_ai.report import mig_text as text

    if asked["current"] or asked["in_use"] or asked["driver"]:
        raise UsageError("--from, --in-use and --driver are read from the host when there is a --host")
    found = cases(items, asked)
    gpus = [{"pci": pci, "notes": list(case.notes), **text.case_document(case)} for pci, case in found.items()]
    lines = "\n\n".join("\n".join(text.case_lines(case)) for case in found.values())
    _echo(asked["form"], {"schema_version": 1, "host": asked["host"], "gpus": gpus}, [lines])
    _exit(impossible=any(isinstance(case.answer, Impossible) for case in found.values()))


def _exit(*, impossible: bool) -> None:
    if impossible:
        click.get_current_context().exit(1)


def _echo(form: str, data: dict[str, Any], lines: Iterable[str]) -> None:
    click.echo(json.dumps(data, indent=2) if form == "json" else "\n".join(lines))
