"""Run of a vCenter that has started, here or elsewhere: its steps, and how long each usually takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Step
from vsphere_ai.planning.document import PlanDocument
from vsphere_ai.planning.expected_time import OTHERWISE, StepTimes, Usual
from vsphere_ai.planning.schedule import PlannedStep


@dataclass(frozen=True)
class Started:
    """Steps of a run that has started, and how long each usually takes. Not `known`: only their number is."""

    steps: Sequence[PlannedStep]
    times: StepTimes
    known: bool = True


def started_elsewhere(plan: Mapping[str, JsonValue], number: int) -> Started:
    """Return the steps of a run that has this number of them, as far as they are in the saved plan.

    A run that is resumed has another plan, of which only the number is known.
    """
    found = PlanDocument.model_validate(plan)
    known = len(found.steps) == number
    if known:
        steps = [PlannedStep(s.id, Step(target=s.target, summary=s.summary), s.after) for s in found.steps]
    else:
        step = Step(target=Target("datacenter", "", ""), summary="")
        steps = [PlannedStep(f"s{n:03}", step, ()) for n in range(1, number + 1)]
    spans = found.expected.steps if known and found.expected else {}
    runs = found.expected.runs if found.expected else 0
    long = {p.id: end - begin for p in steps for begin, end in [spans.get(p.id, (0.0, OTHERWISE))]}
    return Started(steps, StepTimes({name: Usual(each, runs) for name, each in long.items()}, runs=runs), known)
