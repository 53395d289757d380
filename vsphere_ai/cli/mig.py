"""`vsphere-ai mig`: does a MIG layout fit on a GPU, and which layouts are there."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from vsphere_ai.gpu.catalog import Board, Profile
    from vsphere_ai.gpu.layout import Item
    from vsphere_ai.gpu.placement import Impossible, Instance, Layout

_FORMAT = click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="Output format.")
_DRIVER = click.option(
    "--driver",
    type=click.IntRange(min=300, max=9999),
    help="Driver branch on the host, e.g. 470; a current one is assumed without it.",
)


@click.group("mig")
def command() -> None:
    """Explain MIG layouts; needs no connection."""


# Unknown options are part of the layout: an operator may paste a whole nvidia-smi command.
@command.command(context_settings={"ignore_unknown_options": True})
@click.argument("layout", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--gpu", required=True, metavar="BOARD", help="Board, e.g. a100-40gb.")
@_DRIVER
@_FORMAT
@click.pass_context
def explain(context: click.Context, layout: Sequence[str], *, gpu: str, driver: int | None, form: str) -> None:
    """Tell whether LAYOUT fits on one GPU, where, or why not and what would.

    LAYOUT is a list such as 19,14,9 or 3g.20gb,2g.10gb:0, or a pasted nvidia-smi command. Exits 1 when it does not fit.
    """
    from vsphere_ai.gpu import catalog, placement
    from vsphere_ai.gpu import layout as layouts

    board = catalog.board(gpu)
    items = layouts.parse(" ".join(layout))
    answer = placement.transition(board, (), items, driver_major=driver)
    if isinstance(answer, placement.Impossible):
        pooled = placement.pool(board, items, driver_major=driver) or ()
        _echo(form, _refusal(board, items, answer, pooled=pooled), _refusal_lines(board, items, answer, pooled=pooled))
        context.exit(1)
    _echo(form, _fit(board, answer.create), _fit_lines(board, answer.create))


@command.command("layouts")
@click.argument("board_key", metavar="BOARD")
@_DRIVER
@_FORMAT
def list_layouts(board_key: str, *, driver: int | None, form: str) -> None:
    """List the MIG profiles of BOARD and every layout that fills it.

    Layouts are made of the plain profiles; those with media extensions or double memory are listed, not combined.
    """
    from vsphere_ai.gpu import catalog, search

    board = catalog.board(board_key)
    full = search.full_layouts(board, search.plain_profiles(board), driver) if board.mig_capable else ()
    chosen = [[spot.instance for spot in places] for places in full]
    data = {
        "schema_version": 1,
        "board": board.key,
        "title": board.title,
        "verified": board.verified,
        "profiles": [_profile(p) for p in board.profiles],
        "layouts": [{"layout": _dashes(i), "cgi": _cgi(board, i)} for i in chosen],
    }
    _echo(form, data, _layouts_lines(board, chosen))


def _echo(form: str, data: dict[str, Any], lines: Iterable[str]) -> None:
    click.echo(json.dumps(data, indent=2) if form == "json" else "\n".join(lines))


def _fit(board: Board, instances: Sequence[Instance]) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "board": board.key,
        "fits": True,
        "instances": [
            {"profile": i.profile_name, "id": board.profile(i.profile_name).id, "start": i.start} for i in instances
        ],
        "cgi": _cgi(board, instances),
        "verified": board.verified,
    }


def _refusal(board: Board, items: Sequence[Item], answer: Impossible, *, pooled: Sequence[Layout]) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "board": board.key,
        "fits": False,
        "wanted": [str(i) for i in items],
        "reasons": list(answer.reasons),
        "nearest": [{"layout": n.short, "cgi": n.cgi} for n in answer.nearest],
        "pool": [{"layout": n.short, "cgi": n.cgi} for n in pooled],
        "verified": board.verified,
    }


def _fit_lines(board: Board, instances: Sequence[Instance]) -> list[str]:
    from vsphere_ai.gpu.drawing import draw

    rows = [(i.profile_name, i.start) for i in instances]
    picture = [f"  {line}" for line in draw(board, instances)]
    create = f"  nvidia-smi mig -i GPU -cgi {_cgi(board, instances)} -C"
    head = f"Fits on one {board.title}."
    return [
        head,
        "",
        *_table(board, rows),
        "",
        "Memory slices",
        *picture,
        "",
        "Create it with",
        create,
        *_caution(board),
    ]


def _refusal_lines(board: Board, items: Sequence[Item], answer: Impossible, *, pooled: Sequence[Layout]) -> list[str]:
    lines = [f"Does not fit on one {board.title}.", ""]
    lines += _table(board, [(i.profile, i.start) for i in items])
    lines += ["", "Why not", *(f"  - {reason}" for reason in answer.reasons)]
    width = max((len(n.short) for n in (*answer.nearest, *pooled)), default=0)
    if answer.nearest:
        lines += ["", "Closest legal layouts on one GPU"]
        lines += [f"  {n.short:{width}}  -cgi {n.cgi}" for n in answer.nearest]
    if len(pooled) > 1:
        lines += ["", f"Everything valid in it, on {len(pooled)} GPUs"]
        lines += [f"  GPU {at}  {n.short:{width}}  -cgi {n.cgi}" for at, n in enumerate(pooled)]
    return lines + _caution(board)


def _table(board: Board, rows: Sequence[tuple[str, int | None]]) -> list[str]:
    lines = [f"  {'profile':<16}{'id':>4}{'start':>7}{'compute slices':>16}{'memory slices':>15}"]
    compute = memory = 0
    for name, start in rows:
        profile = board.find_profile(name)
        at = "-" if start is None else str(start)
        if profile is None:
            lines.append(f"  {name:<16}{'-':>4}{at:>7}{'no such profile':>31}")
            continue
        compute += profile.compute_slices
        memory += profile.memory_slices
        lines.append(
            f"  {profile.name:<16}{profile.id:>4}{at:>7}{profile.compute_slices:>16}{profile.memory_slices:>15}"
        )
    used = (f"{compute} of {board.compute_slices}", f"{memory} of {board.memory_slices}")
    return [*lines, f"  {'total':<27}{used[0]:>16}{used[1]:>15}"]


def _layouts_lines(board: Board, chosen: Sequence[Sequence[Instance]]) -> list[str]:
    if not board.mig_capable:
        return [f"{board.title} has no MIG."]
    lines = [board.title, "", f"  {'profile':<16}{'id':>4}{'slices':>8}{'memory':>8}{'most':>6}  legal starts"]
    for p in board.profiles:
        starts = ",".join(str(s) for s in p.starts)
        lines.append(f"  {p.name:<16}{p.id:>4}{p.compute_slices:>8}{p.memory_slices:>8}{p.max_instances:>6}  {starts}")
    width = max(len(_dashes(i)) for i in chosen)
    lines += ["", f"{len(chosen)} layouts fill the GPU (by memory slice)"]
    lines += [f"  {_dashes(i):{width}}  -cgi {_cgi(board, i)}" for i in chosen]
    return lines + _caution(board)


def _caution(board: Board) -> list[str]:
    if board.verified:
        return []
    return [
        "",
        "NVIDIA publishes no ids for this board; these follow its closest relative.",
        "Check: nvidia-smi mig -lgip",
    ]


def _profile(p: Profile) -> dict[str, Any]:
    return {
        "profile": p.name,
        "id": p.id,
        "compute_slices": p.compute_slices,
        "memory_slices": p.memory_slices,
        "starts": list(p.starts),
        "max_instances": p.max_instances,
    }


def _cgi(board: Board, instances: Iterable[Instance]) -> str:
    return ",".join(f"{board.profile(i.profile_name).id}:{i.start}" for i in instances)


def _dashes(instances: Iterable[Instance]) -> str:
    return "-".join(i.profile_name.partition("g.")[0] for i in instances)
