"""States of kinds that hold a mapping of names, such as switches."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from vsphere_ai.model.state import Target
from vsphere_ai.model.view import View
from vsphere_ai.resources.base import Resource

Kind = TypeVar("Kind", bound=Resource)
E = TypeVar("E")


def settled_each(state: Kind, target: Target, view: View, settle_one: Callable[[E, E | None], E]) -> Kind:
    """Return the wanted state of a keyed kind with all that it names settled; `settle_one` gets wanted and present."""
    now = view.get(type(state), target.ref)
    have = (getattr(now, state.shorthand) if now else None) or {}
    wanted = getattr(state, state.shorthand) or {}
    return state.model_copy(update={state.shorthand: {n: settle_one(w, have.get(n)) for n, w in wanted.items()}})
