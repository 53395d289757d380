"""Asks one kind what it makes of a wanted state, the way the planner does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from support.estates import made, view, wants
from vsphere_ai.model.facts import Estate
from vsphere_ai.model.state import Change, Target
from vsphere_ai.model.steps import Clone, Lifecycle, Reconfigure, Step
from vsphere_ai.planning.planner import Plan
from vsphere_ai.resources import kinds
from vsphere_ai.resources.tuning.owned import OF_SPEC


@dataclass(frozen=True)
class Judged:
    """The settled state, its changed fields as name -> (before, after), rule ids, steps and notes."""

    settled: Any
    fields: Mapping[str, tuple[Any, Any]]
    problems: Mapping[str, Any]
    steps: tuple[Step, ...]
    notes: tuple[str, ...]

    @property
    def step(self) -> Any:
        (only,) = self.steps
        return only


def judge(state: Any, target: Target, estate: Estate, **of_view: Any) -> Judged:
    """Settle a wanted state, then ask for everything the planner asks for; steps also when there are problems."""
    seen = view(estate, stated={(target.ref, state.kind): state, **of_view.pop("stated", {})}, **of_view)
    now = seen.state(target.ref, state.kind)
    settled = state.settle(target, seen)
    change = Change(target, now, settled)
    fields = {f.name: (f.before, f.after) for f in change.fields}
    later = seen.with_planned(target.ref, settled) if fields else seen
    problems = {p.rule: p for p in settled.problems(target, later)}
    steps = tuple(settled.steps(change, later)) if fields and not problems else ()
    assert steps or problems or not fields, f"a change that nothing makes and nothing refuses: {fields}"
    assert not undeclared(steps)
    return Judged(settled, fields, problems, steps, tuple(settled.remarks(target, later)))


def plan_one(estate: Estate, target: Target, *states: Any, **options: Any) -> Plan:
    """Plan these states on one target."""
    plan: Plan = made(estate, {target: wants(*states, **options)})
    assert not undeclared(p.step for p in plan.steps)
    return plan


def undeclared(steps: Iterable[Step]) -> list[str]:
    """Return what steps write into VMs that their kinds do not declare, so that a play could set it by name as well.

    They are advanced settings (`Traits.vm_settings`) and fields of a ConfigSpec (`OF_SPEC`); what `tuning` itself is
    told by name it may write.
    """
    found = []
    for step in steps:
        spec = step.spec if isinstance(step, Reconfigure) else step.spec["config"] if isinstance(step, Clone) else {}
        extra = step.extra_config if isinstance(step, Reconfigure) else ()
        keys = [key for key, _ in extra] + [option["key"] for option in spec.get("extraConfig", ())]
        own = [pattern for kind in step.kinds for pattern in kinds()[kind].traits.vm_settings]
        if "tuning" not in step.kinds:
            found += [key for key in keys if not any(fnmatchcase(key.lower(), each.lower()) for each in own)]
        found += [name for name in spec if name not in OF_SPEC and name not in NOT_IN_VMX]
    return found


NOT_IN_VMX = {"_typeName", "extraConfig", "changeVersion", "vAppConfigRemoved"}
"""Fields of a ConfigSpec that are no setting of a .vmx file."""


def steps_of(plan: Plan, target: Target) -> tuple[Step, ...]:
    """The steps of one target in plan order."""
    return tuple(p.step for p in plan.steps if p.step.target == target)


def words(steps: Any) -> list[str]:
    """Say each step in a word: its action, its wait, its method, or the command without its GPU."""
    return [_word(s) for s in steps]


def _word(step: Any) -> str:
    for name in ("action", "until", "method"):
        if hasattr(step, name):
            return str(getattr(step, name))
    if hasattr(step, "argv"):
        return " ".join(step.argv)
    return "reconfigure" if hasattr(step, "device_changes") else "step"


def actions(plan: Plan, action: str) -> list[Target]:
    """The targets of every lifecycle step of that action, in plan order."""
    return [p.step.target for p in plan.steps if isinstance(p.step, Lifecycle) and p.step.action == action]


def rules(plan: Plan) -> set[tuple[str, str]]:
    """(target name, rule id) of every problem."""
    return {(p.target.name, p.rule) for p in plan.problems}
