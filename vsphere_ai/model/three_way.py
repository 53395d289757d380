"""Three-way comparison of concurrent changes: what was read at planning, what is there now, and what is wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vsphere_ai.model.names.secret_settings import NOT_SHOWN
from vsphere_ai.model.text import shown

IDENTITY = ("key", "host")
"""Fields by which elements of lists are matched: of port groups' and switches' settings, and of a switch's hosts."""


@dataclass(frozen=True)
class SettingPart:
    """One setting that a step is about to change."""

    name: str
    """Its property path, or what the operator knows it by."""
    planned: object
    now: object
    unchanged: bool
    """It is as it was when it was read for the plan, or was not read then."""
    done: bool = False
    """It is already in the desired state."""
    is_secret: bool = False
    """Neither value is shown, because it may hold a secret."""

    @property
    def conflict(self) -> bool:
        """Whether someone else has changed it to something else than what is wanted."""
        return not self.unchanged and not self.done

    def __str__(self) -> str:
        structure = any(v and (isinstance(v, Mapping) or _is_structures(v)) for v in (self.planned, self.now))
        name = self.name.removeprefix("config.")
        if self.is_secret:
            return f"{name} differs ({NOT_SHOWN})"
        return name if structure else f"{name} is {shown(self.now)}, was {shown(self.planned)}"


def compare(
    planned: Mapping[str, object],
    now: Mapping[str, object],
    wanted: Mapping[str, object],
    identity: Sequence[str] = IDENTITY,
) -> tuple[SettingPart, ...]:
    """Return one part for each setting of `wanted`; what is missing in `planned` counts as unchanged.

    Of a structure only the fields count that `wanted` sets. Elements of a list of structures are matched by the first
    field of `identity` that all elements of the wanted list have; without one, lists are compared as a whole.
    """
    return tuple(
        SettingPart(
            name,
            planned.get(name),
            now.get(name),
            name not in planned or not _differ(value, planned[name], now.get(name), identity),
            holds(now.get(name), value),
        )
        for name, value in wanted.items()
    )


def holds(now: object, wanted: object) -> bool:
    """Return whether a value has everything that is wanted; servers add fields of their own."""
    if isinstance(wanted, Mapping):
        return isinstance(now, Mapping) and all(holds(now.get(k), v) for k, v in wanted.items())
    if isinstance(wanted, tuple | list):
        return isinstance(now, tuple | list) and len(now) == len(wanted) and all(map(holds, now, wanted))
    return bool(now == wanted)


def _differ(wanted: object, old: object, new: object, identity: Sequence[str]) -> bool:
    if isinstance(new, Mapping) and new.get("inherited") and (not isinstance(old, Mapping) or old.get("inherited")):
        return False  # it is not set here; what it inherits may change with the plan's own switch
    if isinstance(wanted, Mapping) and isinstance(old, Mapping) and isinstance(new, Mapping):
        set_here = {k: v for k, v in wanted.items() if k not in ("_typeName", *identity)}
        return any(_differ(v, old.get(k), new.get(k), identity) for k, v in set_here.items())
    elements = _matched(wanted, identity)
    if elements is None:
        return bool(old != new)
    before, after = (_matched(_flat(value), identity) or {} for value in (old, new))
    return any(_differ(v, before.get(k), after.get(k), identity) for k, v in elements.items())


def _matched(value: object, identity: Sequence[str]) -> dict[object, object] | None:
    """Return the elements of a list of structures by what identifies them; None for anything else."""
    if not isinstance(value, tuple | list) or not all(isinstance(v, Mapping) for v in value):
        return None
    name = next((n for n in identity if all(n in v for v in value)), None)
    return {v[name]: v for v in value} if name else None


def _flat(present: object) -> list[object]:
    """Return the elements of a list as they are set: a switch shows a host's settings in ``config`` of its element."""
    elements = present if isinstance(present, tuple | list) else ()
    return [v.get("config", v) if isinstance(v, Mapping) else v for v in elements]


def _is_structures(value: object) -> bool:
    return isinstance(value, tuple | list) and all(isinstance(v, Mapping) for v in value)
