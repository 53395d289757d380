"""Functions of facts that work once: facts do not change, others take their place."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from vsphere_ai.model.facts import Facts

P = ParamSpec("P")
T = TypeVar("T")


def once(work: Callable[Concatenate[Facts, P], T]) -> Callable[Concatenate[Facts, P], T]:
    """Return a function that keeps what it has found with the facts it is about, for each of its other arguments.

    Other facts among these count as the same only where they are: of one reading, and without changes since.
    """
    name = f"{work.__module__}.{work.__qualname__}"

    @wraps(work)
    def found(facts: Facts, /, *more: P.args, **named: P.kwargs) -> T:
        if type(facts.properties) is not dict:  # what is read of these is written down each time
            return work(facts, *more, **named)
        kept: dict[object, tuple[object, T]] = vars(facts).setdefault(name, {})
        key = (*(id(each) if isinstance(each, Facts) else each for each in more), *named.items())
        if key not in kept:
            kept[key] = more, work(facts, *more, **named)  # with the others, so that nothing else gets their ids
        return kept[key][1]

    return found
