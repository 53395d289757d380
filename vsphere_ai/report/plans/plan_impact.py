"""Impact of a plan as text: who is disrupted, for how long, and once more by name right above the question."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from vsphere_ai.model.state import Target
from vsphere_ai.model.text import counted, duration
from vsphere_ai.planning.planner import Plan
from vsphere_ai.planning.scheduling.expected_time import Estimate
from vsphere_ai.planning.scheduling.schedule import Impact
from vsphere_ai.report.folding import FEW, Line, first, how_many, names
from vsphere_ai.report.layout import grouped

INDENT = 9
ONE = {
    "reboot": "reboots",
    "enter maintenance mode": "enters maintenance mode",
    "are power-cycled": "is power-cycled",
}
"""The same words of one target."""


def impact_lines(plan: Plan, left_out: Collection[Target], estimate: Estimate | None, *, full: bool) -> Iterator[Line]:
    """Yield what people fear; "no host reboots" where there is nothing of it."""
    named = full or bool(plan.problems)  # else each is named once more above the question
    texts = [*_disruption(plan.impact, left_out, named=named), *_migrations(plan.impact), *_losses(plan.impact)]
    texts += _rollouts(plan.impact, full=full)
    if plan.problems:
        texts.append("incomplete: what has problems (below) is not counted")
    texts = texts or ["no host reboots, no VM is switched off"]
    if estimate and not plan.problems:
        texts += _expected(estimate)
    for at, text in enumerate(texts):
        yield f"{'' if at else 'IMPACT':<{INDENT}}{text}", INDENT


def _expected(estimate: Estimate) -> Iterator[str]:
    """Yield how long all of it takes, what that rests on, and for how long something is out of service."""
    by = "estimate: no history" if not estimate.runs else f"by {counted(estimate.runs, 'run')} here"
    by = f"partly estimated, {by}" if estimate.runs and estimate.guessed else by
    about = "about" if estimate.runs else "perhaps"
    yield f"takes {about} {rounded(estimate.seconds)} in all ({by})"
    if estimate.window:
        each = f", {about} {rounded(estimate.host)} for each host" if estimate.host else ""
        yield f"needs a maintenance window of {about} {rounded(estimate.window)}{each}"


def rounded(seconds: float) -> str:
    """Return a duration as exactly as it is known: in minutes from ten of them on."""
    return f"{round(seconds / 60)}m" if 600 <= seconds < 3570 else duration(seconds)


def _disruption(impact: Impact, left_out: Collection[Target], *, named: bool) -> Iterator[str]:
    said = names if named else first
    if impact.destroyed:
        yield f"{counted(len(impact.destroyed), 'VM')} destroyed, with all disks: {names(impact.destroyed)}"
    if impact.created:
        yield f"{counted(len(impact.created), 'VM')} created: {names(impact.created)}"
    if impact.adopted:
        yield f"{counted(len(impact.adopted), 'VM')} adopted, not changed otherwise: {names(impact.adopted)}"
    if impact.reboots:
        pace = f", {impact.at_a_time} at a time per cluster" if len(impact.reboots) > 1 else ""
        verb = "reboots" if len(impact.reboots) == 1 else "reboot"
        yield f"{counted(len(impact.reboots), 'host')} {verb}{pace}: {said(impact.reboots)}"
    only = [h for h in impact.maintenance if h not in impact.reboots]
    if only:
        yield f"{counted(len(only), 'host')} in maintenance mode without a reboot: {said(only)}"
    if impact.power_cycles:
        count = counted(len(impact.power_cycles), "VM")
        yield f"{count} power-cycled: {said(impact.power_cycles)}"
    strangers = [t for t in impact.outside if t not in left_out]
    beyond = [t for t in impact.outside if t in left_out]
    if strangers:
        yield f"of these not in the playbook: {names(strangers)}"
    if beyond:
        yield f"of these outside --limit: {names(beyond)}"
    if impact.power_cycles and not impact.outside:
        yield "no VM outside the playbook is affected"
    if impact.moves:
        how = "moves to another host" if len(impact.moves) == 1 else "move to other hosts"
        yield f"{counted(len(impact.moves), 'VM')} {how} (vMotion by DRS): {names(impact.moves)}"
    aside = [a.vm for a in impact.agents if a.on_window]
    if aside:
        count = counted(len(aside), "agent VM")
        yield f"{count} taken off these hosts by vCenter, not by this plan: {names(aside)}"


def _migrations(impact: Impact) -> Iterator[str]:
    """Yield the VMs with vGPUs that the run moves, their target host, and their stun time."""

    def stun(times: str) -> str:
        return f"stunned for about {times}" if times else "how long it is stunned is not known"

    alike = grouped(((m.source, m.target, stun(" or ".join(map(str, m.stun)))), m.vm) for m in impact.migrations)
    for (source, target, stunned), vms in alike.items():
        each = " each" if len(vms) > 1 and "about" in stunned else ""
        many = counted(len(vms), "VM")
        yield f"{many} with vGPUs: vMotion from {source.name} to {target.name}, {stunned}{each}: {names(vms)}"


def _losses(impact: Impact) -> Iterator[str]:
    """Yield what is lost on reboot and not recreated, and the hosts where this is not known."""
    for what, hosts in grouped((loss.what, loss.host) for loss in impact.lost if not loss.unread).items():
        yield f"lost on reboot and not recreated, {names(hosts)}: {'; '.join(what)}"
    for why, hosts in grouped((loss.unread, loss.host) for loss in impact.lost if loss.unread).items():
        yield f"GPU instances, if any, are lost on reboot, {names(hosts)}: MIG was not read, {why}"


def _rollouts(impact: Impact, *, full: bool) -> Iterator[str]:
    """Yield the batches of the rollout, how many hosts may fail, and the alarms that are red before the run."""
    for roll in impact.rolls:
        if roll.why:
            yield f"{roll.cluster}: {roll.why}"
        if len(roll.batches) > 1:
            shown = roll.batches if full else roll.batches[:FEW]
            batches = "; ".join(f"{n}: {names(batch)}" for n, batch in enumerate(shown, 1))
            more = f"; and {len(roll.batches) - len(shown)} more" if len(shown) < len(roll.batches) else ""
            yield f"{roll.cluster} in {len(roll.batches)} batches, {batches}{more}"
        if roll.max_fail:
            yield f"{roll.cluster}: no further host is started once more than {roll.max_fail} failed"
    red = grouped((tuple(dict.fromkeys(a.name or a.definition for a in f.alarms)), f.host) for f in impact.found)
    for alarms, hosts in red.items():
        if alarms:
            yield f"existing red alarm, ignored: {names(hosts)}: {', '.join(alarms)}"


def danger_lines(impact: Impact) -> Iterator[Line]:
    """Yield every target that reboots or is switched off, by name: the last thing above the question."""
    windows = [h for h in impact.maintenance if h not in impact.reboots]
    for targets, words in (
        (impact.reboots, "reboot"),
        (windows, "enter maintenance mode"),
        (impact.power_cycles, "are power-cycled"),
    ):
        if targets:
            said = words if len(targets) > 1 else ONE[words]
            yield f"  {how_many(targets)} {said}: {names(targets)}", 4
