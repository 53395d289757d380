"""Reading back: one target of a run is read again, and compared with what was planned for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from vsphere_ai.app.estate.session import Session
from vsphere_ai.compat.gate import LOOK
from vsphere_ai.errors import Denied, StepFailed
from vsphere_ai.language.playbooks.play import Playbook, TargetPlan
from vsphere_ai.model.estate.malformed import marks_of
from vsphere_ai.model.facts import Estate, ProbeFailure
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Step
from vsphere_ai.planning.observing import evaluate_with
from vsphere_ai.planning.planner import PlanItem, again, reading_back, remaining
from vsphere_ai.reading.host_calls import asked_by
from vsphere_ai.reading.vm_tags import with_tags
from vsphere_ai.resources import kinds


@dataclass(frozen=True)
class ReadBack:
    """Reads targets of a run again. `estate` is the one that the plan was made on.

    `shared`: networks, folders and whatever else hosts and VMs share are read again, too; false when the plan changes
    none of them, so that they are as they were when it was made.
    """

    session: Session
    playbook: Playbook
    estate: Estate
    shared: bool = True

    def left(self, target: Target, but_last: bool = False) -> tuple[PlanItem, ...]:
        """Read one target again and return what is still to change there; other hosts and VMs are as planned.

        `Denied` where a host refuses the SSH login: its state cannot be read, and waiting does not help.
        """
        wanted, now = self._read(target)
        for answer in now[target.ref].probes.values():
            if isinstance(answer, ProbeFailure) and answer.rule == "ssh.denied":
                raise Denied(f"{target.name} cannot be read back: {answer.reason}", answer.help)
        items, sound = evaluate_with(kinds(), now, lambda e: remaining(wanted, e, kinds(), target, but_last=but_last))
        if lost := marks_of(sound[target.ref]):
            raise StepFailed(f"{target.name} cannot be read back: {lost[0].path}: {lost[0].reason}", LOOK)
        return items

    def again(self, target: Target) -> tuple[Step, ...] | None:
        """Read one target again in the same way and return the steps that are left there; None when that is unknown."""
        wanted, now = self._read(target)
        steps, sound = evaluate_with(kinds(), now, lambda e: again(wanted, e, kinds(), target))
        return None if marks_of(sound[target.ref]) else steps

    def _read(self, target: Target) -> tuple[Mapping[Target, TargetPlan], Estate]:
        from vsphere_ai.reading.collector import Depth, collect_one
        from vsphere_ai.reading.own_paths import narrowed, renewed

        wanted = self.session.desired(self.playbook, self.estate)
        probing = target in reading_back({target: wanted[target]})
        one = frozenset({target.ref})
        none: frozenset[str] = frozenset()
        asked, calls = asked_by({target: wanted[target]}, self.estate)
        hosts, vms = (one if target.kind == kind else none for kind in ("host", "vm"))
        depth = Depth(hosts, vms, one if probing else none, asked & one, calls)
        everything = replace(self.session.request(lambda _: depth), start_ssh=False, progress=None)
        request = narrowed(everything, target, wanted[target], self.estate)
        shared = self.shared or target.kind not in ("host", "vm")
        fresh = collect_one(
            self.session.connection.vcenter, self.session.connection.shells, request, depth, shared=shared
        )
        if target.ref not in fresh.objects:
            what = (
                f"{target.name} is not in the inventory any more: it was removed, or the account may no longer see it"
            )
            raise StepFailed(what, "plan again", rule="object.gone")
        fresh = with_tags(self.session.connection.vcenter, fresh, {target: wanted[target]})
        now = fresh[target.ref]
        if request is not everything:
            now = renewed(self.estate.get(target.ref), now, request)
        others = (f for r, f in fresh.objects.items() if not r.startswith(("HostSystem:", "VirtualMachine:")))
        return wanted, self._listed.with_objects((*others, now))

    @cached_property
    def _listed(self) -> Estate:
        return self.estate.listed()
