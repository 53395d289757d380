"""Brings a playbook, an inventory and an estate together: what every command that reads the estate needs."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from vsphere_ai import asking
from vsphere_ai import playbook as playbooks
from vsphere_ai.compat import gate
from vsphere_ai.compat.base import Finding
from vsphere_ai.debts import Debt
from vsphere_ai.depth import depth_for, with_gpus
from vsphere_ai.documents import require
from vsphere_ai.errors import InputError, Mark, StepFailed, UsageError
from vsphere_ai.fabric import devices, dvs
from vsphere_ai.facts import Estate, ProbeFailure, View
from vsphere_ai.going_back import stated_before
from vsphere_ai.gpu import live
from vsphere_ai.inventory import Inventory, VCenterSettings, load_inventory, running_lab
from vsphere_ai.plan import Item, Plan, again, check, make_plan, observe_all, remaining
from vsphere_ai.playbook import Play, Playbook, TargetPlan
from vsphere_ai.resources import kinds
from vsphere_ai.resources.base import Resource
from vsphere_ai.resume import Owed, lay_over
from vsphere_ai.selection import narrow, select
from vsphere_ai.state import Target, TargetKind
from vsphere_ai.steps import Probe, Query, Step

if TYPE_CHECKING:
    from vsphere_ai.collect import Depth, Request
    from vsphere_ai.connect.esxi import Ssh
    from vsphere_ai.connect.tls import Endpoint
    from vsphere_ai.connect.vcenter import VCenter

PROJECT_INVENTORY = "vsphere-ai.yaml"


def find_inventory(given: Path | None) -> Inventory:
    """Load the given inventory, else the project's `vsphere-ai.yaml`, else that of the running lab."""
    if given is not None:
        require(given, "inventory")
        return load_inventory(given)
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / PROJECT_INVENTORY).is_file():
            _require_own(folder / PROJECT_INVENTORY, here)
            return load_inventory(folder / PROJECT_INVENTORY)
        if (folder / ".git").exists():
            break
    try:
        return load_inventory(running_lab())
    except UsageError as error:
        raise UsageError(
            f"no inventory: give one with -i, or write {PROJECT_INVENTORY}, or start the lab",
            "vsphere-ai lab up starts the embedded farm",
        ) from error


def _require_own(found: Path, here: Path) -> None:
    """Refuse an inventory that nobody named and that others may have laid there: it says which commands are run.

    Whoever owns this folder may say so for it: a checkout that is mounted into a container is another user's.
    """
    status = found.stat()
    if status.st_uid not in (0, os.getuid(), here.stat().st_uid):
        why = "belongs to another user"
    elif status.st_mode & stat.S_IWOTH:
        why = "can be changed by everybody"
    else:
        return
    raise UsageError(f"the inventory {found} {why}, and was not named", f"if it is the right one: -i {found}")


@dataclass(frozen=True)
class Options:
    """How to read: which vCenter, which targets only, whether SSH may be started for reading, how many at a time."""

    vcenter: str = ""
    limit: str = ""
    start_ssh: bool = False
    parallel: int = 8
    progress: Callable[[str], None] | None = None


