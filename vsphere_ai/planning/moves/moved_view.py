"""The view of an estate after the moves of a run."""

from __future__ import annotations

from collections.abc import Iterable

from vsphere_ai.model.facts import grouped
from vsphere_ai.model.view import View
from vsphere_ai.planning.moves.vgpu_moves import Migration


def view_after(view: View, moves: Iterable[Migration]) -> View:
    """Return a view with every VM on the host, and the GPUs, where its last move leaves it."""
    last = {m.vm: m for m in moves}
    if not last:
        return view
    estate, changed = view.estate, []
    refs = {v.ref for v in last}
    coming = grouped(last.values(), lambda migration: migration.target)
    for host in estate.hosts:
        infos = estate[host.ref].get("config.graphicsInfo")
        if infos is None:
            continue
        come = [(m.vm.ref, m.gpus) for m in coming.get(host, ())]
        shown = tuple(
            {**g, "vm": (*(r for r in g.get("vm") or () if r not in refs), *(r for r, at in come if g["pciId"] in at))}
            for g in infos
        )
        changed.append(estate[host.ref].having({"config.graphicsInfo": shown}))
    changed += [estate[m.vm.ref].having({"runtime.host": m.target.ref}) for m in last.values()]
    return view.with_facts(changed)
