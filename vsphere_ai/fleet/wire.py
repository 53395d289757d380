"""Errors, outcomes and events of a fleet on their way between machines: as JSON values, without secrets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import JsonValue, TypeAdapter

from vsphere_ai.app.events import Event, Remark, RunStarted, Status, StepEvent
from vsphere_ai.documents.fleets import ShardOutcome
from vsphere_ai.errors import Diagnostic, InputError, VsphereAiError
from vsphere_ai.model.state import KindName, Target
from vsphere_ai.model.steps import Step
from vsphere_ai.planning.scheduling.expected_time import StepTimes
from vsphere_ai.planning.scheduling.step_order import PlannedStep
from vsphere_ai.security.redaction import clean

_DIAGNOSTICS: TypeAdapter[tuple[Diagnostic, ...]] = TypeAdapter(tuple[Diagnostic, ...])


@dataclass(frozen=True)
class StepSeen:
    """A step of a plan as it is sent: what is shown of it."""

    id: str
    target: Target
    summary: str
    kinds: tuple[KindName, ...] = ()
    after: tuple[str, ...] = ()
    behind: tuple[str, ...] = ()

    @classmethod
    def of(cls, planned: PlannedStep) -> StepSeen:
        """Return what is sent of a step."""
        step = planned.step
        return cls(planned.id, step.target, step.summary, step.kinds, planned.after, planned.behind)

    def planned(self) -> PlannedStep:
        """Return the step for those who show it."""
        step = Step(target=self.target, summary=self.summary, kinds=self.kinds)
        return PlannedStep(self.id, step, self.after, self.behind)


@dataclass(frozen=True)
class PlanSeen:
    """The steps of a plan on another machine."""

    steps: tuple[PlannedStep, ...]


@dataclass(frozen=True)
class RunSeen:
    """A run has started on another machine: `events.RunStarted` there."""

    run: str
    plan: PlanSeen
    times: StepTimes


_STEP: TypeAdapter[StepSeen] = TypeAdapter(StepSeen)
_STEPS: TypeAdapter[tuple[StepSeen, ...]] = TypeAdapter(tuple[StepSeen, ...])
_TIMES: TypeAdapter[StepTimes] = TypeAdapter(StepTimes)


def cleaned(value: JsonValue) -> JsonValue:
    """Return values with every secret that this process has read masked in every text."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(key): cleaned(each) for key, each in value.items()}
    return [cleaned(each) for each in value] if isinstance(value, list) else value


def error_values(error: VsphereAiError) -> dict[str, JsonValue]:
    """Return an error as values."""
    said: dict[str, JsonValue] = {name: str(vars(error)[name]) for name in ("message", "remedy", "rule")}
    said |= {"exit_code": error.exit_code, "title": error.title}
    if isinstance(error, InputError):
        said |= {"diagnostics": _DIAGNOSTICS.dump_python(error.diagnostics, mode="json")}
        said |= {"compared_with": error.compared_with}
    return said


def error_of(values: JsonValue) -> VsphereAiError:
    """Return the error that values are of."""
    said: Mapping[str, JsonValue] = values if isinstance(values, dict) else {}
    if "diagnostics" in said:
        error = InputError(_DIAGNOSTICS.validate_python(said["diagnostics"]))
        error.compared_with = str(said.get("compared_with", ""))
        return error
    message, remedy, rule = (str(said.get(name, "")) for name in ("message", "remedy", "rule"))
    made = VsphereAiError(message or "the other machine has not said why", remedy or "see its own output", rule=rule)
    code = said.get("exit_code")
    made.exit_code, made.title = code if isinstance(code, int) else made.exit_code, str(said.get("title", made.title))
    return made


def outcome_values(outcome: ShardOutcome) -> JsonValue:
    """Return an outcome as values."""
    return dict(outcome.as_json())


def outcome_of_values(values: JsonValue) -> ShardOutcome:
    """Return the outcome that values are of; keys of other versions are left out."""
    return ShardOutcome.model_validate(values, strict=False)


def event_values(event: Event) -> dict[str, JsonValue] | None:
    """Return an event as values; None for what concerns its own process only."""
    match event:
        case Remark():
            return {"remark": event.text, "rule": event.rule}
        case Status():
            return {"status": event.text}
        case RunStarted():
            steps = tuple(map(StepSeen.of, event.plan.steps))
            times, shown = _TIMES.dump_python(event.times, mode="json"), _STEPS.dump_python(steps, mode="json")
            return {"run": event.run, "steps": shown, "times": times}
        case StepEvent() if event.what != "progress":
            said: dict[str, JsonValue] = {"what": event.what, "text": event.text, "rule": event.rule}
            planned = _STEP.dump_python(StepSeen.of(event.planned), mode="json") if event.planned else None
            return {**said, "seconds": event.seconds, "step": planned}
        case _:
            return None


def event_of(values: JsonValue) -> object:
    """Return the event that values are of: a `Remark`, `Status`, `StepEvent` or `RunSeen`."""
    said = values if isinstance(values, dict) else {}
    if "remark" in said:
        return Remark(str(said.get("rule", "")), str(said["remark"]))
    if "run" in said:
        steps = tuple(each.planned() for each in _STEPS.validate_python(said["steps"]))
        return RunSeen(str(said["run"]), PlanSeen(steps), _TIMES.validate_python(said["times"]))
    if "what" in said:
        planned = _STEP.validate_python(said["step"]).planned() if said["step"] else None
        text, rule, seconds = str(said["text"]), str(said["rule"]), float(str(said["seconds"]))
        return StepEvent(str(said["what"]), planned, text, seconds, rule)  # type: ignore[arg-type]
    return Status(str(said.get("status", "")))
