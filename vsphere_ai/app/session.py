"""Brings a playbook, an inventory and an estate together: what every command that reads the estate needs."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from vsphere_ai.compat import gate
from vsphere_ai.compat.gate import LOOK
from vsphere_ai.errors import Denied, InputError, Mark, StepFailed, UsageError
from vsphere_ai.fabric import devices, dvs
from vsphere_ai.gpu import live
from vsphere_ai.language import playbook as playbooks
from vsphere_ai.language.inventory import Inventory, VCenterSettings
from vsphere_ai.language.play import Desired, Play, Playbook, TargetPlan
from vsphere_ai.language.selection import narrow, select
from vsphere_ai.model.facts import Estate, ProbeFailure, with_probes
from vsphere_ai.model.finding import Finding
from vsphere_ai.model.malformed import marks_of
from vsphere_ai.model.pending import Pending
from vsphere_ai.model.state import Target, TargetKind
from vsphere_ai.model.steps import Probe, Query, Step
from vsphere_ai.model.view import View
from vsphere_ai.planning.capacity import NO_ROOM
from vsphere_ai.planning.export import acceptable, observed
from vsphere_ai.planning.gpu_waits import unasked
from vsphere_ai.planning.observing import evaluate_with, observe
from vsphere_ai.planning.planner import Besides, Item, Plan, again, check, planned, reading_back, remaining
from vsphere_ai.planning.resume import Resumed, lay_over
from vsphere_ai.planning.rollback import stated_before
from vsphere_ai.reading import requirements
from vsphere_ai.reading.scope import asked_by, depth_for, may_accelerate, with_gpus
from vsphere_ai.resources import kinds
from vsphere_ai.resources.base import Resource

if TYPE_CHECKING:
    from vsphere_ai.connect.esxi import Ssh
    from vsphere_ai.connect.tls import Endpoint
    from vsphere_ai.connect.vcenter import VCenter
    from vsphere_ai.reading.collector import Depth, Request


@dataclass(frozen=True)
class Options:
    """How to read: which vCenter, which targets only, whether SSH may be started for reading, how many at a time."""

    vcenter: str = ""
    limit: str = ""
    start_ssh: bool = False
    parallel: int = 8
    progress: Callable[[str], None] | None = None
    ssh_login: bool = True
    """Whether planning tries the SSH logins that the plan needs."""


class Session:
    """One vCenter, one playbook (or none), and what was read. Closes its connection as a context manager."""

    def __init__(self, inventory: Inventory, playbook: Playbook | None, options: Options) -> None:
        self.inventory, self.playbook, self.options = inventory, playbook, options
        self.settings = playbooks.choose_vcenter(playbook, inventory, options.vcenter)
        self._desired: tuple[Playbook, Estate, Desired] | None = None

    @cached_property
    def vcenter(self) -> VCenter:
        """The connection, opened when it is first needed."""
        from vsphere_ai.connect.vcenter import VCenter
        from vsphere_ai.security.credentials import fetch

        chosen = self.settings
        purpose = f"password of {chosen.username} at {chosen.address}"
        password = fetch(chosen.password, self.inventory.base, purpose=purpose).reveal()
        return VCenter.connect(endpoint_of(chosen, password), notify=self.options.progress)

    @cached_property
    def _shells(self) -> Callable[[Target], Ssh] | None:
        from vsphere_ai.reading.host_shells import shells_of

        return shells_of(self.inventory)

    def shell(self, host: Target) -> Ssh:
        """Return a connection to a host's shell; `UsageError` when the inventory has no `ssh:`."""
        if self._shells is None:
            raise UsageError("the inventory does not say how to reach hosts over SSH", "add an ssh: section to it")
        return self._shells(host)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        if "vcenter" in self.__dict__:
            self.vcenter.close()

    # -- reading

    @property
    def may_start_ssh(self) -> bool:
        """Whether a stopped SSH service may be started for reading."""
        start = self.inventory.ssh.start_service if self.inventory.ssh else "never"
        return start == "always" or (self.options.start_ssh and start != "never")

    def stopping_ssh(self, host: str) -> str:
        """Return how SSH is stopped that a killed command had started: by any command that may start it."""
        if self.inventory.ssh is None or self.inventory.ssh.start_service == "never":
            return "in the vSphere Client, under Configure > Services, TSM-SSH"
        return f"vsphere-ai show {shlex.quote(host)} --start-ssh"

    def read(
        self,
        choose: Callable[[Estate], Depth],
        ask: Callable[[Estate], tuple[Query, ...]] = lambda _: (),
        probes: tuple[Probe, ...] | None = None,
    ) -> Estate:
        """Read the estate as deeply as `choose` says, then ask what `ask` wants to know beyond it.

        `probes` are run instead of those of all kinds.
        """
        from vsphere_ai.reading.collector import collect

        request = self._request(choose)
        wanted = request.probes if probes is None else probes
        return collect(self.vcenter, self._shells, replace(request, ask=ask, probes=wanted))

    def read_for(self, playbook: Playbook, more: Callable[[Estate], Depth] | None = None) -> Estate:
        """Read what planning a playbook needs, and as deeply as `more` says besides."""

        def ask(estate: Estate) -> tuple[Query, ...]:
            return requirements.questions(self.desired(playbook, estate), estate)

        def choose(estate: Estate) -> Depth:
            depth = depth_for(estate, self.desired(playbook, estate))
            return depth | more(estate) if more else depth

        return self.read(choose, ask)

    def read_everything(self, *, around: bool = False) -> Estate:
        """Read all hosts and VMs that `--limit` names deeply; `around` them, too, what planning for them looks at."""
        from vsphere_ai.reading.collector import Depth

        def choose(estate: Estate) -> Depth:
            chosen = self.limited(estate, (*estate.datacenters, *estate.hosts, *estate.vms))
            hosts = frozenset(t.ref for t in chosen if t.kind == "host")
            depth = Depth(hosts, frozenset(t.ref for t in chosen if t.kind == "vm"), hosts & with_gpus(estate))
            narrowed = around and self.options.limit
            return depth | depth_for(estate, dict.fromkeys(chosen, TargetPlan(()))) if narrowed else depth

        return self.read(choose)

    def read_vms(self, patterns: Sequence[str]) -> tuple[Estate, tuple[Target, ...]]:
        """Read VMs, the hosts they can run on and those on the same switches; no command is run on a host."""
        from vsphere_ai.reading.collector import Depth

        def choose(estate: Estate) -> Depth:
            vms = self._named(estate, "vm", patterns)
            hosts = {h.ref for v in vms for h in estate.hosts_for(v.ref)}
            around = frozenset(hosts | dvs.beside(estate, hosts))
            return Depth(around, frozenset(v.ref for v in vms), asked=frozenset(hosts))

        estate = self.read(choose)
        return estate, self._named(estate, "vm", patterns)

    def read_hosts(self, patterns: Sequence[str]) -> tuple[Estate, tuple[Target, ...]]:
        """Read hosts, all of them without a pattern; asked over SSH is what their vSphere release does not tell."""
        from vsphere_ai.reading.collector import Depth

        def named(estate: Estate) -> tuple[Target, ...]:
            return self._named(estate, "host", patterns) if patterns else self.limited(estate, estate.hosts)

        def choose(estate: Estate) -> Depth:
            hosts = frozenset(t.ref for t in named(estate))
            return Depth(hosts, frozenset(), frozenset(h for h in hosts if devices.needs_shell(estate[h])))

        estate = self.read(choose, probes=(devices.NIC_INFO,))
        return estate, named(estate)

    def _named(self, estate: Estate, kind: TargetKind, patterns: Sequence[str]) -> tuple[Target, ...]:
        try:
            found = [t for p in patterns for t in select(p, kind, self.inventory, estate, mark=Mark(p))]
        except InputError as error:
            if any(d.mark.file not in patterns for d in error.diagnostics):
                raise  # a group that the inventory describes wrongly
            text, hint = "\n".join(d.message for d in error.diagnostics), error.diagnostics[0].help
            raise UsageError(text, hint, rule="usage.limit") from None
        return self.limited(estate, tuple(dict.fromkeys(found)))

    def desired(self, playbook: Playbook, estate: Estate) -> Desired:
        """Return what the playbook wants of each target, narrowed by `--limit`."""
        known = self._desired  # a run asks for each target that it reads back, on the same estate
        if known is None or known[0] is not playbook or known[1] is not estate:
            wanted = playbooks.desired(playbook, self.inventory, estate, vcenter=self.settings.name)
            own = Desired({t: wanted[t] for t in self.limited(estate, tuple(wanted))})
            known = self._desired = (playbook, estate, own)
        return known[2]

    def limited(self, estate: Estate, targets: Sequence[Target]) -> tuple[Target, ...]:
        """Narrow targets to those `--limit` names (as datacenters, hosts or VMs)."""
        if not self.options.limit:
            return tuple(targets)
        mark = Mark("--limit")
        try:
            named = set(narrow(self.options.limit, self.inventory, estate, mark=mark))
        except InputError as error:
            if any(d.mark != mark for d in error.diagnostics):  # a group that the inventory describes wrongly
                raise
            faults = [f"--limit: {d.message}" for d in error.diagnostics]
            raise UsageError("\n".join(faults), error.diagnostics[0].help, rule="usage.limit") from None
        return tuple(t for t in targets if t in named)

    def left_out(self, playbook: Playbook, estate: Estate) -> frozenset[Target]:
        """Return the playbook's targets that `--limit` leaves out."""
        if not self.options.limit:
            return frozenset()
        wanted = playbooks.desired(playbook, self.inventory, estate, vcenter=self.settings.name)
        return frozenset(wanted) - set(self.limited(estate, tuple(wanted)))

    # -- planning

    def plan(self, playbook: Playbook) -> tuple[Plan, Estate]:
        """Read, and plan."""
        made, estate = self._plan(playbook, self.read_for(playbook), {})
        return self._with_logins(made, estate, playbook), estate

    def plan_of(self, playbook: Playbook, estate: Estate) -> tuple[Plan, Estate]:
        """Plan on what was read already; no login is proved."""
        return self._plan(playbook, estate, {})

    def plan_again(
        self, playbook: Playbook, all_pending: Iterable[Pending], looks: Collection[str] = ()
    ) -> tuple[Plan, Estate, Resumed]:
        """Read, and plan what an unfinished run has left, including what it owes. `looks`: see `resume.lay_over`."""
        found = self.read_for(playbook)
        owed = lay_over(found, all_pending, looks)
        made, estate = self._plan(playbook, owed.estate, owed.extra, found)
        return self._with_logins(made, with_probes(found, estate), playbook), estate, owed

    def _with_logins(self, plan: Plan, estate: Estate, playbook: Playbook) -> Plan:
        """Prove that the hosts on which a plan needs SSH let us in; `estate` is what was read, as it is now."""
        from vsphere_ai.execution import ssh_checks
        from vsphere_ai.reading.collector import prober_of

        probing = reading_back(self.desired(playbook, estate))
        request = self._request(lambda _: depth_for(estate, {}))
        prober = prober_of(self.vcenter, self._shells, request) if self._shells else None
        access = ssh_checks.Access(self.inventory.ssh, prober, self.options.ssh_login, self.options.parallel)
        return ssh_checks.with_logins(plan, estate, access, probing)

    def _plan(
        self, playbook: Playbook, estate: Estate, extra: Mapping[Target, Sequence[Step]], found: Estate | None = None
    ) -> tuple[Plan, Estate]:
        """Plan; where that reboots hosts whose GPUs were not asked, or VMs may move there, ask and plan again.

        `found` is what was read where `estate` shows what an unfinished run has switched as it was before: whether SSH
        has to be started for a question, and stopped again, is seen there.
        """
        from vsphere_ai.reading.collector import ask_hosts

        made, estate = self._made(playbook, estate, extra)
        if any(p.rule == NO_ROOM for p in made.problems):
            from vsphere_ai.execution.second_read import read_around

            shells = self._shells if self.options.ssh_login else None
            estate = read_around(self.vcenter, shells, self._request(lambda _: depth_for(estate, {})), made, estate)
            made, estate = self._made(playbook, estate, extra)
        unread = unasked(made.impact, estate)
        if self._shells is None or not unread or not self.options.ssh_login:
            return made, estate
        request = replace(self._request(lambda _: depth_for(estate, {})), probes=live.STATE)
        asked = ask_hosts(self.vcenter, self._shells, request, found or estate, unread)
        estate = with_probes(estate, asked)
        return self._made(playbook, estate, extra)

    def _made(self, playbook: Playbook, estate: Estate, extra: Mapping[Target, Sequence[Step]]) -> tuple[Plan, Estate]:
        """Plan; the estate comes back without values that are not as vSphere defines them."""

        def wanted(estate: Estate) -> tuple[Mapping[Target, TargetPlan], Besides]:
            out = frozenset(t.ref for t in self.left_out(playbook, estate))
            agents = playbooks.managed(playbook, self.inventory, estate, vcenter=self.settings.name)
            return self.desired(playbook, estate), Besides(extra, out, agents)

        (desired, besides), estate = evaluate_with(kinds(), estate, wanted)
        return planned(desired, estate, kinds(), playbook.path, besides)

    def before(self, playbook: Playbook, plan: Plan, estate: Estate) -> Playbook:
        """Return what a plan is about to change as a playbook of how it is now: what a rollback goes back to."""
        wanted = self.desired(playbook, estate)
        view = View(estate, observe(estate, kinds()), stated=wanted.stated)
        changing = {(i.target, i.kind) for i in plan.changed()}
        plays = [self._play_before(t, p, [k for k in kinds() if (t, k) in changing], view) for t, p in wanted.items()]
        return Playbook(f"before {playbook.path}", playbook.digest, tuple(p for p in plays if p.states))

    def _play_before(self, target: Target, plan: TargetPlan, changing: Sequence[str], view: View) -> Play:
        stated = stated_before(target, changing, view, kinds())
        how = (plan.rolling, plan.power, self.settings.name)
        return Play(target.name, target.kind, target.ref, stated, *how, targets=(target,))

    def pinned(self, playbook: Playbook, estate: Estate) -> Playbook:
        """Return a playbook that is for the targets it means now, narrowed by `--limit`, whatever they are called."""
        only = self.desired(playbook, estate)
        return playbooks.pinned(playbook, self.inventory, estate, only, vcenter=self.settings.name)

    def check(self, playbook: Playbook) -> tuple[Finding, ...]:
        """Check what a playbook is about against the compatibility rules."""
        estate = self.read_for(playbook)
        return evaluate_with(kinds(), estate, lambda e: check(self.desired(playbook, e), e, kinds()))[0]

    def check_all(self) -> tuple[Finding, ...]:
        """Check everything that was read against the compatibility rules."""

        def examined(estate: Estate) -> tuple[Finding, ...]:
            chosen = set(self.limited(estate, (*estate.hosts, *estate.vms)))
            view = View(estate, observe(estate, kinds()))
            return tuple(f for f in gate.examine_all(view) if f.target is None or f.target in chosen)

        return evaluate_with(kinds(), self.read_everything(), examined)[0]

    def show(self) -> tuple[Estate, Mapping[Target, Sequence[Resource]], Mapping[Target, str]]:
        """Return what was read as states per target that planning accepts, and why a target's is incomplete."""
        from vsphere_ai.execution.second_read import ask_as_plan

        def seen(estate: Estate) -> tuple[dict[Target, list[Resource]], dict[Target, list[str]]]:
            return observed(estate, self.limited(estate, (*estate.datacenters, *estate.hosts, *estate.vms)))

        (found, remarks), estate = evaluate_with(kinds(), self.read_everything(around=True), seen)
        wanted = {t: TargetPlan(tuple(own)) for t, own in found.items() if own}
        asked = ask_as_plan(self.vcenter, self._shells, self._request(lambda _: depth_for(estate, {})), wanted, estate)
        if asked is not estate:
            (found, remarks), estate = evaluate_with(kinds(), asked, seen)
        (kept, more), estate = evaluate_with(kinds(), estate, lambda e: acceptable(found, e))
        told = {t: "; ".join([*said, *more.get(t, ())]) for t, said in remarks.items()}
        return estate, kept, {t: words for t, words in told.items() if words}

    def left(
        self, playbook: Playbook, estate: Estate, target: Target, *, but_last: bool = False, shared: bool = True
    ) -> tuple[Item, ...]:
        """Read one target again and return what is still to change there; other hosts and VMs are as planned.

        `shared`: networks, folders and whatever else hosts and VMs share are read again, too; False when the plan
        changes none of them, so that they are as they were when it was made. `Denied` where a host refuses the SSH
        login: its state cannot be read, and waiting does not help.
        """
        wanted, now = self._read_again(playbook, estate, target, shared)
        for answer in now[target.ref].probes.values():
            if isinstance(answer, ProbeFailure) and answer.rule == "ssh.denied":
                raise Denied(f"{target.name} cannot be read back: {answer.reason}", answer.help)
        items, sound = evaluate_with(kinds(), now, lambda e: remaining(wanted, e, kinds(), target, but_last=but_last))
        if lost := marks_of(sound[target.ref]):
            raise StepFailed(f"{target.name} cannot be read back: {lost[0].path}: {lost[0].reason}", LOOK)
        return items

    def again(
        self, playbook: Playbook, estate: Estate, target: Target, *, shared: bool = True
    ) -> tuple[Step, ...] | None:
        """Read one target again in the same way and return the steps that are left there; None when nobody can tell."""
        wanted, now = self._read_again(playbook, estate, target, shared)
        steps, sound = evaluate_with(kinds(), now, lambda e: again(wanted, e, kinds(), target))
        return None if marks_of(sound[target.ref]) else steps

    def _read_again(
        self, playbook: Playbook, estate: Estate, target: Target, shared: bool
    ) -> tuple[Mapping[Target, TargetPlan], Estate]:
        from vsphere_ai.reading.collector import Depth, collect_one

        wanted = self.desired(playbook, estate)
        probing = target in reading_back({target: wanted[target]})
        one = frozenset({target.ref})
        depth = Depth(one if target.kind == "host" else frozenset(), one if target.kind == "vm" else frozenset(),
                      one if probing else frozenset(), asked_by({target: wanted[target]}, estate) & one)  # fmt: skip
        request = replace(self._request(lambda _: depth), start_ssh=False, progress=None)
        shared = shared or target.kind not in ("host", "vm")
        fresh = collect_one(self.vcenter, self._shells, request, depth, shared=shared)
        if target.ref not in fresh.objects:
            raise StepFailed(f"{target.name} was removed since planning", "plan again", rule="object.gone")
        others = (f for r, f in fresh.objects.items() if not r.startswith(("HostSystem:", "VirtualMachine:")))
        return wanted, estate.with_objects((*others, fresh[target.ref]))

    def _request(self, choose: Callable[[Estate], Depth]) -> Request:
        from vsphere_ai.reading.collector import Request

        return Request(
            paths=requirements.wanted_paths(),
            choose=choose,
            probes=requirements.probes(),
            queries=requirements.queries(),
            worth=may_accelerate,
            start_ssh=self.may_start_ssh,
            parallel=self.options.parallel,
            progress=self.options.progress,
        )


def endpoint_of(settings: VCenterSettings, password: str = "") -> Endpoint:
    """Return where a vCenter is; without a password, for looking at its certificate only."""
    from vsphere_ai.connect.tls import Endpoint

    ca_file = Path(settings.tls.ca_file) if settings.tls.ca_file else None
    return Endpoint(settings.address, settings.port, settings.username, password, ca_file, settings.tls.fingerprint)
