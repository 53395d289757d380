"""The contract of a compatibility rule: what it reads, whom it concerns, and what it found with which evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from inspect import getdoc
from typing import Any, Literal, NamedTuple

from vsphere_ai.model.estate.correction import Correction
from vsphere_ai.model.estate.remedies import play_for
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.finding import Finding, Verdict
from vsphere_ai.model.state import KindName, Target, is_observed
from vsphere_ai.model.view import View
from vsphere_ai.resources import kinds
from vsphere_ai.resources.corrections import text_of
from vsphere_ai.resources.remedies import upgrade_for
from vsphere_ai.resources.topics import Topic

Use = Literal["", "power", "move"]
"""What a plan does to a VM that it does not change: it powers it off and on, or has it moved."""
Evidence = tuple[str, Any]
"""A property path (``about.…`` for the vCenter, ``plan.…`` for what this plan changes) and the value seen there."""

Meanings = Mapping[Verdict, str]
Paths = Mapping[str, tuple[str, ...]]
Judge = Callable[["RuleCase"], Finding | Iterable[Finding] | None]
TYPES = {"vcenter": "ServiceInstance", "host": "HostSystem", "vm": "VirtualMachine"}

LONGEST_VALUE = 100


class SeenValue(NamedTuple):
    """Evidence that was read of the target: the path and its value."""

    path: str
    value: Any


class Unreadable(Exception):
    """A property a rule needs was not shown by the server; the rule's verdict is then unknown."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class PlannedValue(NamedTuple):
    """What a plan makes of a property, and the kind and the field that say so."""

    kind: KindName
    field: str
    value: Any

    @property
    def evidence(self) -> Evidence:
        """The evidence of a finding that stands on it."""
        return f"plan.{self.kind}.{self.field}", self.value


@dataclass(frozen=True)
class CompatRule:
    """One compatibility rule; as a decorator it takes the function that judges a target.

    The function's docstring is the paragraph of the rule in the documentation, `verdicts` its table there.
    """

    id: str
    title: str
    _: KW_ONLY
    target: Literal["vcenter", "host", "vm"]
    source: str
    """The public page the rule stands on."""
    verdicts: Meanings
    """When each verdict is given; unknown is added where only a missing property leads to it."""
    reads: tuple[str, ...] = ()
    """The property paths it wants read of its target."""
    also_reads: Paths = field(default_factory=dict)
    """Managed type -> property paths it wants read of other objects, or looks at where its target has them."""
    about: Topic = Topic.NONE
    """The topics that make it relevant; without one it always is."""
    blocks_unknown: bool = False
    """An unknown verdict refuses a plan just as a failure does."""
    about_state: bool = False
    """It also holds for VMs that a plan does not change and powers off and on, or moves, because of their host."""
    judge: Judge = lambda case: None
    """What finds; reading with `RuleCase.need` makes a missing property an unknown verdict."""

    def __call__(self, judge: Judge) -> CompatRule:
        """Return the rule with the function that judges."""
        return replace(self, judge=judge)

    @property
    def doc(self) -> str:
        """The paragraph of the rule in the documentation."""
        return getdoc(self.judge) or ""

    @property
    def properties(self) -> Paths:
        """Managed type -> all property paths it wants read."""
        own = (*self.reads, *self.also_reads.get(TYPES[self.target], ()))
        others = {managed: paths for managed, paths in self.also_reads.items() if managed != TYPES[self.target]}
        return {TYPES[self.target]: own, **others} if own else others

    def check(self, target: Target | None, view: View, use: Use = "") -> Iterator[Finding]:
        """Yield what the rule finds on a target; a property that cannot be read becomes one unknown finding."""
        case = RuleCase(self, target, view, use)
        try:
            found = self.judge(case)
            yield from (found,) if isinstance(found, Finding) else found or ()
        except Unreadable as missing:
            yield case.unknown(f"{missing.path} cannot be read: {missing.reason}")

    def concerns(self, topics: Topic) -> bool:
        """Return whether the rule is relevant to a target on which states that touch these topics are wanted."""
        return not self.about or bool(self.about & topics)


vcenter_rule, host_rule, vm_rule = (
    partial(CompatRule, target="vcenter"),
    partial(CompatRule, target="host"),
    partial(CompatRule, target="vm"),
)


