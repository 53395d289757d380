"""Crossover live: a slow VM is measured on another host, or two VMs change hosts, and everything is put back."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from vsphere_ai.app.estate.read_estate import read_with
from vsphere_ai.app.estate.references import load
from vsphere_ai.app.estate.session import open_session
from vsphere_ai.app.events import Begun, Emit, Remark, ignore
from vsphere_ai.app.events.results import Proposal, RunResult
from vsphere_ai.app.runs.account_privileges import with_privileges
from vsphere_ai.app.runs.approval import Confirm, approve, no_confirmation
from vsphere_ai.app.runs.locking import held
from vsphere_ai.app.runs.open_runs import announce
from vsphere_ai.app.runs.run_plan import Origin, PlannedRun, carry_out
from vsphere_ai.app.runs.surroundings import surroundings
from vsphere_ai.app.training.benchmarks.crossover_choice import CrossoverChoice, Moves, Wish, choose
from vsphere_ai.app.training.benchmarks.crossover_trials import Booting, Trials
from vsphere_ai.app.training.benchmarks.nccl import NcclOptions, NcclRequest, NcclTest
from vsphere_ai.app.training.nodes.listed import NodesRequest, guest_settings, read_nodes
from vsphere_ai.benchmarks.slow_part.crossover import Answer as Verdict
from vsphere_ai.benchmarks.slow_part.crossover import Crossover
from vsphere_ai.benchmarks.slow_part.trials import Judge, Trial
from vsphere_ai.compat.vgpu_vmotion import PROFILES_API, SWITCH, profile_query
from vsphere_ai.execution.vcenter_checks import with_answers
from vsphere_ai.language.playbooks.play import Playbook
from vsphere_ai.model.view import View
from vsphere_ai.planning.document import digest
from vsphere_ai.planning.moves.relocation import PATHS
from vsphere_ai.planning.observing import evaluate_with, observe
from vsphere_ai.planning.relocation_plan import plan_of
from vsphere_ai.reading.scope import with_gpus
from vsphere_ai.resources import kinds
from vsphere_ai.runs import journal

if TYPE_CHECKING:
    from collections.abc import Callable

    from vsphere_ai.app.estate.session import Session
    from vsphere_ai.model.facts import Estate, Facts
    from vsphere_ai.model.finding import Finding
    from vsphere_ai.model.nodes import Node
    from vsphere_ai.model.steps import Query
    from vsphere_ai.planning.planner import Plan
    from vsphere_ai.reading.collector import Depth
    from vsphere_ai.runs.locks import Mode


GUEST = ("guest.ipAddress", "guest.net")


@dataclass(frozen=True)
class CrossoverOptions:
    """What is moved: `vm`, to `to_host` or in exchange with `swap_with`, chosen where both are empty; and how.

    `partner` is the VM that the suspect is measured with. `slowdown` is the share to look for, `runs` how often a trial
    of three runs is repeated, `suffix` that of the programs of nccl-tests in the guests, `timeout` the seconds of a
    run, `boot_timeout` those until a guest answers after its VM was powered on. `dry_run` plans, and changes and
    measures nothing.
    """

    vm: str = ""
    to_host: str = ""
    swap_with: str = ""
    partner: str = ""
    slowdown: float = 0.25
    runs: int = 1
    suffix: str = ""
    timeout: float = 600.0
    boot_timeout: float = 900.0
    dry_run: bool = False


@dataclass(frozen=True)
class CrossoverRequest:
    """Among which VMs, and of which suspect; without `yes`, `confirm` is called with the plan."""

    nodes: NodesRequest
    options: CrossoverOptions
    yes: bool = False
    confirm: Confirm = no_confirmation
    lock: Mode | None = None


@dataclass(frozen=True)
class CrossoverResult:
    """Verdict of a crossover, and what it rests on; None where nothing was measured because nothing was to be.

    `run` is that of the moves, None where nothing was moved.
    """

    plan: Plan
    test: Crossover | None = None
    verdict: Verdict | None = None
    before: Mapping[Trial, float | None] = field(default_factory=dict)
    after: Mapping[Trial, float | None] = field(default_factory=dict)
    run: RunResult | None = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The verdict as a finding; none where nothing was to be measured."""
        return () if self.test is None or self.verdict is None else (self.test.finding(self.verdict),)


def bench_crossover(request: CrossoverRequest, emit: Emit = ignore) -> CrossoverResult:
    """Measure a slow VM on another host, or after it changed hosts with another VM, and put everything back.

    `Refused` when nothing can be moved, with every reason; `Locked` when another run works on the vCenter;
    `Unreachable` for a guest that does not answer before anything is moved.
    """
    emit(Begun())
    playbook = load(request.nodes.playbook, request.nodes.estate, emit) if request.nodes.playbook else None
    with open_session(request.nodes.estate, playbook, emit) as session:
        title = f"bench crossover of {request.options.vm}"
        with held(
            session.scope, session.connection, title, "none" if request.options.dry_run else request.lock
        ) as locks:
            announce(session.scope, session.connection, emit)
            return _Work(session, request, title, emit).carried_out(playbook, locks)


