"""Plan as text: its impact, the changes, the problems, and the order of the steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby
from textwrap import wrap

from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Reconfigure
from vsphere_ai.model.text import safe, shown
from vsphere_ai.planning.planner import Item, Plan
from vsphere_ai.planning.schedule import Impact, waves

TITLES = {"datacenter": "DATACENTERS", "host": "HOSTS", "vm": "VMS"}
INDENT = 9
NAMED = 12
"""How many targets a line names that is not about each of them."""


def plan_text(plan: Plan, digest: str, width: int = 100, *, left_out: Collection[Target] = ()) -> str:
    """Return the plan for a terminal of that many columns. `left_out` is what `--limit` leaves out of the playbook."""
    about = plan.about
    head = f"Plan {digest[:8]}  {safe(about.name)} {about.version} (API {about.api})  {safe(plan.playbook)}"
    lines = [*_wrapped(head, width, 4), ""]
    if left_out:
        first = sorted(left_out)[:NAMED]
        more = f" and {len(left_out) - NAMED} more" if len(left_out) > NAMED else ""
        lines += [*_wrapped(f"Left out by --limit: {_names(first)}{more}", width, 4), ""]
    lines += _agents(plan.impact, width)
    if not plan.changed() and not plan.problems and not plan.steps:
        for kind, title in TITLES.items():
            lines += _targets(title, [i for i in plan.items if i.target.kind == kind and i.stays], width)
        wanted = sum(not i.stays for i in plan.items)
        lines.append(f"Nothing to do: {_count(wanted, 'setting')} as wanted.")
        lines += _warnings(plan, width)
        return "\n".join(safe(line) for line in lines)
    lines += _impact(plan, width, left_out)
    for kind, title in TITLES.items():
        lines += _targets(title, [i for i in plan.items if i.target.kind == kind], width)
    lines += _answers(plan, width)
    lines += _logins(plan, width)
    lines += _warnings(plan, width)
    lines += _problems(plan, width)
    if plan.steps and not plan.problems:
        lines += _order(plan, width)
    lines.append(_summary(plan))  # one line, for grep
    return "\n".join(safe(line) for line in lines)


def _agents(impact: Impact, width: int) -> Iterator[str]:
    """Yield the agent VMs that a pattern matches and that are skipped."""
    by: dict[str, list[Target]] = {}
    for agent in impact.agents:
        if agent.matched:
            by.setdefault(agent.by, []).append(agent.vm)
    for manager, vms in by.items():
        more = f" and {len(vms) - NAMED} more" if len(vms) > NAMED else ""
        text = f"Left out, {_count(len(vms), 'agent VM')} of {safe(manager)}: {_names(vms[:NAMED])}{more}"
        yield from _wrapped(text, width, 4)
        yield ""


def _impact(plan: Plan, width: int, left_out: Collection[Target]) -> Iterator[str]:
    impact, texts = plan.impact, []
    if impact.reboots:
        pace = f", {impact.at_a_time} at a time per cluster" if len(impact.reboots) > 1 else ""
        texts.append(f"{_count(len(impact.reboots), 'host')} reboot{'s' if len(impact.reboots) == 1 else ''}{pace}: "
                     f"{_names(impact.reboots)}")  # fmt: skip
    only = [h for h in impact.maintenance if h not in impact.reboots]
    if only:
        texts.append(f"{_count(len(only), 'host')} in maintenance mode without a reboot: {_names(only)}")
    if impact.power_cycles:
        texts.append(
            f"{_count(len(impact.power_cycles), 'VM')} switched off and on again: {_names(impact.power_cycles)}"
        )
    strangers = [t for t in impact.outside if t not in left_out]
    beyond = [t for t in impact.outside if t in left_out]
    if strangers:
        texts.append(f"of these not in the playbook: {_names(strangers)}")
    if beyond:
        texts.append(f"of these outside --limit: {_names(beyond)}")
    if impact.power_cycles and not impact.outside:
        texts.append("no VM outside the playbook is affected")
    if impact.moves:
        how = (
            "moves to another host (vMotion by DRS)"
            if len(impact.moves) == 1
            else "move to other hosts (vMotion by DRS)"
        )
        texts.append(f"{_count(len(impact.moves), 'VM')} {how}: {_names(impact.moves)}")
    aside = [a.vm for a in impact.agents if a.on_window]
    if aside:
        texts.append(f"{_count(len(aside), 'agent VM')} taken off these hosts by vCenter, not by this plan: "
                     f"{_names(aside)}")  # fmt: skip
    texts += _migrations(impact)
    texts += _losses(impact)
    texts += _rollouts(impact)
    if plan.problems:
        texts.append("incomplete: what has problems (below) is not counted")
    yield from _block("IMPACT", texts or ["no host reboots, no VM is switched off"], width)
    yield ""


def _migrations(impact: Impact) -> Iterator[str]:
    """Yield the VMs with vGPUs that the run moves, their target host, and their stun time."""
    same: dict[tuple[Target, Target, str], list[Target]] = {}
    for move in impact.migrations:
        times = " or ".join(map(str, move.stun))
        stunned = f"stunned for about {times}" if times else "how long it is stunned is not known"
        same.setdefault((move.source, move.target, stunned), []).append(move.vm)
    for (source, target, stunned), vms in same.items():
        each = " each" if len(vms) > 1 and "about" in stunned else ""
        many = _count(len(vms), "VM")
        yield f"{many} with vGPUs: vMotion from {source.name} to {target.name}, {stunned}{each}: {_names(vms)}"


def _losses(impact: Impact) -> Iterator[str]:
    """Yield what is lost on reboot and not recreated, and the hosts where this is not known."""
    same: dict[tuple[str, ...], list[Target]] = {}
    unread: dict[str, list[Target]] = {}
    for loss in impact.lost:
        if loss.unread:
            unread.setdefault(loss.unread, []).append(loss.host)
        else:
            same.setdefault(loss.what, []).append(loss.host)
    for what, hosts in same.items():
        yield f"lost on reboot and not recreated, {_names(hosts)}: {'; '.join(what)}"
    for why, hosts in unread.items():
        yield f"GPU instances, if any, are lost on reboot, {_names(hosts)}: MIG was not read, {safe(why)}"


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


def _targets(title: str, items: Sequence[Item], width: int) -> Iterator[str]:
    changing = sorted({i.target for i in items if i.changes or i.stays})
    same = sorted({i.target for i in items} - set(changing))
    if not items:
        return
    yield title
    same_lines: dict[tuple[str, ...], list[Target]] = {}
    for target in changing:
        own = [i for i in items if i.target == target]
        lines = (_sign(own), *(line for item in own for line in _item(item, width)))
        same_lines.setdefault(lines, []).append(target)
    for (sign, *changes), targets in same_lines.items():
        yield from _wrapped(f"  {sign} {_names(targets)}", width, 4)
        yield from changes
    if same:
        yield from _wrapped(f"  = {_names(same)}  as wanted", width, 4)
    yield ""


def _sign(items: Sequence[Item]) -> str:
    signs = {f.sign for i in items for f in i.fields}
    return signs.pop() if len(signs) == 1 else "~" if any(i.changes for i in items) else "="


def _item(item: Item, width: int) -> Iterator[str]:
    if not item.changes and not item.stays:
        yield f"      = {item.kind}  as wanted"
    for field in item.fields:
        what = f"      {field.sign} {item.kind:<11} {safe(field.name).replace('_', ' '):<18}"
        change = shown(field.after) if field.sign == "+" else f"{shown(field.before)} → {shown(field.after)}"
        yield from _wrapped(f"{what} {change}", width, 12)
    if item.recreate:
        yield f"      ~ {item.kind:<11} lost on reboot, recreated after it"
    for note in item.notes:
        yield from _wrapped(f"      ! {note}", width, 8)
    for text in item.stays:
        yield from _wrapped(f"      = {item.kind:<11} stays: {safe(text)}", width, 12)


def _answers(plan: Plan, width: int) -> Iterator[str]:
    if not plan.answers:
        return
    yield "VCENTER'S OWN CHECKS"
    by_text: dict[str, list[Target]] = {}
    for answer in plan.answers:
        said = [*(f"refuses: {f}" for f in answer.faults), *(f"warns: {w}" for w in answer.warnings)]
        text = "; ".join(safe(s) for s in said) or safe(answer.note) or "no objection"
        by_text.setdefault(f"{answer.check}: {text}", []).append(answer.target)
    for text, targets in by_text.items():
        yield from _wrapped(f"  {_names(targets)}  {text}", width, 6)
    yield ""


def _logins(plan: Plan, width: int) -> Iterator[str]:
    """Say which SSH logins were not tried, and whose SSH does not run again after the reboot."""
    said: dict[str, list[Target]] = {}
    for login in plan.logins:
        said.setdefault(login.why, []).append(login.host)
    if plan.ssh_stays_stopped:
        said["runs now, and stays stopped after the reboot (start_service: never)"] = list(plan.ssh_stays_stopped)
    if not said:
        return
    yield "SSH"
    for why, hosts in said.items():
        yield from _wrapped(f"  {_names(hosts)}  {safe(why)}", width, 6)
    yield ""


def _warnings(plan: Plan, width: int) -> Iterator[str]:
    noted = [f for f in plan.findings if f.verdict in ("warn", "unknown") and not f.refuses]
    if not noted:
        return
    yield "NOT CERTAIN (vsphere-ai check shows the evidence)"
    by_text = sorted(noted, key=lambda f: (f.verdict, f.rule, f.message))
    for (verdict, rule, message), same in groupby(by_text, key=lambda f: (f.verdict, f.rule, f.message)):
        names = _names(f.target for f in same if f.target is not None)
        where = f" [{names}]" if names and not any(n in message for n in names.split(", ")) else ""
        yield from _wrapped(f"  {verdict:<7} {rule}: {safe(message)}{where}", width, 10)
    yield ""


def _problems(plan: Plan, width: int) -> Iterator[str]:
    if not plan.problems:
        return
    yield "PROBLEMS"
    by_text: dict[tuple[str, str, str], list[Target]] = {}
    for problem in plan.problems:
        by_text.setdefault((problem.rule, problem.message, problem.help), []).append(problem.target)
    for (rule, message, help_), targets in by_text.items():
        yield from _wrapped(f"  ! {_names(targets)}: {safe(message)}  [{rule}]", width, 6)
        if help_:
            yield from _wrapped(f"      {safe(help_)}", width, 6)
    yield ""


def _order(plan: Plan, width: int) -> Iterator[str]:
    yield "ORDER"
    for number, wave in enumerate(waves(plan.steps), 1):
        together: dict[str, list[Target]] = {}
        for planned in wave:
            together.setdefault(planned.step.summary, []).append(planned.step.target)
        for summary, targets in together.items():
            yield from _wrapped(f"  {number:>3}  {_names(targets):<20} {safe(summary)}", width, 28)
    yield ""


def _summary(plan: Plan) -> str:
    fields = [f for i in plan.changed() for f in i.fields]
    count = {s: sum(f.sign == s for f in fields) for s in "+~"}
    unchanged = sum(not i.changes for i in plan.items)
    again = sum(i.recreate for i in plan.items)
    words = f"{count['+']} to add, {count['~']} to change, {_removed(plan)} to remove, {unchanged} unchanged"
    words += f", {again} to recreate" if again else ""
    if plan.problems:
        return f"{words} · {_count(len(plan.problems), 'problem')} — this plan is refused, nothing can be applied"
    return f"{words} · {_count(len(plan.steps), 'step')}"


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


def _block(title: str, texts: Sequence[str], width: int) -> Iterator[str]:
    for index, text in enumerate(texts):
        yield from _wrapped(f"{title if index == 0 else '':<{INDENT}}{text}", width, INDENT)


def _wrapped(line: str, width: int, indent: int) -> Iterator[str]:
    if len(line) <= width:
        yield line
        return
    lead = line[: len(line) - len(line.lstrip())]
    yield from wrap(
        line.strip(),
        width,
        initial_indent=lead,
        subsequent_indent=" " * indent,
        break_on_hyphens=False,
        break_long_words=False,
    )


def _names(targets: Iterable[Target]) -> str:
    return ", ".join(safe(t.name) for t in targets)


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
