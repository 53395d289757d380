"""Plan as text: its impact, the changes, the problems, and the order of the steps."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from textwrap import wrap

from vsphere_ai.model.state import FieldChange, Target
from vsphere_ai.model.steps import Destroy, Reconfigure
from vsphere_ai.model.text import counted, safe, shown
from vsphere_ai.planning.planner import Answer, Item, Plan
from vsphere_ai.planning.schedule import Impact, waves
from vsphere_ai.report.layout import grouped
from vsphere_ai.report.outputs_text import outputs_text
from vsphere_ai.sets.outputs import OutputValue

TITLES = {"datacenter": "DATACENTERS", "host": "HOSTS", "vm": "VMS"}
INDENT = 9
NAMED = 12
"""How many targets a line names that is not about each of them."""
MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
SAID_ELSEWHERE = ("index", "host", "guest")
"""What is not said of each new VM: its number is that in the range, the order names its host, `users` is for all."""
Line = tuple[str, int]
"""A line as it may come from outside, and the indent of what does not fit; 0: it is never wrapped."""
BLANK: Line = ("", 0)
UNCERTAIN = "NOT CERTAIN (vsphere-ai check shows the evidence)"


def plan_text(
    plan: Plan,
    digest: str,
    width: int = 100,
    *,
    left_out: Collection[Target] = (),
    outputs: Sequence[OutputValue] = (),
) -> str:
    """Return the plan for a terminal of that many columns. `left_out` is what `--limit` leaves out of the playbook.

    `outputs` are those of the playbook as they will be.
    """
    lines = _lines(plan, digest, left_out, outputs)
    return "\n".join(part for text, indent in lines for part in _wrapped(safe(text), width, indent))


def _lines(plan: Plan, digest: str, left_out: Collection[Target], outputs: Sequence[OutputValue]) -> Iterator[Line]:
    about = plan.about
    yield f"Plan {digest[:8]}  {about.name} {about.version} (API {about.api})  {plan.playbook}", 4
    yield BLANK
    if left_out:
        yield f"Left out by --limit: {_first(sorted(left_out))}", 4
        yield BLANK
    for manager, vms in grouped((a.by, a.vm) for a in plan.impact.agents if a.matched).items():
        yield f"Left out, {counted(len(vms), 'agent VM')} of {manager}: {_first(vms)}", 4
        yield BLANK
    nothing = not plan.changed() and not plan.problems and not plan.steps
    if not nothing:
        yield from _impact(plan, left_out)
    for kind, title in TITLES.items():
        items = [i for i in plan.items if i.target.kind == kind and (i.stays or not nothing)]
        yield from _section(title, _targets(items, plan.impact))
    if nothing:
        yield f"Nothing to do: {counted(sum(not i.stays for i in plan.items), 'setting')} as wanted.", 0
        yield from _section(UNCERTAIN, _warnings(plan))
        yield from _section("OUTPUTS", _outputs(outputs))
        return
    yield from _section("VCENTER'S OWN CHECKS", _answers(plan))
    yield from _section("SSH", _logins(plan))
    yield from _section(UNCERTAIN, _warnings(plan))
    yield from _section("PROBLEMS", _problems(plan))
    if not plan.problems:
        yield from _section("ORDER", _order(plan))
    yield from _section("OUTPUTS", _outputs(outputs))
    if not plan.problems:
        yield from _section("DESTROYED, WITH ALL DATA", _destroyed(plan))
    yield _summary(plan), 0  # one line, for grep


def _section(title: str, lines: Iterable[Line]) -> Iterator[Line]:
    found = list(lines)
    if found:
        yield from ((title, 0), *found, BLANK)


def _impact(plan: Plan, left_out: Collection[Target]) -> Iterator[Line]:
    texts = [*_disruption(plan.impact, left_out), *_migrations(plan.impact), *_losses(plan.impact)]
    texts += _rollouts(plan.impact)
    if plan.problems:
        texts.append("incomplete: what has problems (below) is not counted")
    for at, text in enumerate(texts or ["no host reboots, no VM is switched off"]):
        yield f"{'' if at else 'IMPACT':<{INDENT}}{text}", INDENT
    yield BLANK


def _disruption(impact: Impact, left_out: Collection[Target]) -> Iterator[str]:
    if impact.destroyed:
        yield f"{counted(len(impact.destroyed), 'VM')} destroyed, with all disks: {_names(impact.destroyed)}"
    if impact.created:
        yield f"{counted(len(impact.created), 'VM')} created: {_names(impact.created)}"
    if impact.adopted:
        yield f"{counted(len(impact.adopted), 'VM')} adopted, not changed otherwise: {_names(impact.adopted)}"
    if impact.reboots:
        pace = f", {impact.at_a_time} at a time per cluster" if len(impact.reboots) > 1 else ""
        verb = "reboots" if len(impact.reboots) == 1 else "reboot"
        yield f"{counted(len(impact.reboots), 'host')} {verb}{pace}: {_names(impact.reboots)}"
    only = [h for h in impact.maintenance if h not in impact.reboots]
    if only:
        yield f"{counted(len(only), 'host')} in maintenance mode without a reboot: {_names(only)}"
    if impact.power_cycles:
        count = counted(len(impact.power_cycles), "VM")
        yield f"{count} switched off and on again: {_names(impact.power_cycles)}"
    strangers = [t for t in impact.outside if t not in left_out]
    beyond = [t for t in impact.outside if t in left_out]
    if strangers:
        yield f"of these not in the playbook: {_names(strangers)}"
    if beyond:
        yield f"of these outside --limit: {_names(beyond)}"
    if impact.power_cycles and not impact.outside:
        yield "no VM outside the playbook is affected"
    if impact.moves:
        how = "moves to another host" if len(impact.moves) == 1 else "move to other hosts"
        yield f"{counted(len(impact.moves), 'VM')} {how} (vMotion by DRS): {_names(impact.moves)}"
    aside = [a.vm for a in impact.agents if a.on_window]
    if aside:
        count = counted(len(aside), "agent VM")
        yield f"{count} taken off these hosts by vCenter, not by this plan: {_names(aside)}"


def _migrations(impact: Impact) -> Iterator[str]:
    """Yield the VMs with vGPUs that the run moves, their target host, and their stun time."""

    def stun(times: str) -> str:
        return f"stunned for about {times}" if times else "how long it is stunned is not known"

    alike = grouped(((m.source, m.target, stun(" or ".join(map(str, m.stun)))), m.vm) for m in impact.migrations)
    for (source, target, stunned), vms in alike.items():
        each = " each" if len(vms) > 1 and "about" in stunned else ""
        many = counted(len(vms), "VM")
        yield f"{many} with vGPUs: vMotion from {source.name} to {target.name}, {stunned}{each}: {_names(vms)}"


def _losses(impact: Impact) -> Iterator[str]:
    """Yield what is lost on reboot and not recreated, and the hosts where this is not known."""
    for what, hosts in grouped((loss.what, loss.host) for loss in impact.lost if not loss.unread).items():
        yield f"lost on reboot and not recreated, {_names(hosts)}: {'; '.join(what)}"
    for why, hosts in grouped((loss.unread, loss.host) for loss in impact.lost if loss.unread).items():
        yield f"GPU instances, if any, are lost on reboot, {_names(hosts)}: MIG was not read, {why}"


def _rollouts(impact: Impact) -> Iterator[str]:
    """Yield the batches of the rollout, how many hosts may fail, and the alarms that are red before the run."""
    for roll in impact.rolls:
        if len(roll.batches) > 1:
            batches = "; ".join(f"{n}: {_names(batch)}" for n, batch in enumerate(roll.batches, 1))
            yield f"{roll.cluster} in {len(roll.batches)} batches, {batches}"
        if roll.max_fail:
            yield f"{roll.cluster}: no further host is started once more than {roll.max_fail} failed"
    for found in impact.found:
        if found.alarms:
            names = ", ".join(dict.fromkeys(a.name or a.definition for a in found.alarms))
            yield f"red before this plan, and no obstacle to it: {found.host.name}: {names}"


def _targets(items: Sequence[Item], impact: Impact) -> Iterator[Line]:
    changing = sorted({i.target for i in items if i.changes or i.stays})
    own = {target: [i for i in items if i.target == target] for target in changing}
    whole = {**dict.fromkeys(impact.created, "+"), **dict.fromkeys(impact.destroyed, "-")}
    whole |= dict.fromkeys(impact.adopted, "~")
    new = [t for t in impact.created if t in own]
    lines = {target: tuple(line for i in its for line in _item(i, new=target in new)) for target, its in own.items()}
    shared = [line for line in lines[new[0]] if all(line in lines[t] for t in new)] if len(new) > 1 else []
    if shared:
        yield f"  + {_names(new)}", 4
        yield from shared
        lines |= {t: tuple(line for line in lines[t] if line not in shared) for t in new}
    alike = grouped(((whole.get(t) or _sign(own[t]), lines[t]), t) for t in own)
    for (sign, changes), targets in alike.items():
        yield f"  {sign} {_names(targets)}", 4
        yield from changes
    same = sorted({i.target for i in items} - set(changing))
    if same:
        yield f"  = {_names(same)}  as wanted", 4


def _sign(items: Sequence[Item]) -> str:
    signs = {f.sign for i in items for f in i.fields}
    return signs.pop() if len(signs) == 1 else "~" if any(i.changes for i in items) else "="


def _item(item: Item, *, new: bool = False) -> Iterator[Line]:
    if not item.changes and not item.stays:
        yield f"      = {item.kind}  as wanted", 0
    for field in _of_new(item.fields) if new else item.fields:
        what = f"      {field.sign} {item.kind:<11} {safe(field.name).replace('_', ' '):<18}"
        change = shown(field.after) if field.sign == "+" else f"{shown(field.before)} → {shown(field.after)}"
        yield f"{what} {change}{f'  ({field.effect})' if field.effect else ''}", 12
    if item.recreate:
        yield f"      ~ {item.kind:<11} lost on reboot, recreated after it", 0
    yield from ((f"      ! {note}", 8) for note in item.notes)
    yield from ((f"      = {item.kind:<11} stays: {text}", 12) for text in item.stays)


def _of_new(fields: Iterable[FieldChange]) -> Iterator[FieldChange]:
    """Yield what is worth a line of a new VM; of its NICs, which may have any name, each has one."""
    for field in fields:
        if field.name not in SAID_ELSEWHERE or MAC.match(str(field.after)):
            yield _added(field)


def _added(field: FieldChange) -> FieldChange:
    """Return what a new VM gets beyond what its clone brings; the whole change, where that is not all."""
    if not (isinstance(field.before, tuple) and isinstance(field.after, tuple)):
        return field
    more = tuple(entry for entry in field.after if entry not in field.before)
    return replace(field, before=None, after=more) if len(more) == len(field.after) - len(field.before) else field


def _answers(plan: Plan) -> Iterator[Line]:
    def said(answer: Answer) -> str:
        words = [*(f"refuses: {f}" for f in answer.faults), *(f"warns: {w}" for w in answer.warnings)]
        return "; ".join(words) or answer.note or "no objection"

    for text, targets in grouped((f"{a.check}: {said(a)}", a.target) for a in plan.answers).items():
        yield f"  {_names(targets)}  {text}", 6


def _logins(plan: Plan) -> Iterator[Line]:
    """Say which SSH logins were not tried, and whose SSH does not run again after the reboot."""
    said = grouped((login.why, login.host) for login in plan.logins)
    if plan.ssh_stays_stopped:
        said["runs now, and stays stopped after the reboot (start_service: never)"] = list(plan.ssh_stays_stopped)
    yield from ((f"  {_names(hosts)}  {why}", 6) for why, hosts in said.items())


def _warnings(plan: Plan) -> Iterator[Line]:
    noted = [f for f in plan.findings if f.verdict in ("warn", "unknown") and not f.refuses]
    alike = grouped(((f.verdict, f.rule, f.message), f.target) for f in noted)
    for (verdict, rule, message), targets in sorted(alike.items(), key=lambda each: each[0]):
        names = [t.name for t in targets if t is not None]
        where = f" [{', '.join(names)}]" if names and not any(n in message for n in names) else ""
        yield f"  {verdict:<7} {rule}: {message}{where}", 10


def _problems(plan: Plan) -> Iterator[Line]:
    for (rule, message, help_), targets in grouped(
        ((p.rule, p.message, p.help), p.target) for p in plan.problems
    ).items():
        yield f"  ! {_names(targets)}: {message}  [{rule}]", 6
        if help_:
            yield f"      {help_}", 6


def _outputs(outputs: Sequence[OutputValue]) -> Iterator[Line]:
    return ((f"  {line}", 6) for line in outputs_text(outputs))


def _order(plan: Plan) -> Iterator[Line]:
    for number, wave in enumerate(waves(plan.steps), 1):
        for summary, targets in grouped((p.step.summary, p.step.target) for p in wave).items():
            yield f"  {number:>3}  {_names(targets):<20} {summary}", 28


def _destroyed(plan: Plan) -> Iterator[Line]:
    """Name each VM that goes, and each of its disks: the last thing above the question, and never shortened."""
    for step in (p.step for p in plan.steps):
        if isinstance(step, Destroy):
            for number, disk in enumerate(step.disks or ("no disk",)):
                yield f"  - {'' if number else step.target.name:<20} {disk}", 0
            yield from ((f"  = {'':<20} {disk}  is detached first, and stays", 0) for disk in step.detached)


def _summary(plan: Plan) -> str:
    fields = [f for i in plan.changed() for f in i.fields]
    count = {s: sum(f.sign == s for f in fields) for s in "+~"}
    unchanged = sum(not i.changes for i in plan.items)
    again = sum(i.recreate for i in plan.items)
    words = f"{count['+']} to add, {count['~']} to change, {_removed(plan)} to remove, {unchanged} unchanged"
    words += f", {again} to recreate" if again else ""
    if plan.problems:
        return f"{words} · {counted(len(plan.problems), 'problem')} — this plan is refused, nothing can be applied"
    return f"{words} · {counted(len(plan.steps), 'step')}"


def _removed(plan: Plan) -> int:
    """Return how many entries of lists are removed, or devices, where a device is replaced by another."""
    listed: Counter[Target] = Counter()
    for item in plan.changed():
        listed[item.target] += sum(f.removed for f in item.fields)
    devices = Counter(
        p.step.target
        for p in plan.steps
        if isinstance(p.step, Reconfigure)
        for c in p.step.device_changes
        if c["operation"] == "remove"
    )
    return sum(max(listed[target], devices[target]) for target in {*listed, *devices})


def _wrapped(line: str, width: int, indent: int) -> list[str]:
    if not indent or len(line) <= width:
        return [line]
    lead, rest = line[: len(line) - len(line.lstrip())], " " * indent
    whole = partial(wrap, break_on_hyphens=False, break_long_words=False)
    return whole(line.strip(), width, initial_indent=lead, subsequent_indent=rest)


def _names(targets: Iterable[Target]) -> str:
    return ", ".join(t.name for t in targets)


def _first(targets: Sequence[Target]) -> str:
    more = f" and {len(targets) - NAMED} more" if len(targets) > NAMED else ""
    return f"{_names(targets[:NAMED])}{more}"
