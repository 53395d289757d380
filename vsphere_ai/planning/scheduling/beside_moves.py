"""Changes of hosts that moves of VMs depend on: what they make comes before any move of a cluster, the rest after all.

A host without a window is changed as a whole then. One with a window has these steps outside of it: before a host can
be emptied, its VMs need the way on which they leave.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from vsphere_ai.language.playbooks.play import TargetPlans
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import AsPlanned, Step
from vsphere_ai.model.view import View
from vsphere_ai.planning.moves.outlook import Outlook
from vsphere_ai.planning.moves.rolling import rolling_of
from vsphere_ai.planning.scheduling.set_order import Chains
from vsphere_ai.planning.scheduling.step_order import Edge
from vsphere_ai.planning.scheduling.windows import READ_BACK, needs_maintenance
from vsphere_ai.resources import kinds

HOST = "HostSystem"


@dataclass
class BesideMoves:
    """Steps by host outside of its window: those before the moves of its cluster, and those after them.

    `whole` are hosts without a window whose steps all come before.
    """

    early: dict[Target, list[Step]] = field(default_factory=dict)
    late: dict[Target, list[Step]] = field(default_factory=dict)
    whole: list[Target] = field(default_factory=list)
    lost: dict[Target, list[Step]] = field(default_factory=dict)
    """Hosts on which moves lose in a window what they depend on: they do not count on it."""
    clusters: Mapping[str, Sequence[Target]] = field(default_factory=dict)
    """The hosts with a window, by cluster, that VMs leave while they run."""

    @property
    def chains(self) -> tuple[Sequence[Step], ...]:
        """All steps outside of windows, each host's in their order."""
        return (*self.early.values(), *self.late.values())

    def inside(self, host: Target, steps: Sequence[Step]) -> list[Step]:
        """Return the steps of a host that are left for its window."""
        outside = {id(s) for s in (*self.early.get(host, ()), *self.late.get(host, ()))}
        return [s for s in steps if id(s) not in outside]

    def seen_by_moves(self, outlook: Outlook) -> Outlook:
        """Return the outlook in which moves find hosts as they are changed by then."""
        changed = [*self._changed(outlook.before, outlook.after)]
        return outlook._replace(before=outlook.before.with_facts(changed)) if changed else outlook

    def _changed(self, before: View, after: View) -> Iterator[Facts]:
        for host, own in self.early.items():
            now = before.facts(host.ref)
            yield now.having(_of_kinds(after.facts(host.ref), own))
        for host in self.whole:
            then = after.facts(host.ref)
            yield then.having(_of_kinds(before.facts(host.ref), self.late.get(host, ())))
        for host, own in self.lost.items():
            now = before.facts(host.ref)
            yield now.having(_of_kinds(after.facts(host.ref), own))

    def edges(self, estate: Estate, firsts: Chains, chains: Chains) -> Iterator[Edge]:
        """Yield what the windows of a cluster wait for, and what waits for them.

        `firsts` are the steps that the window of a host begins with.
        """
        for host in (*self.whole, *self.early):
            early = self.early.get(host, ())
            windows = self.clusters[str(estate[host.ref].get("parent"))]
            begin = [step for window in windows for step in firsts.get(window, ())]
            begin += chains[host][:1] if early else []
            yield from (((early or chains[host])[-1], step) for step in begin)
        for host, own in self.late.items():
            every = {host, *self.clusters[str(estate[host.ref].get("parent"))]}
            yield from ((chains[window][-1], own[0]) for window in sorted(every) if chains.get(window))


def beside_moves(
    steps: Mapping[Target, Sequence[Step]], windows: Collection[Target], desired: TargetPlans, estate: Estate
) -> BesideMoves:
    """Return which steps of hosts come before the moves of VMs of their cluster, and which after them."""
    clusters: dict[str, list[Target]] = {}
    for host in sorted(windows):
        facts = estate[host.ref]
        if rolling_of(desired, host).evacuate == "vmotion" and not facts.get("runtime.inMaintenanceMode"):
            clusters.setdefault(str(facts.get("parent")), []).append(host)
    made = BesideMoves(clusters=clusters)
    for host in sorted(t for t in steps if t.kind == "host"):
        if str(estate[host.ref].get("parent")) not in clusters:
            continue
        late = [s for s in steps[host] if s.comes_last]
        if late and needs_maintenance(late):
            made.lost[host] = late
        elif late:
            made.late[host] = [*late, AsPlanned(target=host, summary=READ_BACK)]
        early = [s for s in steps[host] if s.comes_first]
        if early and host not in windows:
            made.whole.append(host)
        elif early and _can_come_first(early, steps[host]):
            made.early[host] = early
    return made


def _can_come_first(early: Iterable[Step], every: Iterable[Step]) -> bool:
    """Return whether steps can be sent while VMs run on the host, and need nothing that has to come later."""
    before = _kinds_before(early)
    needed = [s for s in every if s.comes_first or not before.isdisjoint(s.kinds)]
    return all(s.comes_first and not (s.needs_maintenance or s.needs_reboot or s.after_reboot) for s in needed)


def _kinds_before(steps: Iterable[Step]) -> frozenset[str]:
    """Return the kinds that those of some steps are planned after, directly or not."""
    every, own = kinds(), {k for s in steps for k in s.kinds}
    waiting, known = [*own], set[str]()
    while waiting:
        more = [k for k in every[waiting.pop()].traits.after if k not in known]
        known.update(more)
        waiting += more
    return frozenset(known - own)


def _of_kinds(facts: Facts, steps: Iterable[Step]) -> dict[str, object]:
    """Return the properties of a host that kinds of some steps read, and so may change."""
    every = kinds()
    paths = {path for s in steps for k in s.kinds for path in every[k].traits.properties.get(HOST, ())}
    return {path: facts.properties[path] for path in sorted(paths) if path in facts.properties}
