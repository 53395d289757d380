"""MIG layouts as text: lines of at most 80 columns, and the same as documents."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from vsphere_ai.documents.gpus.mig import (
    MigCommandDocument,
    MigLayoutPart,
    MigLayoutsDocument,
    MigProfileDocument,
    NamedLayoutDocument,
    NewInstanceDocument,
    StandingInstanceDocument,
)
from vsphere_ai.gpu.catalog import NO_PLACEMENTS, Board
from vsphere_ai.gpu.mig.advice import Layout
from vsphere_ai.gpu.mig.drawing import draw
from vsphere_ai.gpu.mig.layout import LayoutItem
from vsphere_ai.gpu.mig.moves import MigMove
from vsphere_ai.gpu.mig.placement import Impossible, LayoutCase
from vsphere_ai.gpu.mig.search import Instance

WIDTH = 80
_COLUMNS = ("id", "compute_slices", "memory_slices", "starts", "max_instances")
_RELATIVE = "NVIDIA publishes no ids for this board; these follow its closest relative."
_UNPUBLISHED = f"NVIDIA publishes no more than these names: {NO_PLACEMENTS}."


def _fit(board: Board, instances: Sequence[Instance]) -> MigLayoutPart:
    """Return a layout that fits on an empty GPU."""
    made = ((i.profile_name, board.profile(i.profile_name).id, i.start) for i in instances)
    return MigLayoutPart(
        board=board.key,
        fits=True,
        instances=tuple(NewInstanceDocument(profile=name, id=id, start=start) for name, id, start in made),
        cgi=_cgi(board, instances),
        verified=board.verified,
    )


def _refusal(case: LayoutCase, answer: Impossible, pooled: Sequence[Layout] = ()) -> MigLayoutPart:
    """Return a layout that does not fit, with reasons, and the nearest that do."""
    return MigLayoutPart(
        board=case.board.key,
        fits=None if _open(case.board, case.items) else False,
        wanted=tuple(str(i) for i in case.items),
        reasons=tuple(answer.reasons),
        nearest=_named(answer.nearest),
        pool=_named(pooled),
        verified=case.board.verified,
    )


def _named(layouts: Iterable[Layout]) -> tuple[NamedLayoutDocument, ...]:
    return tuple(NamedLayoutDocument(layout=each.short, cgi=each.cgi) for each in layouts)


def fit_lines(board: Board, instances: Sequence[Instance]) -> list[str]:
    """Where every instance goes, a picture, and the command."""
    lines = [f"Fits on one {board.title}.", "", *_table(board, [(i.profile_name, i.start) for i in instances])]
    lines += ["", "Memory slices", *(f"  {line}" for line in draw(board, instances))]
    lines += ["", "Create it with", f"  nvidia-smi mig -i GPU -cgi {_cgi(board, instances)} -C"]
    return lines + _caution(board)


def refusal_lines(case: LayoutCase, answer: Impossible, pooled: Sequence[Layout] = ()) -> list[str]:
    """What was asked for, why it does not fit, and what would."""
    board, items = case.board, case.items
    fits = "Not known whether it fits" if _open(board, items) else "Does not fit"
    lines = [f"{fits} on one {board.title}.", ""]
    lines += _table(board, [(i.profile, i.start) for i in items])
    lines += ["", "Why not", *(line for reason in answer.reasons for line in _wrapped(reason))]
    width = max((len(n.short) for n in (*answer.nearest, *pooled)), default=0)
    if answer.nearest:
        lines += ["", "Closest legal layouts on one GPU"]
        lines += [f"  {n.short:{width}}  -cgi {n.cgi}" for n in answer.nearest]
    if len(pooled) > 1:
        lines += ["", f"Everything valid in it, on {len(pooled)} GPUs"]
        lines += [f"  GPU {at}  {n.short:{width}}  -cgi {n.cgi}" for at, n in enumerate(pooled)]
    return lines + _caution(board)


def _open(board: Board, items: Sequence[LayoutItem]) -> bool:
    """Return whether nothing blocks a layout but that the placements of the board are not published."""
    named = board.profile_names if board.named_profiles else ()
    return bool(named) and all(i.profile.isdecimal() or i.profile in named for i in items)


def _table(board: Board, rows: Sequence[tuple[str, int | None]]) -> list[str]:
    lines = [f"  {'profile':<16}{'id':>4}{'start':>7}{'compute slices':>16}{'memory slices':>15}"]
    compute = memory = 0
    for name, start in rows:
        profile = board.find_profile(name)
        at = "-" if start is None else str(start)
        if profile is None:
            why = "not published" if _open(board, (LayoutItem(name),)) else "no such profile"
            lines.append(f"  {name:<16}{'-':>4}{at:>7}{why:>31}")
            continue
        compute += profile.compute_slices
        memory += profile.memory_slices
        lines.append(
            f"  {profile.name:<16}{profile.id:>4}{at:>7}{profile.compute_slices:>16}{profile.memory_slices:>15}"
        )
    if board.named_profiles:
        return lines
    used = (f"{compute} of {board.compute_slices}", f"{memory} of {board.memory_slices}")
    return [*lines, f"  {'total':<27}{used[0]:>16}{used[1]:>15}"]


def layouts_lines(board: Board, chosen: Sequence[Sequence[Instance]]) -> list[str]:
    """The profiles of a board and the layouts that fill it."""
    if not board.mig_capable:
        return [f"{board.title} has no MIG."]
    if board.named_profiles:
        return [board.title, "", *_names(", ".join(board.profile_names)), "", *textwrap.wrap(_UNPUBLISHED, WIDTH)]
    lines = [board.title, "", f"  {'profile':<16}{'id':>4}{'slices':>8}{'memory':>8}{'most':>6}  legal starts"]
    for p in board.profiles:
        starts = ",".join(str(s) for s in p.starts)
        lines.append(f"  {p.name:<16}{p.id:>4}{p.compute_slices:>8}{p.memory_slices:>8}{p.max_instances:>6}  {starts}")
    width = max(len(_dashes(i)) for i in chosen)
    lines += ["", f"{len(chosen)} layouts fill the GPU (by memory slice)"]
    lines += [f"  {_dashes(i):{width}}  -cgi {_cgi(board, i)}" for i in chosen]
    return lines + _caution(board)


def _names(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)


def _caution(board: Board) -> list[str]:
    return [] if board.verified else ["", _RELATIVE, "Check: nvidia-smi mig -lgip"]


def _cgi(board: Board, instances: Iterable[Instance]) -> str:
    return ",".join(f"{board.profile(i.profile_name).id}:{i.start}" for i in instances)


def _dashes(instances: Iterable[Instance]) -> str:
    return "-".join(i.profile_name.partition("g.")[0] for i in instances)


def explained(case: LayoutCase, pooled: Sequence[Layout]) -> tuple[MigLayoutPart, list[str]]:
    """Return, for a document and as lines, whether a layout fits on an empty GPU, or is reached from what is there."""
    board, answer = case.board, case.answer
    if case.present:
        return case_part(case), case_lines(case)
    if isinstance(answer, Impossible):
        return _refusal(case, answer, pooled), refusal_lines(case, answer, pooled)
    return _fit(board, answer.create), fit_lines(board, answer.create)


def case_part(case: LayoutCase) -> MigLayoutPart:
    """Return a case for a document; the commands in the order to run them."""
    board, answer = case.board, case.answer
    now: dict[str, Any] = {"present": tuple(map(_standing, case.present)), "before": tuple(draw(board, case.present))}
    if isinstance(answer, Impossible):
        return _refusal(case, answer).model_copy(update=now)
    return MigLayoutPart(
        board=board.key,
        fits=True,
        verified=board.verified,
        **now,
        kept=tuple(map(_standing, answer.keep)),
        destroyed=tuple(map(_standing, answer.destroy)),
        created=tuple(map(_standing, answer.create)),
        after=tuple(draw(board, (*answer.keep, *answer.create))),
        commands=tuple(MigCommandDocument(command=" ".join(m.argv), summary=m.summary) for m in case.commands),
    )


def case_lines(case: LayoutCase) -> list[str]:
    """Return counts, pictures before and after, and the commands; or why there is no way."""
    board, answer = case.board, case.answer
    now = ["Now", *_picture(board, case.present)]
    notes = note_lines(case.notes)
    if isinstance(answer, Impossible):
        why = refusal_lines(case, answer)[2:]
        seen = [*now, ""] if board.memory_slices else []  # without MIG there is nothing to draw
        verdict = "Not known." if _open(board, case.items) else "Not possible."
        return [case.title or board.title, verdict, "", *seen, *why, *notes]
    counts = f"{len(answer.destroy)} destroyed, {len(answer.create)} created, {len(answer.keep)} kept."
    lines = [case.title or board.title, counts, "", *now]
    if answer.is_noop:
        return [*lines, "", "This is the wanted layout.", *notes]
    lines += ["", "Then", *_picture(board, (*answer.keep, *answer.create))]
    if case.commands:
        lines += ["", "Commands, in this order", *_command_lines(case.commands)]
    return [*lines, *_caution(board), *notes]


def note_lines(notes: Iterable[str]) -> list[str]:
    """Return what is to be noted below an answer, if anything."""
    lines = [line for note in notes for line in _wrapped(note)]
    return ["", "Take note", *lines] if lines else []


def layouts_document(board: Board, chosen: Sequence[Sequence[Instance]]) -> MigLayoutsDocument:
    """Return the profiles of a board and the layouts that fill it, as they are printed."""
    profiles = ({"profile": p.name, **{name: getattr(p, name) for name in _COLUMNS}} for p in board.profiles)
    return MigLayoutsDocument(
        board=board.key,
        title=board.title,
        verified=board.verified,
        profiles=tuple(MigProfileDocument.model_validate(each) for each in profiles),
        named_profiles=tuple(board.named_profiles),
        layouts=tuple(NamedLayoutDocument(layout=_dashes(i), cgi=_cgi(board, i)) for i in chosen),
    )


def _standing(instance: Instance) -> StandingInstanceDocument:
    more: dict[str, Any] = {"gpu_instance": instance.gi_id} if instance.gi_id is not None else {}
    more |= {"in_use": instance.used_by or True} if instance.in_use else {}
    return StandingInstanceDocument(profile=instance.profile_name, start=instance.start, **more)


def _picture(board: Board, instances: Sequence[Instance]) -> list[str]:
    held = [i for i in instances if i.in_use]
    notes = [f"in use: {i}{f' ({i.used_by})' if i.used_by else ''}" for i in sorted(held, key=lambda i: i.start)]
    return [f"  {line}" for line in (*draw(board, instances), *notes)]


def _command_lines(moves: Sequence[MigMove]) -> list[str]:
    lines: list[str] = []
    for at, move in enumerate(moves):
        if not at or moves[at - 1].summary != move.summary:
            lines.append(f"  # {move.summary}")
        lines.append(f"  {' '.join(move.argv)}")
    return lines


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent="  - ", subsequent_indent="    ", break_long_words=False)
