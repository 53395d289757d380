"""Changes of objects that count their configurations (distributed switches, port groups): sent for what was planned."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from vsphere_ai.errors import ConcurrentChange, Conflict
from vsphere_ai.execution.actions.context import Context, Say
from vsphere_ai.execution.actions.resolve import looked_up
from vsphere_ai.model.deferred import is_deferred
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.steps import Invoke
from vsphere_ai.model.text import shown

VERSION = "configVersion"
_PATH = f"config.{VERSION}"
_AGAIN = "somebody changed it: look at it, then plan again"
_IDENTITY = ("key", "host")
"""Fields by which elements of lists are told apart."""


def has_version(step: Invoke) -> bool:
    """Tell whether a step is for one version of a configuration: the server refuses it for any other."""
    spec = step.args.get("spec")
    return isinstance(spec, Mapping) and VERSION in spec


class Versions:
    """Sends a change with the version of now, once it was seen that nothing it is about has changed since planning.

    Other settings of the same object may have: several hosts of one plan join the same switch, each makes a version.
    """

    def __init__(self, context: Context, attempts: int) -> None:
        self._context, self._attempts = context, attempts
        self._rollout: dict[str, threading.Lock] = {}

    def send(self, step: Invoke, ref: str, say: Say) -> None:
        """Send until the version was the present one; `Conflict` when somebody changed what this is about."""
        with self._rollout.setdefault(ref, threading.Lock()):  # ours do not refuse each other
            for _ in range(self._attempts):
                args = looked_up(step.args, self._context.vcenter)
                spec = {**args["spec"], VERSION: self._version(step, ref)}
                try:
                    self._context.task(replace(step.target, ref=ref), step.method, {**args, "spec": spec}, say)
                except ConcurrentChange:
                    say("somebody else changed it at the same moment; looking what is different")
                else:
                    return
        raise Conflict(
            f"{step.target.name}: somebody else keeps changing it; {self._attempts} times refused",
            _AGAIN,
            rule="object.keeps-changing",
        )

    def _version(self, step: Invoke, ref: str) -> str:
        paths = (_PATH, *(f"config.{name}" for name in step.args["spec"] if name != VERSION))
        now = self._context.vcenter.read_objects([ref], {ref.partition(":")[0]: paths}).get(ref)
        if now is None:
            raise Conflict(f"{step.target.name}: {ref} is gone from the inventory", "plan again", rule="object.gone")
        planned = self._context.planned.get(ref)
        changed = tuple(_differences(step.args["spec"], planned, now)) if planned is not None else ()
        if changed:
            raise Conflict(
                f"{step.target.name}: somebody changed {planned.name if planned else ref} since this was planned: "
                + "; ".join(changed),
                _AGAIN,
                rule="object.changed",
            )
        return str(now.get(_PATH, ""))


def _differences(spec: Mapping[str, Any], planned: Facts, now: Facts) -> Iterator[str]:
    for name, wanted in spec.items():
        path = f"config.{name}"
        # what is looked up is made, or changed, by an earlier step of the same plan
        if name == VERSION or path not in planned.properties or is_deferred(wanted):
            continue
        if _unlike(wanted, planned.get(path), now.get(path)):
            whole = isinstance(wanted, Mapping | tuple | list)
            yield name if whole else f"{name} is {shown(now.get(path))}, was {shown(planned.get(path))}"


def _unlike(wanted: Any, old: Any, new: Any) -> bool:
    """Compare two plain values as far as a third one sets them."""
    if isinstance(new, Mapping) and new.get("inherited") and (old is None or old.get("inherited")):
        return False  # nobody has set it here; what it inherits may change with the plan's own switch
    if isinstance(wanted, Mapping) and isinstance(old, Mapping) and isinstance(new, Mapping):
        return any(_unlike(v, old.get(k), new.get(k)) for k, v in wanted.items() if k not in ("_typeName", *_IDENTITY))
    found = _by_identity(wanted)
    if found is None:
        return bool(old != new)
    before, after = _members(old), _members(new)
    return any(_unlike(v, before.get(k), after.get(k)) for k, v in found.items())


def _by_identity(wanted: Any) -> dict[Any, Any] | None:
    """Return the elements of a list by what identifies them; None for anything else."""
    if not isinstance(wanted, tuple | list) or not all(isinstance(v, Mapping) for v in wanted):
        return None
    name = next((n for n in _IDENTITY if all(n in v for v in wanted)), None)
    return {v[name]: v for v in wanted} if name else None


def _members(present: Any) -> dict[Any, Any]:
    """Return what there is by the same identity; a host's membership keeps its host and its NICs in `config`."""
    flat = [v.get("config", v) if isinstance(v, Mapping) else v for v in present or ()]
    return _by_identity(flat) or {}
