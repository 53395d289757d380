"""vSphere tags of a VM: only what differs is sent, and what someone else attached since planning is not taken away."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vsphere_ai.errors import StepFailed
from vsphere_ai.execution.actions.conflicts import changed
from vsphere_ai.execution.actions.context import Context
from vsphere_ai.model.steps import SetTags

Attached = Mapping[str, tuple[str, ...]]


def apply(context: Context, step: SetTags) -> None:
    """Detach and attach what differs now, and read it back; `Conflict` for a tag that came since planning."""
    now = _attached(context, step)
    strange = [f"{c}/{n}" for c, n in _without(now, step.tags) if step.before and n not in step.before.get(c, ())]
    if strange:
        raise changed(f"{step.target.name}: someone else has attached {', '.join(strange)} since planning")
    attach, detach = [*_without(step.tags, now)], [*_without(now, step.tags)]
    if not (attach or detach):
        return
    context.vcenter.change_tags(step.target.ref, attach, detach)
    if not are_set(context, step):
        words = f"the tags of {step.target.name} are not as they were sent"
        raise StepFailed(words, "look at the tags of the VM in the vSphere Client, then plan again")


def are_set(context: Context, step: SetTags) -> bool:
    """Read whether a VM has the tags that a step is to give it, and no other ones of their categories."""
    now = _attached(context, step)
    return not [*_without(step.tags, now), *_without(now, step.tags)]


def _attached(context: Context, step: SetTags) -> Attached:
    ref = step.target.ref
    return context.vcenter.attached_tags([ref], step.tags)[1].get(ref, {})


def _without(tags: Attached, others: Attached) -> Iterator[tuple[str, str]]:
    for category, names in tags.items():
        yield from ((category, name) for name in names if name not in others.get(category, ()))
