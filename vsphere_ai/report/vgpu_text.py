"""vGPU types of boards, as plain values and as text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

from vsphere_ai.gpu import catalog, vgpu
from vsphere_ai.gpu.catalog import Board


def boards_document(key: str | None) -> list[dict[str, Any]]:
    """Return the vGPU types of a board, by any spelling of its name; of all boards that have any without one."""
    chosen = [catalog.board(key)] if key else [b for b in catalog.boards() if b.vgpu_names]
    return [_document(b) for b in chosen]


def boards_text(boards: list[dict[str, Any]], *, overview: bool) -> str:
    """Return boards as lines: one by one, or the types of the only one."""
    return "\n".join(_overview(boards) if overview else _board_lines(boards[0]))


def _document(board: Board) -> dict[str, object]:
    return {
        "board": board.key,
        "title": board.title,
        "memory_gb": board.memory_gb,
        "spellings": list(board.vgpu_names),
        "products": [
            {"name": p.name, "pci": [f"10de:{n:04x}" for n in p.device_ids], "spellings": list(p.vgpu_names)}
            for p in board.products
        ],
        "time_sliced": [_time_sliced(board, name) for name in board.types if "-" not in name],
        "mig": [e for name in board.types if "-" in name and (e := _backed(board, name))],
    }


def _time_sliced(board: Board, ending: str) -> dict[str, object]:
    """Return one size; a count NVIDIA does not publish is null."""
    fb_gb = int(ending[:-1])
    mixed = next((t.max_mixed for t in board.time_sliced if t.fb_gb == fb_gb), None)
    return {
        "framebuffer_gb": fb_gb,
        "series": ending[-1],
        "max_equal": board.types[ending],
        "max_mixed": mixed if ending.endswith("C") else None,
        "names": _names(board, ending),
    }


def _backed(board: Board, ending: str) -> dict[str, object] | None:
    parsed = vgpu.parse(_names(board, ending)[0])
    profile, share = vgpu.mig_profile(board, parsed), vgpu.share_of(board, parsed)
    if profile is None:
        return None
    return {
        "profile": profile.name,
        "framebuffer_gb": parsed.fb_gb,
        "compute_slices": profile.compute_slices,
        "memory_slices": profile.memory_slices,
        "max_per_instance": share.per_instance if share else 1,
        "max_per_gpu": board.types[ending],
        "names": _names(board, ending),
    }


def _names(board: Board, ending: str) -> list[str]:
    return [f"{name}-{ending.lower()}" for name in board.vgpu_names]


def _overview(boards: list[dict[str, Any]]) -> Iterator[str]:
    yield f"{'board':<24}{'GB':>4}  {'time-sliced':>11}  {'MIG':>3}  names begin with"
    for one in boards:
        sizes, divided = len(one["time_sliced"]), len(one["mig"])
        row = f"{one['board']:<24}{one['memory_gb']:>4}  {sizes:>11}  {divided:>3}  "
        yield from textwrap.wrap(", ".join(one["spellings"]), 80, initial_indent=row, subsequent_indent=" " * len(row))
    yield ""
    yield "The types of one board: vsphere-ai vgpu list BOARD"


def _board_lines(one: dict[str, object]) -> Iterator[str]:
    yield f"{one['title']}, {one['memory_gb']} GB"
    if not one["spellings"]:
        yield "No vGPU types are published for this board."
        return
    for names, products in _groups(one).items():
        yield ""
        for product in products:
            yield f"{product['name']} ({', '.join(product['pci']) or 'PCI device id shared with other boards'})"
        if not names:
            yield "  no vGPU types are published"
            continue
        if len(names) > 1:
            begin = " or ".join(f"{name}-" for name in names)
            yield from textwrap.wrap(
                f"names begin with {begin}: the host's own list decides",
                78,
                initial_indent="  ",
                subsequent_indent="  ",
            )
        yield from _types(one, names[0])


def _groups(one: dict[str, Any]) -> dict[tuple[str, ...], list[dict[str, Any]]]:
    """Return the products by the beginnings of their names; those that differ in their PCI ids only are one group."""
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for product in one["products"]:
        groups.setdefault(tuple(product["spellings"]), []).append(product)
    return groups


def _types(one: dict[str, Any], stem: str) -> Iterator[str]:
    at = one["spellings"].index(stem)
    names = [entry["names"][at] for kind in ("time_sliced", "mig") for entry in one[kind]]
    wide = max(map(len, names))
    if one["time_sliced"]:
        yield f"  {'time-sliced':<{wide}}{'GB':>4}{'per GPU':>8}{'mixed sizes':>13}"
        for each in _largest_first(one["time_sliced"]):
            equal, mixed = (each[key] or "-" for key in ("max_equal", "max_mixed"))
            yield f"  {each['names'][at]:<{wide}}{each['framebuffer_gb']:>4}{equal:>8}{mixed:>13}"
    if one["mig"]:
        yield f"  {'MIG-backed':<{wide}}{'GB':>4}{'per GPU':>8}  GPU instance"
        for each in _largest_first(one["mig"]):
            several = f" ({each['max_per_instance']} each)" if each["max_per_instance"] > 1 else ""
            row = f"  {each['names'][at]:<{wide}}{each['framebuffer_gb']:>4}{each['max_per_gpu']:>8}"
            yield f"{row}  {each['profile']}{several}"


def _largest_first(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(entries, key=lambda e: (-e.get("compute_slices", 0), -e["framebuffer_gb"], e["names"][0]))