@dataclass(frozen=True)
class RuleCase:
    """One rule before one target: reads the target's properties and words the finding."""

    rule: CompatRule
    target: Target | None
    view: View
    use: Use = ""

    @property
    def ref(self) -> str:
        """The target's managed object reference."""
        return self.target.ref if self.target else ""

    @property
    def facts(self) -> Facts:
        """What was read of the target, as this plan makes it."""
        return self.view.facts(self.ref)

    def read(self, *paths: str) -> SeenValue:
        """Return the first of several equivalent paths that has a value, with it; raise `Unreadable` if none has."""
        facts = self.view.estate.get(self.ref)
        for path in paths:
            if facts is not None and facts.get(path) is not None:
                return SeenValue(path, facts.get(path))
        raise Unreadable(paths[0], why_absent(facts, paths[0]))

    def need(self, path: str) -> Any:
        """Return the value of a path, or raise `Unreadable`."""
        return self.read(path).value

    def planned(self, path: str) -> PlannedValue | None:
        """Return what this plan makes of a property of the target; None when no kind that it changes decides it."""
        return planned_value(self.view, self.ref, path)

    def changes(self, path: str) -> bool:
        """Return whether this plan changes a kind of the target that decides a property."""
        return any(path in kinds()[kind].traits.decides for kind in self.view.planned_kinds(self.ref))

    def is_stated(self, path: str) -> bool:
        """Return whether the playbook states a kind of the target that decides a property."""
        return any((self.ref, kind) in self.view.stated for kind, c in kinds().items() if path in c.traits.decides)

    def implied(self, path: str, value: object) -> PlannedValue | None:
        """Return by what this plan gives a property of the target such a value, along with other settings or as such.

        Any kind may. One that gives the VM a device and sets what this implies comes before one that states it.
        """
        values = []
        for kind in sorted(self.view.planned_kinds(self.ref)):
            traits, state = kinds()[kind].traits, self.view.state(self.ref, kind)
            fields = (own[path] for own in (traits.implies, traits.decides) if path in own)
            values += [PlannedValue(kind, field, value) for field in fields if getattr(state, field, None) == value]
        return min(values, key=lambda planned: not is_observed(kinds()[planned.kind], planned.field), default=None)

    @property
    def own(self) -> Target:
        """The target, in a rule about hosts or VMs."""
        if self.target is None:
            raise ValueError(f"{self.rule.id}: a rule about the vCenter has no target")
        return self.target

    def play(self, *corrections: Correction) -> str:
        """Say how a playbook brings corrections of this host about, or why it cannot just now."""
        return play_for(self.own, self.view, text_of(*corrections))

    def upgrade(self, needed: int) -> str:
        """Say how a playbook gives this VM at least a hardware version, or which hosts are too old for it."""
        return upgrade_for(self.target, self.view, needed) if self.target else ""

    def passed(self, message: str, *evidence: Evidence) -> Finding:
        """Word a pass."""
        return self._finding("pass", message, evidence)

    def warned(self, message: str, *evidence: Evidence, help: str = "", fixes: tuple[Correction, ...] = ()) -> Finding:
        """Word a warning: possible, but the operator should know. `fixes` are what a playbook can do about it."""
        return replace(self._finding("warn", message, evidence, help), corrections=fixes)

    def failed(self, message: str, *evidence: Evidence, help: str = "", fixes: tuple[Correction, ...] = ()) -> Finding:
        """Word a failure; it refuses a plan. `fixes` are what a playbook can do about it."""
        return replace(self._finding("fail", message, evidence, help), corrections=fixes)

    def unknown(self, message: str, *evidence: Evidence, help: str = "") -> Finding:
        """Word that it could not be found out."""
        return self._finding("unknown", message, evidence, help)

    def _finding(self, verdict: Verdict, message: str, evidence: tuple[Evidence, ...], help: str = "") -> Finding:
        if verdict != "unknown" and not evidence:
            raise ValueError(f"{self.rule.id}: a verdict of {verdict} needs evidence")
        refuses = verdict == "fail" or (verdict == "unknown" and self.rule.blocks_unknown)
        seen = tuple((path, _short(value)) for path, value in evidence)
        return Finding(self.target, self.rule.id, verdict, message, help, seen, self.rule.source, refuses)


def planned_value(view: View, ref: str, path: str) -> PlannedValue | None:
    """Return what a plan makes of a property of an object; None when no kind that it changes there decides it."""
    for kind in sorted(view.planned_kinds(ref)):
        field = kinds()[kind].traits.decides.get(path)
        value = getattr(view.state(ref, kind), field) if field else None
        if field and value is not None:
            return PlannedValue(kind, field, value)
    return None


def why_absent(facts: Facts | None, path: str) -> str:
    """Say why a property has no value: not read, refused by the server, object disconnected, or unset."""
    if facts is None:
        return "the object was not read"
    if path in facts.unreadable:
        return facts.unreadable[path]
    state = facts.get("runtime.connectionState", "connected")
    return "the server shows no value" if state == "connected" else f"vCenter reports it as {state}"


def _short(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 3] + "..."
