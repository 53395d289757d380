"""`vsphere-ai mig`: does a MIG layout fit on a GPU, how to get there, and which layouts are there."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vsphere_ai.cli.events import show_event
from vsphere_ai.cli.options import FILE, format_option, start_ssh_option, vcenter_option

if TYPE_CHECKING:
    from vsphere_ai.app.mig_host import HostRequest
    from vsphere_ai.gpu.layout import Item

_DRIVER = click.option(
    "--driver",
    type=click.IntRange(min=300, max=9999),
    help="Driver branch on the host, e.g. 470; a current one is assumed without it.",
)
_FROM = click.option("--from", "current", default="", metavar="NOW", help="What stands there: 3g.20gb:4,1g.5gb:0.")
_IN_USE = click.option(
    "--in-use", multiple=True, metavar="ITEM", help="One of these that is in use: 1g.5gb:0 or 1g.5gb:0=train-03."
)
_INVENTORY = click.option("-i", "--inventory", type=FILE, help="Inventory file, to read a host.")
# Unknown options are part of a layout: an operator may paste a whole nvidia-smi command.
_PASTED = {"ignore_unknown_options": True}


@click.group("mig")
def command() -> None:
    """Explain MIG layouts, and how to get from one to another."""


@command.command("explain", context_settings=_PASTED)
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
@format_option()
def explain_layout(layout: Sequence[str], form: str, **asked: Any) -> None:
    """Check whether LAYOUT fits on one GPU, where, or why not and what would.

    LAYOUT is a list such as 19,14,9 or 3g.20gb,2g.10gb:0, or a pasted nvidia-smi command. With --from: whether it can
    be reached from what stands there, and what has to go. Exits 1 when it cannot.
    """
    from vsphere_ai.app.mig_layouts import LayoutRequest, explain, is_impossible
    from vsphere_ai.report import mig_text as text

    found = explain(LayoutRequest(" ".join(layout), **asked))
    data, lines = text.explained(found.case, found.pooled)
    _echo(form, {**data, "notes": list(found.notes)}, [*lines, *text.note_lines(found.notes)])
    _exit(impossible=is_impossible(found.case))


@command.command(context_settings=_PASTED)
@click.argument("layout", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--gpu", default="", metavar="BOARD", help="Board, e.g. a100-40gb; with --host a PCI address.")
@_FROM
@_IN_USE
@_DRIVER
@click.option("--host", default="", metavar="HOST", help="Read what stands there from this ESXi host.")
@_INVENTORY
@vcenter_option
@start_ssh_option
@format_option()
def plan(layout: Sequence[str], form: str, **asked: Any) -> None:
    """Print the commands that lead to LAYOUT, in order; changes nothing.

    LAYOUT [] is the empty one. Destroys as few instances as any way does, and never one in use; switches MIG on first
    where the host's GPU has it off. Without --host the GPU is as --from says, empty by default. Exits 1 when there is
    no way.
    """
    from vsphere_ai.app.mig_layouts import LayoutRequest, is_impossible, items_of, plan_layout
    from vsphere_ai.report import mig_text as text

    if asked["host"]:
        _plan_host(items_of(" ".join(layout)), form, asked)
        return
    keys = ("gpu", "current", "in_use", "driver")
    case = plan_layout(LayoutRequest(" ".join(layout), **{k: asked[k] for k in keys}))
    _echo(form, text.case_document(case), text.case_lines(case))
    _exit(impossible=is_impossible(case))


@command.command("layouts")
@click.argument("board_key", metavar="BOARD")
@_DRIVER
@format_option()
def list_layouts(board_key: str, *, driver: int | None, form: str) -> None:
    """List the MIG profiles of BOARD and every layout that fills it.

    Layouts are made of the plain profiles; those with media extensions or double memory are listed, not combined.
    """
    from vsphere_ai.app.mig_layouts import full_layouts
    from vsphere_ai.report import mig_text as text

    board, chosen = full_layouts(board_key, driver)
    _echo(form, text.layouts_document(board, chosen), text.layouts_lines(board, chosen))


@command.command("parted")
@click.argument("file", required=False, type=FILE)
@click.argument("config", required=False, default="")
@click.option("--gpu", default="", metavar="BOARD", help="Board to check against, e.g. a100-40gb.")
@click.option("--host", default="", metavar="HOST", help="ESXi host to check against: its own GPUs.")
@click.option("--from-host", default="", metavar="HOST", help="Write the MIG state of this host as such a file.")
@_INVENTORY
@vcenter_option
@start_ssh_option
@format_option()
def parted(file: Path | None, config: str, form: str, **asked: Any) -> None:
    """Check the configurations of NVIDIA's mig-parted, and say them as a play; or write such a file.

    FILE is a configuration file of mig-parted (version: v1), CONFIG one of its configurations; all are checked without
    it. Exits 1 when one does not fit.
    """
    from vsphere_ai.app import mig_parted
    from vsphere_ai.errors import UsageError

    given = [name for name in ("gpu", "host", "from_host") if asked[name]]
    if len(given) != 1 or (file is None) != bool(asked["from_host"]):
        raise UsageError("what to check?", "give FILE and --gpu or --host, or only --from-host")
    if file is None:
        click.echo(mig_parted.written(_host(asked["from_host"], asked), show_event), nl=False)
        return
    if asked["gpu"]:
        checked = mig_parted.checked_on_board(file, config, asked["gpu"])
    else:
        checked = mig_parted.checked_on_host(file, config, _host(asked["host"], asked), show_event)
    _echo(form, mig_parted.document(checked), mig_parted.lines(checked))
    _exit(impossible=any(each.reasons for each in checked))


def _host(name: str, asked: Mapping[str, Any]) -> HostRequest:
    from vsphere_ai.app.mig_host import HostRequest

    return HostRequest(name, asked["gpu"], asked["inventory"], asked["vcenter"], asked["start_ssh"])


def _plan_host(items: tuple[Item, ...], form: str, asked: Mapping[str, Any]) -> None:
    from vsphere_ai.app.mig_host import cases
    from vsphere_ai.app.mig_layouts import is_impossible
    from vsphere_ai.errors import UsageError
    from vsphere_ai.report import mig_text as text

    if asked["current"] or asked["in_use"] or asked["driver"]:
        raise UsageError("--from, --in-use and --driver are read from the host when there is a --host")
    found = cases(items, _host(asked["host"], asked), show_event)
    gpus = [{"pci": pci, "notes": list(case.notes), **text.case_document(case)} for pci, case in found.items()]
    lines = "\n\n".join("\n".join(text.case_lines(case)) for case in found.values())
    _echo(form, {"schema_version": 1, "host": asked["host"], "gpus": gpus}, [lines])
    _exit(impossible=any(map(is_impossible, found.values())))


def _exit(*, impossible: bool) -> None:
    if impossible:
        click.get_current_context().exit(1)


def _echo(form: str, data: dict[str, Any], lines: Iterable[str]) -> None:
    click.echo(json.dumps(data, indent=2) if form == "json" else "\n".join(lines))
