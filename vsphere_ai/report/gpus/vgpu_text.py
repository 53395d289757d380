"""vGPU types of boards, as the part of a document and as text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from vsphere_ai.documents.gpus.vgpu_types import BoardTypes, MigBacked, ProductTypes, TimeSlicedSize
from vsphere_ai.gpu import catalog
from vsphere_ai.gpu.catalog import Board
from vsphere_ai.gpu.vgpus import vgpu
from vsphere_ai.report.layout import grouped


def board_types(key: str | None) -> list[BoardTypes]:
    """Return the vGPU types of a board, by any spelling of its name; of all boards that have any without one."""
    return [_types_of(b) for b in ([catalog.board(key)] if key else catalog.boards()) if key or b.vgpu_names]


def boards_text(boards: Sequence[BoardTypes], *, overview: bool) -> str:
    """Return boards as lines: one by one, or the types of the only one."""
    return "\n".join(_overview(boards) if overview else _board_lines(boards[0]))


def _types_of(board: Board) -> BoardTypes:
    products = (
        ProductTypes(name=p.name, pci=tuple(f"10de:{n:04x}" for n in p.device_ids), spellings=p.vgpu_names)
        for p in board.products
    )
    return BoardTypes(
        board=board.key,
        title=board.title,
        memory_gb=board.memory_gb,
        spellings=board.vgpu_names,
        products=tuple(products),
        time_sliced=tuple(_time_sliced(board, name) for name in board.types if "-" not in name),
        mig=tuple(e for name in board.types if "-" in name and (e := _backed(board, name))),
    )


def _time_sliced(board: Board, ending: str) -> TimeSlicedSize:
    size, series = int(ending[:-1]), ending[-1]
    mixed = next((t.max_mixed for t in board.time_sliced if t.fb_gb == size), None) if series == "C" else None
    return TimeSlicedSize(
        framebuffer_gb=size,
        series=series,
        max_equal=board.types[ending],
        max_mixed=mixed,
        names=_names(board, ending),
    )


def _backed(board: Board, ending: str) -> MigBacked | None:
    names = _names(board, ending)
    parsed = vgpu.parse(names[0])
    profile, share = vgpu.mig_profile(board, parsed), vgpu.share_of(board, parsed)
    if profile is None:
        return None
    return MigBacked(
        profile=profile.name,
        framebuffer_gb=parsed.fb_gb,
        compute_slices=profile.compute_slices,
        memory_slices=profile.memory_slices,
        max_per_instance=share.per_instance if share else 1,
        max_per_gpu=board.types[ending],
        names=names,
    )


def _names(board: Board, ending: str) -> tuple[str, ...]:
    return tuple(f"{name}-{ending.lower()}" for name in board.vgpu_names)


def _overview(boards: Sequence[BoardTypes]) -> Iterator[str]:
    yield f"{'board':<24}{'GB':>4}  {'time-sliced':>11}  {'MIG':>3}  names begin with"
    for one in boards:
        memory = "-" if one.memory_gb is None else one.memory_gb
        row = f"{one.board:<24}{memory:>4}  {len(one.time_sliced):>11}  {len(one.mig):>3}  "
        yield from textwrap.wrap(", ".join(one.spellings), 80, initial_indent=row, subsequent_indent=" " * len(row))
    yield ""
    yield "The types of one board: vsphere-ai vgpu list BOARD"


def _board_lines(one: BoardTypes) -> Iterator[str]:
    yield one.title if one.memory_gb is None else f"{one.title}, {one.memory_gb} GB"
    if not one.spellings:
        yield "No vGPU types are published for this board."
        return
    # products that differ in their PCI ids only are one group
    for names, products in grouped((p.spellings, p) for p in one.products).items():
        yield ""
        for product in products:
            yield f"{product.name} ({', '.join(product.pci) or 'PCI device id shared with other boards'})"
        if not names:
            yield "  no vGPU types are published"
            continue
        if len(names) > 1:
            begin = " or ".join(f"{name}-" for name in names)
            words = f"names begin with {begin}: the host's own list decides"
            yield from textwrap.wrap(words, 78, initial_indent="  ", subsequent_indent="  ")
        yield from _type_lines(one, one.spellings.index(names[0]))


def _type_lines(one: BoardTypes, at: int) -> Iterator[str]:
    """Yield the types of a board under the names that begin with one of its spellings, the largest first."""
    wide = max(len(names[at]) for names in (*(s.names for s in one.time_sliced), *(m.names for m in one.mig)))
    if one.time_sliced:
        yield f"  {'time-sliced':<{wide}}{'GB':>4}{'per GPU':>8}{'mixed sizes':>13}"
    for size in sorted(one.time_sliced, key=lambda s: (-s.framebuffer_gb, s.names[0])):
        equal, mixed = size.max_equal or "-", size.max_mixed or "-"
        yield f"  {size.names[at]:<{wide}}{size.framebuffer_gb:>4}{equal:>8}{mixed:>13}"
    if one.mig:
        yield f"  {'MIG-backed':<{wide}}{'GB':>4}{'per GPU':>8}  GPU instance"
    for each in sorted(one.mig, key=lambda m: (-m.compute_slices, -m.framebuffer_gb, m.names[0])):
        several = f" ({each.max_per_instance} each)" if each.max_per_instance > 1 else ""
        row = f"  {each.names[at]:<{wide}}{each.framebuffer_gb:>4}{each.max_per_gpu:>8}"
        yield f"{row}  {each.profile}{several}"