class _Work:
    def __init__(self, session: Session, request: CrossoverRequest, title: str, emit: Emit) -> None:
        self._session, self._request, self._title, self._emit = session, request, title, emit
        self._unreported: frozenset[str] = frozenset()
        """References of VMs whose guests do not report their addresses while they run, either."""

    def carried_out(self, playbook: Playbook | None, locks: object) -> CrossoverResult:
        request, options = self._request, self._request.options
        settings = guest_settings(self._session.scope.inventory)
        nodes = read_nodes(self._session, request.nodes, playbook).nodes
        estate, choice = self._chosen(nodes)
        plan = plan_of(estate, self._title, choice.moves, choice.problems)
        plan = with_answers(
            plan, self._session.connection.vcenter, estate, parallel=self._session.scope.options.parallel
        )
        plan = with_privileges(self._session.scope, self._session.connection, plan, estate)
        if choice.why:
            self._emit(Remark("crossover.host", choice.why))
        proposal = Proposal(plan, digest(plan), surroundings(self._session.scope, plan), request.yes)
        confirm = (lambda _: False) if options.dry_run else request.confirm
        if options.dry_run:
            proposal = replace(proposal, confirmed=False)
        if not approve(proposal, confirm, self._emit) or choice.test is None:
            return CrossoverResult(plan, choice.test)
        test = NcclTest(least="64M", most="1G", suffix=options.suffix)
        nccl = NcclRequest(request.nodes, test, NcclOptions(timeout=options.timeout))
        trials = Trials(nccl, settings, {n.vm: n for n in nodes}, self._emit)
        self._unreported = frozenset(n.ref for n in nodes if n.vm in self._silent(choice.moves, nodes))
        before = trials.measure(choice.test.trials)
        if not choice.test.is_reproduced(before):
            return CrossoverResult(plan, choice.test, choice.test.answer(before, None), before)
        after: dict[Trial, float | None] = {}
        crossed, stop = choice.test, self._session.connection.stop

        def measure(say: Callable[[str], None]) -> None:
            booting = Booting(options.boot_timeout, stop, say, partial(self._silent, choice.moves, nodes))
            found = trials.measure_when_up(crossed.after, booting)
            if self._are_there(choice.moves):
                after.update(found)

        empty = Playbook(self._title, hashlib.sha256(self._title.encode()).hexdigest(), ())
        origin = Origin(self._title, locks, measure=measure)  # type: ignore[arg-type]
        run = carry_out(self._session, PlannedRun(empty, plan, estate), origin, self._emit)
        verdict = crossed.answer(before, after)
        record = journal.open_run(run.record)
        record.update(what=f"{self._title}: {verdict}")  # where `run list` shows it
        record.close()
        return CrossoverResult(plan, crossed, verdict, before, after, run)

    def _silent(self, moves: Moves, nodes: tuple[Node, ...]) -> dict[str, str]:
        """Return the VMs that were moved whose guests do not report the address at which they are reached."""
        own = {n.ref: n for n in nodes if n.ref in {m.vm.ref for m in moves}}
        seen = self._session.connection.vcenter.read_objects(sorted(own), {"VirtualMachine": GUEST})
        said = {ref: {str(facts.get(GUEST[0])), *_addresses(facts)} for ref, facts in seen.items()}
        known = {n.vm: n.address in said.get(ref, set()) or ref in self._unreported for ref, n in own.items()}
        return {vm: "its address is not reported yet" for vm, is_known in known.items() if not is_known}

    def _are_there(self, moves: Moves) -> bool:
        """Return whether every VM is still on the host it was moved to; DRS or a user may have moved it on."""
        wanted = {m.vm.ref: m for m in moves}
        seen = self._session.connection.vcenter.read_objects(sorted(wanted), {"VirtualMachine": ("runtime.host",)})
        gone = [m for ref, m in wanted.items() if ref not in seen or seen[ref].get("runtime.host") != m.to.ref]
        for m in gone:
            text = f"{m.vm.name} left {m.to.name} while it was measured: DRS or another user moved it"
            self._emit(Remark("crossover.elsewhere", f"{text}; the measurement does not count"))
        return not gone

    def _chosen(self, nodes: tuple[Node, ...]) -> tuple[Estate, CrossoverChoice]:
        """Read the hosts that the suspect may go to, and choose."""
        from vsphere_ai.reading.collector import Depth

        options, refs = self._request.options, {n.vm: n.ref for n in nodes}

        def around(estate: Estate) -> frozenset[str]:
            known = [ref for ref in refs.values() if ref in estate.objects]
            return frozenset(h.ref for ref in known for h in estate.hosts_for(ref))

        def depth(estate: Estate) -> Depth:
            hosts = around(estate)
            vms = frozenset(v.ref for h in hosts for v in estate.vms_on(h)) | frozenset(refs.values())
            return Depth(hosts, vms, hosts & with_gpus(estate))

        def ask(estate: Estate) -> tuple[Query, ...]:
            new = estate.about.api_numbers >= PROFILES_API
            return SWITCH, *(profile_query(host) for host in sorted(around(estate) if new else ()))

        read = read_with(self._session.reading_also(PATHS), depth, ask)
        judge = Judge(options.slowdown, options.runs)
        wish = Wish(options.vm, options.to_host, options.swap_with, options.partner)

        def made(estate: Estate) -> CrossoverChoice:
            return choose(wish, nodes, View(estate, observe(estate, kinds())), judge)

        choice, estate = evaluate_with(kinds(), read, made)
        return estate, choice


def _addresses(facts: Facts) -> set[str]:
    """Return the addresses that a guest reports."""
    nics = facts.get("guest.net") or ()
    return {str(address) for nic in nics for address in nic.get("ipAddress") or ()}