class Workbench:
    """One vCenter, one playbook (or none), and what was read. Closes its connection as a context manager."""

    def __init__(self, inventory: Inventory, playbook: Playbook | None, options: Options) -> None:
        self.inventory, self.playbook, self.options = inventory, playbook, options
        self.settings = _choose(inventory, playbook, options.vcenter)

    @cached_property
    def vcenter(self) -> VCenter:
        """The connection, opened when it is first needed."""
        from vsphere_ai.connect.vcenter import VCenter
        from vsphere_ai.credentials import fetch

        chosen = self.settings
        purpose = f"password of {chosen.username} at {chosen.address}"
        password = fetch(chosen.password, self.inventory.base, purpose=purpose).reveal()
        return VCenter.connect(endpoint_of(chosen, password), tell=self.options.progress)

    @cached_property
    def _shells(self) -> Callable[[Target], Ssh] | None:
        from vsphere_ai.connect.esxi import Ssh, SshEndpoint
        from vsphere_ai.connect.gate import LoginGate
        from vsphere_ai.credentials import fetch

        ssh = self.inventory.ssh
        if ssh is None:
            return None
        gate_ = LoginGate()  # one refused credential is not tried on the next host: accounts lock after five failures
        base, purpose = self.inventory.base, f"SSH password of {ssh.username}"
        password = fetch(ssh.password, base, purpose=purpose).reveal() if ssh.password else None
        unlock = ssh.key_passphrase
        passphrase = fetch(unlock, base, purpose=f"passphrase of {ssh.key_file}").reveal() if unlock else None

        def connect(host: Target) -> Ssh:
            address, port = ssh.endpoint(host.name)
            key = Path(ssh.key_file) if ssh.key_file else None
            known = Path(ssh.known_hosts)
            at = SshEndpoint(host.name, address, port, ssh.username, known, password, key, passphrase)
            return Ssh(at, gate=gate_)

        return connect

    def shell(self, host: Target) -> Ssh:
        """Return a connection to a host's shell; `UsageError` when the inventory has no `ssh:`."""
        if self._shells is None:
            raise UsageError("the inventory does not say how to reach hosts over SSH", "add an ssh: section to it")
        return self._shells(host)

    def __enter__(self) -> Workbench:
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
        from vsphere_ai.collect import collect

        request = self._request(choose)
        wanted = request.probes if probes is None else probes
        return collect(self.vcenter, self._shells, replace(request, ask=ask, probes=wanted))

    def read_for(self, playbook: Playbook) -> Estate:
        """Read what planning a playbook needs."""

        def ask(estate: Estate) -> tuple[Query, ...]:
            return asking.questions({t: p.states for t, p in self.desired(playbook, estate).items()}, estate)

        return self.read(lambda estate: depth_for(estate, self.desired(playbook, estate)), ask)

    def read_everything(self, only: Sequence[Target] | None = None) -> Estate:
        """Read all hosts and VMs deeply, or only some of them."""
        from vsphere_ai.collect import Depth

        def choose(estate: Estate) -> Depth:
            chosen = only if only is not None else self.limited(estate, (*estate.hosts, *estate.vms))
            hosts = frozenset(t.ref for t in chosen if t.kind == "host")
            return Depth(hosts, frozenset(t.ref for t in chosen if t.kind == "vm"), hosts & with_gpus(estate))

        return self.read(choose)

    def read_vms(self, patterns: Sequence[str]) -> tuple[Estate, tuple[Target, ...]]:
        """Read VMs, the hosts they can run on and those on the same switches; no command is run on a host."""
        from vsphere_ai.collect import Depth

        def choose(estate: Estate) -> Depth:
            vms = self._named(estate, "vm", patterns)
            hosts = {h.ref for v in vms for h in estate.hosts_for(v.ref)}
            return Depth(frozenset(hosts | dvs.beside(estate, hosts)), frozenset(v.ref for v in vms))

        estate = self.read(choose)
        return estate, self._named(estate, "vm", patterns)

    def read_hosts(self, patterns: Sequence[str]) -> tuple[Estate, tuple[Target, ...]]:
        """Read hosts, all of them without a pattern; asked over SSH is what their vSphere release does not tell."""
        from vsphere_ai.collect import Depth

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
            raise UsageError("\n".join(d.message for d in error.diagnostics), error.diagnostics[0].help) from None
        return self.limited(estate, tuple(dict.fromkeys(found)))

    def desired(self, playbook: Playbook, estate: Estate) -> Mapping[Target, TargetPlan]:
        """Return what the playbook wants of each target, narrowed by `--limit`."""
        wanted = playbooks.desired(playbook, self.inventory, estate, vcenter=self.settings.name)
        chosen = set(self.limited(estate, tuple(wanted)))
        return {t: p for t, p in wanted.items() if t in chosen}

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
            raise UsageError("\n".join(faults), error.diagnostics[0].help) from None
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
        return self._plan(playbook, self.read_for(playbook), {})

    def plan_again(
        self, playbook: Playbook, debts: Iterable[Debt], looks: Collection[str] = ()
    ) -> tuple[Plan, Estate, Owed]:
        """Read, and plan what an unfinished run has left, including what it owes. `looks`: see `resume.lay_over`."""
        owed = lay_over(self.read_for(playbook), debts, looks)
        return *self._plan(playbook, owed.estate, owed.extra), owed

    def _plan(self, playbook: Playbook, estate: Estate, extra: Mapping[Target, Sequence[Step]]) -> tuple[Plan, Estate]:
        """Plan; where that reboots hosts whose MIG nobody has read, read it, because a reboot takes instances away."""
        from vsphere_ai.collect import ask_hosts

        made = make_plan(self.desired(playbook, estate), estate, kinds(), playbook.path, extra=extra)
        unread = [loss.host.ref for loss in made.impact.lost if loss.unread and not estate[loss.host.ref].probes]
        if self._shells is None or not unread:
            return made, estate
        request = replace(self._request(lambda _: depth_for(estate, {})), probes=live.STATE)
        estate = ask_hosts(self.vcenter, self._shells, request, estate, unread)
        return make_plan(self.desired(playbook, estate), estate, kinds(), playbook.path, extra=extra), estate

    def before(self, playbook: Playbook, plan: Plan, estate: Estate) -> Playbook:
        """Return what a plan is about to change as a playbook of how it is now: what a rollback goes back to."""
        wanted = self.desired(playbook, estate)
        stated = {(t.ref, s.kind): s for t, p in wanted.items() for s in p.states}
        view = View(estate, observe_all(estate, kinds()), stated=stated)
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
        return check(self.desired(playbook, estate), estate, kinds())

    def check_all(self) -> tuple[Finding, ...]:
        """Check everything that was read against the compatibility rules."""
        estate = self.read_everything()
        chosen = set(self.limited(estate, (*estate.hosts, *estate.vms)))
        view = View(estate, observe_all(estate, kinds()))
        return tuple(f for f in gate.examine_all(view) if f.target is None or f.target in chosen)

    def show(self) -> tuple[Estate, Mapping[Target, Sequence[Resource]], Mapping[Target, str]]:
        """Return what was read as states per target, and why a target's is incomplete."""
        estate = self.read_everything()
        states = observe_all(estate, kinds())
        view = View(estate, states)
        found: dict[Target, list[Resource]] = {}
        remarks: dict[Target, str] = {}
        for target in self.limited(estate, (*estate.datacenters, *estate.hosts, *estate.vms)):
            own = [states.get((target.ref, k)) for k, c in kinds().items() if c.target == target.kind]
            stated = [s.as_playbook(target, view) for s in own if s is not None]
            found[target] = [s for s in stated if s is not None]
            failure = next((o for o in estate[target.ref].probes.values() if isinstance(o, ProbeFailure)), None)
            said = [f"MIG left out: {failure.reason}"] if failure is not None else []
            said += [words for s in own if s is not None and (words := s.left_out(target, view))]
            if said:
                remarks[target] = "; ".join(said)
        return estate, found, remarks

    def left(
        self, playbook: Playbook, estate: Estate, target: Target, *, but_last: bool = False, shared: bool = True
    ) -> tuple[Item, ...]:
        """Read one target again and return what is still to change there; other hosts and VMs are as planned.

        `shared`: networks, folders and whatever else hosts and VMs share are read again, too; False when the plan
        changes none of them, so that they are as they were when it was made.
        """
        return remaining(*self._read_again(playbook, estate, target, shared), kinds(), target, but_last=but_last)

    def again(
        self, playbook: Playbook, estate: Estate, target: Target, *, shared: bool = True
    ) -> tuple[Step, ...] | None:
        """Read one target again in the same way and return the steps that are left there; None when nobody can tell."""
        return again(*self._read_again(playbook, estate, target, shared), kinds(), target)

    def _read_again(
        self, playbook: Playbook, estate: Estate, target: Target, shared: bool
    ) -> tuple[Mapping[Target, TargetPlan], Estate]:
        from vsphere_ai.collect import Depth, collect_one

        wanted = self.desired(playbook, estate)
        probing = target.kind == "host" and any(kinds()[s.kind].probes for s in wanted[target].states)
        one = frozenset({target.ref})
        depth = Depth(one if target.kind == "host" else frozenset(), one if target.kind == "vm" else frozenset(),
                      one if probing else frozenset())  # fmt: skip
        request = replace(self._request(lambda _: depth), start_ssh=False, progress=None)
        shared = shared or target.kind not in ("host", "vm")
        fresh = collect_one(self.vcenter, self._shells, request, depth, shared=shared)
        if target.ref not in fresh.objects:
            raise StepFailed(f"{target.name} was removed meanwhile", "plan again")
        others = {r: f for r, f in fresh.objects.items() if not r.startswith(("HostSystem:", "VirtualMachine:"))}
        facts = {**estate.objects, **others, target.ref: fresh[target.ref]}
        return wanted, Estate(estate.about, facts)

    def _request(self, choose: Callable[[Estate], Depth]) -> Request:
        from vsphere_ai.collect import Request

        return Request(
            paths=asking.wanted_paths(),
            choose=choose,
            probes=asking.probes(),
            queries=asking.queries(),
            start_ssh=self.may_start_ssh,
            parallel=self.options.parallel,
            progress=self.options.progress,
        )


def endpoint_of(settings: VCenterSettings, password: str = "") -> Endpoint:
    """Return where a vCenter is; without a password, for looking at its certificate only."""
    from vsphere_ai.connect.tls import Endpoint

    ca_file = Path(settings.tls.ca_file) if settings.tls.ca_file else None
    return Endpoint(settings.address, settings.port, settings.username, password, ca_file, settings.tls.fingerprint)


def _choose(inventory: Inventory, playbook: Playbook | None, name: str) -> VCenterSettings:
    known = inventory.vcenters
    if name and name not in known:
        raise UsageError(f"the inventory has no vCenter '{name}'", f"it has {', '.join(known)}")
    names = (name,) if name else playbooks.vcenters(playbook, inventory) if playbook else tuple(known)
    if len(names) != 1:
        raise UsageError(f"there are {len(names)} vCenters: {', '.join(names)}", "choose one with --vcenter")
    return known[names[0]]
