"""Plan as text: its impact, the changes, the problems, and the order of the steps."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vsphere_ai.model.names.name_ranges import shell_word
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Destroy
from vsphere_ai.model.text import counted
from vsphere_ai.model.variables import VariableValue
from vsphere_ai.model.world import World
from vsphere_ai.planning.planner import CheckAnswer, Plan
from vsphere_ai.planning.scheduling.expected_time import Estimate
from vsphere_ai.report.findings_text import problem_lines
from vsphere_ai.report.folding import FEW, Line, alike, first, names, of_sample, shape, wrapped
from vsphere_ai.report.layout import grouped
from vsphere_ai.report.plans.plan_impact import danger_lines, impact_lines
from vsphere_ai.report.plans.plan_order import order_lines
from vsphere_ai.report.plans.plan_targets import of_new, target_lines
from vsphere_ai.report.plans.variables_text import variable_lines
from vsphere_ai.report.plans.world_text import world_lines

if TYPE_CHECKING:
    from vsphere_ai.sets.outputs import OutputValue

TITLES = {"datacenter": "DATACENTERS", "host": "HOSTS", "vm": "VMS"}
BLANK: Line = ("", 0)


@dataclass(frozen=True)
class Beside:
    """What is said beside a plan: what `--limit` leaves out of the playbook, outputs, variables, where and how long.

    What is said of many targets alike is said once, with one of them for a sample; with `full` it is said of each.
    """

    left_out: Collection[Target] = ()
    outputs: Sequence[OutputValue] = ()
    full: bool = False
    world: World | None = None
    estimate: Estimate | None = None
    variables: Sequence[VariableValue] = ()


def plan_text(plan: Plan, digest: str, width: int = 100, beside: Beside | None = None) -> str:
    """Return the plan for a terminal of that many columns."""
    return "\n".join(wrapped(_lines(plan, digest, beside or Beside()), width))


def result_lines(plan: Plan, width: int = 100) -> Iterator[str]:
    """Yield the problems of a plan, and its last line."""
    yield from wrapped([*section("PROBLEMS", problem_lines(plan.problems, full=False)), (_summary(plan), 0)], width)


def _lines(plan: Plan, digest: str, beside: Beside) -> Iterator[Line]:
    about = plan.about
    yield f"Plan {digest[:8]}  {about.name} {about.version} (API {about.api})  {plan.playbook}", 4
    if beside.world:
        yield from world_lines(beside.world)
    yield BLANK
    yield from body_lines(plan, beside)
    if not _is_nothing(plan):
        if not plan.problems:
            yield from section("DISRUPTED", danger_lines(plan.impact))
            yield from section("DESTROYED, WITH ALL DATA", destroyed_lines(plan, full=beside.full))
        yield _summary(plan), 0  # one line, for grep


def body_lines(plan: Plan, beside: Beside) -> Iterator[Line]:
    """Yield a plan without its head, and without what is disrupted, destroyed and counted at its end."""
    full, left_out, outputs = beside.full, beside.left_out, beside.outputs
    if left_out:
        yield f"Left out by --limit: {first(sorted(left_out))}", 4
        yield BLANK
    for manager, vms in grouped((a.by, a.vm) for a in plan.impact.agents if a.matched).items():
        yield f"Left out, {counted(len(vms), 'agent VM')} of {manager}: {first(vms)}", 4
        yield BLANK
    yield from section("VARIABLES", variable_lines(beside.variables))
    nothing = _is_nothing(plan)
    if not nothing:
        yield from (*impact_lines(plan, left_out, beside.estimate, full=full), BLANK)
    for kind, title in TITLES.items():
        items = [i for i in plan.items if i.target.kind == kind and (i.stays or not nothing)]
        yield from section(title, target_lines(items, plan.impact, full=full))
    if nothing:
        yield f"Nothing to do: {counted(sum(not i.stays for i in plan.items), 'setting')} in the desired state.", 0
        yield from section(_uncertain(plan.playbook), _warnings(plan, full))
        yield from section("OUTPUTS", _outputs(outputs, full))
        return
    yield from section("VCENTER'S OWN CHECKS", _answers(plan, full))
    yield from section("SSH", _logins(plan))
    yield from section(_uncertain(plan.playbook), _warnings(plan, full))
    yield from section("NOT KNOWN YET" if plan.awaits_ssh else "PROBLEMS", problem_lines(plan.problems, full=full))
    if not plan.problems:
        yield from section("ORDER", order_lines(plan.steps, full=full))
    yield from section("OUTPUTS", _outputs(outputs, full))


def _is_nothing(plan: Plan) -> bool:
    return not plan.changed() and not plan.problems and not plan.steps


def section(title: str, lines: Iterable[Line]) -> Iterator[Line]:
    """Yield lines below a title; nothing where there are none."""
    found = list(lines)
    if found:
        yield from ((title, 4), *found, BLANK)


def _uncertain(playbook: str) -> str:
    """Return the title of what is not certain, with the command that shows why; ``before X`` is no playbook to name."""
    named = f" {shell_word(playbook)}" if playbook and " " not in playbook else ""
    return f"WARNINGS (vsphere-ai check{named} shows the evidence)"


def _answers(plan: Plan, full: bool) -> Iterator[Line]:
    def said(answer: CheckAnswer) -> str:
        words = [*(f"refuses: {f}" for f in answer.faults), *(f"warns: {w}" for w in answer.warnings)]
        return "; ".join(words) or answer.note or "passed"

    for each in alike(((f"{a.check}: {said(a)}", a.target) for a in plan.answers), shape, full=full):
        yield f"  {names(each.targets)}{of_sample(each)}  {each.value}", 6


def _logins(plan: Plan) -> Iterator[Line]:
    """Say which SSH logins were not tried, and whose SSH does not run again after the reboot."""
    said = grouped((login.why, login.host) for login in plan.logins)
    if plan.ssh_stays_stopped:
        said["runs now, and stays stopped after the reboot (start_service: never)"] = list(plan.ssh_stays_stopped)
    yield from ((f"  {names(hosts)}  {why}", 6) for why, hosts in said.items())


def _warnings(plan: Plan, full: bool) -> Iterator[Line]:
    noted = [f for f in plan.findings if f.verdict in ("warn", "unknown") and not f.refuses]
    of_all = {(f.verdict, f.rule, f.message) for f in noted if f.target is None}
    pairs = (((f.verdict, f.rule, f.message), f.target) for f in noted if f.target is not None)
    lines = [(*value, "") for value in of_all]
    for each in alike(pairs, lambda value, on: (*value[:2], shape(value[2], on)), full=full):
        is_named = len(each.targets) == 1 and each.targets[0].name in each.value[2]
        lines.append((*each.value, "" if is_named else f" [{names(each.targets)}]{of_sample(each)}"))
    for verdict, rule, message, where in sorted(lines):
        yield f"  {verdict:<7} {rule}: {message}{where}", 10


def _outputs(outputs: Sequence[OutputValue], full: bool) -> Iterator[Line]:
    if not outputs:
        return
    from vsphere_ai.report.plans.outputs_text import outputs_text

    for each in outputs:
        head, *items = outputs_text([each])
        more = 0 if full or len(items) <= FEW else len(items) - 1
        yield f"  {head}", 6
        yield from ((f"  {line}", 6) for line in (items[:-more] if more else items))
        if more:
            yield f"    and {more} more", 6


def destroyed_lines(plan: Plan, *, full: bool) -> Iterator[Line]:
    """Name each VM that goes, and each of its disks: the last thing above the question.

    Of more than a few VMs with the same disks but for their own names, each is named in a range, and the disks once.
    """
    goes = [p.step for p in plan.steps if isinstance(p.step, Destroy)]
    own = grouped((tuple(_less_name(disk, step.target.name) for disk in step.disks), step) for step in goes)
    for disks, steps in own.items():
        if full or len(steps) <= FEW:
            yield from (line for step in steps for line in _disks(step.target.name, step.disks))
        else:
            yield f"  - {names(s.target for s in steps)}: {counted(len(steps), 'VM')}, each with", 4
            yield from ((f"      {disk}", 0) for disk in disks or ("no disk",))
    for step in goes:
        yield from ((f"  = {'':<20} {disk}  is detached first, and stays", 0) for disk in step.detached)


def _disks(name: str, disks: Sequence[str]) -> Iterator[Line]:
    for number, disk in enumerate(disks or ("no disk",)):
        yield f"  - {'' if number else name:<20} {disk}", 0


def _less_name(disk: str, name: str) -> str:
    """Return the file of a disk with ``NAME`` for the name of its VM; as it is where that would not be clear."""
    less = disk.replace(name, "NAME")
    return less if name and "NAME" not in disk and "NAME" not in name else disk


def changes_text(plans: Iterable[Plan]) -> str:
    """Return how many settings of plans are added, changed and removed, how many stay, and how many come again."""
    made = list(plans)
    new = [frozenset(plan.impact.created) for plan in made]
    changed = [(i, own) for plan, own in zip(made, new, strict=True) for i in plan.changed()]
    fields = [f for i, own in changed for f in (of_new(i.fields) if i.target in own else i.fields)]
    count = {s: sum(f.sign == s for f in fields) for s in "+~"}
    # entries of lists that are removed, and settings; what is replaced by another is a change alone
    removed = sum(f.removed for i, _ in changed for f in i.fields)
    items = [i for plan in made for i in plan.items]
    words = f"{count['+']} to add, {count['~']} to change, {removed} to remove, "
    words += f"{sum(not i.changes for i in items)} unchanged"
    again = sum(i.recreate for i in items)
    return words + (f", {again} to recreate" if again else "")


def _summary(plan: Plan) -> str:
    words = changes_text([plan])
    if plan.awaits_ssh:
        return f"{words} · not known: SSH is stopped — apply starts it, reads, and plans again before its first change"
    if plan.problems:
        return f"{words} · {counted(len(plan.problems), 'problem')} — this plan is refused, nothing can be applied"
    words = f"{words} · {counted(len(plan.steps), 'step')}"
    unproved = sum(bool(login.why) for login in plan.logins)
    return f"{words}; {counted(unproved, 'SSH login')} not proved" if unproved else words
