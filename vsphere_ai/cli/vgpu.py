"""`vsphere-ai vgpu`: the vGPU types of a board, as vSphere names them."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from vsphere_ai.gpu.catalog import Board


@click.group("vgpu")
def command() -> None:
    """List the vGPU types of a board; needs no connection."""


@command.command("list")
@click.argument("board_key", metavar="[BOARD]", required=False)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="Output format.")
def list_types(board_key: str | None, *, form: str) -> None:
    """List the C-series vGPU types of BOARD, or the boards that have any.

    The list is NVIDIA's; what a host really offers is in its own list, which `vsphere-ai show` and `plan` go by.
    """
    from vsphere_ai.gpu import catalog

    chosen = [catalog.board(board_key)] if board_key else [b for b in catalog.boards() if b.vgpu_boards]
    boards = [_document(b) for b in chosen]
    if form == "json":
        click.echo(json.dumps({"schema_version": 1, "boards": boards}, indent=2))
    else:
        click.echo("\n".join(_board_lines(boards[0]) if board_key else _overview(boards)))


def _document(board: Board) -> dict[str, Any]:
    return {
        "board": board.key,
        "title": board.title,
        "memory_gb": board.memory_gb,
        "spellings": [f"{board.vgpu_prefix}{b}" for b in board.vgpu_boards],
        "time_sliced": [_time_sliced(board, t.fb_gb) for t in board.time_sliced],
        "mig": [
            {
                "profile": p.name,
                "framebuffer_gb": int(p.vgpu_suffix.partition("-")[2].partition("C")[0]),
                "compute_slices": p.compute_slices,
                "memory_slices": p.memory_slices,
                "max_per_gpu": p.max_instances,
                "names": _names(board, p.vgpu_suffix),
            }
            for p in board.profiles
            if p.vgpu_suffix
        ],
    }


def _time_sliced(board: Board, fb_gb: int) -> dict[str, Any]:
    """Return one size; a count NVIDIA does not publish is null."""
    listed = next(t for t in board.time_sliced if t.fb_gb == fb_gb)
    return {
        "framebuffer_gb": fb_gb,
        "max_equal": listed.max_equal,
        "max_mixed": listed.max_mixed,
        "names": _names(board, f"{fb_gb}C"),
    }


def _names(board: Board, suffix: str) -> list[str]:
    return [f"{board.vgpu_prefix}{spelling}-{suffix.lower()}" for spelling in board.vgpu_boards]


def _overview(boards: list[dict[str, Any]]) -> Iterator[str]:
    yield f"{'board':<23}{'GB':>4}  {'time-sliced':>11}  {'MIG':>3}  names begin with"
    for one in boards:
        sizes, divided = len(one["time_sliced"]), len(one["mig"])
        yield f"{one['board']:<23}{one['memory_gb']:>4}  {sizes:>11}  {divided:>3}  {', '.join(one['spellings'])}"
    yield ""
    yield "The types of one board: vsphere-ai vgpu list BOARD"


def _board_lines(one: dict[str, Any]) -> Iterator[str]:
    yield f"{one['title']}, {one['memory_gb']} GB"
    if not one["spellings"]:
        yield "No vGPU types are published for this board."
        return
    if one["time_sliced"]:
        yield ""
        yield "Time-sliced (MIG mode disabled)"
        yield f"  {'name':<30}{'GB':>4}  {'per GPU, equal sizes':>20}  {'mixed sizes':>11}"
        for each in one["time_sliced"]:
            equal, mixed = (each[key] or "-" for key in ("max_equal", "max_mixed"))
            yield f"  {each['names'][0]:<30}{each['framebuffer_gb']:>4}  {equal:>20}  {mixed:>11}"
    if one["mig"]:
        yield ""
        yield "MIG-backed (MIG mode enabled)"
        yield f"  {'name':<30}{'GB':>4}  {'GPU instance':<12}  {'slices':>6}  {'memory':>6}  {'per GPU':>7}"
        for each in one["mig"]:
            slices = f"{each['compute_slices']:>6}  {each['memory_slices']:>6}  {each['max_per_gpu']:>7}"
            yield f"  {each['names'][0]:<30}{each['framebuffer_gb']:>4}  {each['profile']:<12}  {slices}"
    if len(one["spellings"]) > 1:
        yield ""
        yield "Depending on the product the names begin with"
        yield from textwrap.wrap(", ".join(one["spellings"]), 78, initial_indent="  ", subsequent_indent="  ")
