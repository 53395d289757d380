"""Targets of a plan as text: what changes on each, equal changes said once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from vsphere_ai.model.state import FieldChange
from vsphere_ai.model.text import safe, shown
from vsphere_ai.planning.planner import PlanItem
from vsphere_ai.planning.scheduling.schedule import Impact
from vsphere_ai.report.folding import Line, Named, alike, how_many, names, of_sample, shape
from vsphere_ai.report.layout import grouped

MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
SAID_ELSEWHERE = ("index", "host", "guest")
"""What is not said of each new VM: its number is that in the range, the order names its host, `users` is for all."""
FIELD = 38
"""Columns of a changed field that say which one it is."""


def target_lines(items: Sequence[PlanItem], impact: Impact, *, full: bool) -> Iterator[Line]:
    """Yield a block per group of targets with equal changes, and a line for those that stay.

    Where many targets change alike and only in values of their own, one of them is shown, unless `full`.
    """
    by_target = grouped((i.target, i) for i in items)
    own = {t: its for t, its in sorted(by_target.items()) if any(i.changes or i.stays for i in its)}
    whole = {**dict.fromkeys(impact.created, "+"), **dict.fromkeys(impact.destroyed, "-")}
    whole |= dict.fromkeys(impact.adopted, "~")
    new = {t for t in impact.created if t in own}
    lines = {target: tuple(line for i in its for line in _item(i, new=target in new)) for target, its in own.items()}
    shared = _shared([lines[t] for t in own if t in new])
    if shared:
        yield f"  + {names(new)}", 4
        yield from shared
        lines |= {t: tuple(line for line in lines[t] if line not in shared) for t in new}
    pairs = (((whole.get(t) or _sign(own[t]), lines[t]), t) for t in own)
    for block in alike(pairs, _shape, full=full):
        sign, changes = block.value
        more = f": {how_many(block.targets)} alike{of_sample(block)}:" if block.sample else ""
        yield f"  {sign} {names(block.targets)}{more}", 4
        yield from changes
    same = sorted(t for t in by_target if t not in own)
    if same:
        yield f"  = {names(same)}  in the desired state", 4


def _shared(blocks: Sequence[tuple[Line, ...]]) -> tuple[Line, ...]:
    """Return the lines that all blocks have, where there are several."""
    if len(blocks) < 2:
        return ()
    common = frozenset(blocks[0]).intersection(*blocks[1:])
    return tuple(line for line in blocks[0] if line in common)


def _shape(block: tuple[str, tuple[Line, ...]], target: Named) -> object:
    """Return what blocks have in common that differ in values: their signs, kinds, fields and kinds of remarks."""
    sign, lines = block
    heads = (text[:FIELD] if text[6:7] in "+~-" else text for text, _ in lines)
    return sign, tuple(shape(head, target) for head in heads)


def _sign(items: Sequence[PlanItem]) -> str:
    signs = {f.sign for i in items for f in i.fields}
    return signs.pop() if len(signs) == 1 else "~" if any(i.changes for i in items) else "="


def _item(item: PlanItem, *, new: bool = False) -> Iterator[Line]:
    if not item.changes and not item.stays:
        yield f"      = {item.kind}  in the desired state", 0
    for field in of_new(item.fields) if new else item.fields:
        what = f"      {field.sign} {item.kind:<11} {safe(field.name).replace('_', ' '):<18}"
        change = shown(field.after) if field.sign == "+" else f"{shown(field.before)} → {shown(field.after)}"
        yield f"{what} {change}{f'  ({field.effect})' if field.effect else ''}", 12
    if item.recreate:
        yield f"      ~ {item.kind:<11} lost on reboot, recreated after it", 0
    yield from ((f"      ! {note}", 8) for note in item.notes)
    yield from ((f"      = {item.kind:<11} stays: {text}", 12) for text in item.stays)


def of_new(fields: Iterable[FieldChange]) -> Iterator[FieldChange]:
    """Yield what is worth a line of a new VM; of its NICs, which may have any name, each has one."""
    for field in fields:
        if field.name not in SAID_ELSEWHERE or MAC.match(str(field.after)):
            yield _added(field)


def _added(field: FieldChange) -> FieldChange:
    """Return what a new VM gets beyond what its clone brings; the whole change, where that is not all."""
    if not (isinstance(field.before, tuple) and isinstance(field.after, tuple)):
        return field
    more = tuple(entry for entry in field.after if entry not in field.before)
    return replace(field, before=None, after=more) if len(more) == len(field.after) - len(field.before) else field
