"""Two operators on one vCenter, in every order of their calls, killed and cut off anywhere: no VM or address twice."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

import pytest
from sets import vcenter_model as model
from sets.vcenter_model import LOST, POOLS, Paused, Vm, Wants, World, advance, answered, marks, plan

from vsphere_ai.addresses.ledger_text import read_ledger
from vsphere_ai.execution.actions import leases, vm_life
from vsphere_ai.model.vm_sets import MemberMark, instance_uuid, settings_of
from vsphere_ai.sets import members

TRIES = 3
FAULTS = ("lost", "unsent", "killed", "restart", "task gone")


class Wrong(AssertionError):
    """Something that must never be so, and the moves that lead to it."""


@dataclass(frozen=True)
class Operator:
    """What an operator wants, and how far the run is: its steps by the key of their plan, and the answers so far."""

    wants: Wants
    steps: int = -1
    at: int = 0
    known: tuple[int, ...] = ()
    state: str = "idle"
    tries: int = TRIES


@dataclass
class Walk:
    """Visits every state that two operators can come to; `faults` is how many things go wrong at most."""

    faults: int = 1
    locked: bool = True
    seen: set = field(default_factory=set)
    plans: dict = field(default_factory=dict)
    answers: list = field(default_factory=list)
    numbers: dict = field(default_factory=dict)
    judged: set = field(default_factory=set)
    calls_known: dict = field(default_factory=dict)
    plans_known: dict = field(default_factory=dict)
    made: list = field(default_factory=list)

    def through(self, world, *wants):
        """Walk from a world; `Wrong` with the moves where an invariant does not hold."""
        start = (world, tuple(Operator(w) for w in wants), self.faults)
        stack = [(start, ())]
        while stack:
            state, path = stack.pop()
            if state in self.seen:
                continue
            self.seen.add(state)
            moves = list(self.moves(*state))
            self.check(state[0], path)
            if not any(one[0].split()[0] not in FAULTS for one in moves):
                self.judge(state[0], state[1], path)
            stack += [(after, (*path, move)) for move, after in moves]
        return len(self.seen)

    # -- moves

    def moves(self, world, operators, faults):
        for task in world.running():
            yield f"{task.method} of {task.vm} ends", (world.ended(task), operators, faults)
        if faults and world.running():
            down = world
            for task in world.running():
                down = down.ended(task, "error")
                down = replace(
                    down, tasks=tuple(replace(t, state="gone") if t.number == task.number else t for t in down.tasks)
                )
            yield "restart", (down, operators, faults - 1)
        for number, operator in enumerate(operators):
            for move, after, now, left in self.moves_of(f"op{number}", world, operator, faults):
                yield f"{move} (op{number})", (after, (*operators[:number], now, *operators[number + 1 :]), left)

    def moves_of(self, name, world, operator, faults):
        if operator.state == "idle" and operator.tries and (not self.locked or world.lock in ("", name)):
            yield "plans", *self.planned(name, world, operator), faults
        if operator.state != "running":
            return
        while True:
            call = self.next_call(name, operator)
            if call is None and operator.at + 1 < len(self.plans[operator.steps]):
                operator = replace(operator, at=operator.at + 1, known=())
            elif isinstance(call, Paused) and not call.changes and self.is_alone(world, call):
                operator = self.heard(operator, answered(world, name, call.method, call.args)[1])
            else:
                break
        if call is None:
            yield "done", self.unlocked(world, name), replace(operator, at=0, known=(), state="done"), faults
        elif not isinstance(call, Paused):
            yield f"failed: {call}", *self.stopped(name, world, operator), faults
        else:
            yield from self.calls(name, world, operator, call, faults)

    def is_alone(self, world, call):
        """Return whether it makes no difference when an operator reads: nothing else is at work, or can begin to be."""
        return self.locked and not world.running()

    def next_call(self, name, operator):
        key = (operator.steps, operator.at, operator.known)
        if key not in self.calls_known:
            answers = [self.answers[n] for n in operator.known]
            self.calls_known[key] = advance(name, self.plans[operator.steps][operator.at], answers)
        return self.calls_known[key]

    def calls(self, name, world, operator, call, faults):
        after, answer = answered(world, name, call.method, call.args)
        said = f"{call.method} {call.args[1] if call.method == 'submit' else ''}"
        if answer is not None:
            yield said, after, self.heard(operator, answer), faults
        if not faults or not call.changes:
            if faults and answer is None:
                yield "task gone", world, self.heard(operator, LOST), faults - 1
            return
        yield f"lost {said}", after, self.heard(operator, LOST), faults - 1
        yield f"unsent {said}", world, self.heard(operator, LOST), faults - 1
        for then, when in ((world, "before"), (after, "after")):
            yield f"killed {when} {said}", *self.stopped(name, then, operator), faults - 1

    def heard(self, operator, answer):
        return replace(operator, known=(*operator.known, self.number(answer)))

    def number(self, answer):
        key = answer if isinstance(answer, str) else repr(answer)
        if key not in self.numbers:
            self.numbers[key] = len(self.answers)
            self.answers.append(answer)
        return self.numbers[key]

    def planned(self, name, world, operator):
        """Take the lock and plan; one that goes on with its own run waits for the tasks of it first, so does `plan`."""
        known = (world.vms, world.ledger, operator.wants)
        if known not in self.plans_known:
            self.plans_known[known] = plan(world, operator.wants)
        steps = self.plans_known[known]
        if not steps:
            state = "done" if steps is not None else "idle"
            return world, replace(operator, state=state, tries=operator.tries - 1)
        key = repr(steps)
        if key not in self.numbers:
            self.numbers[key] = len(self.made)
            self.made.append(steps)
            self.plans[self.numbers[key]] = steps
        return replace(world, lock=name if self.locked else ""), replace(
            operator, steps=self.numbers[key], at=0, known=(), state="running", tries=operator.tries - 1
        )

    def stopped(self, name, world, operator):
        """Its run has ended in the middle; the lock expires."""
        return self.unlocked(world, name), replace(operator, state="idle", steps=-1, at=0, known=())

    def unlocked(self, world, name):
        return replace(world, lock="") if world.lock == name else world

    # -- what must never be so

    def check(self, world, path):
        mine = marks(world)
        places = [(m.set, m.index) for m in mine.values()]
        if len(set(places)) < len(places):
            raise Wrong(f"a VM is there twice: {places}\n" + "\n".join(path))
        given = [a for m in mine.values() for n in m.nics for a in n.addresses]
        if len(set(given)) < len(given):
            raise Wrong(f"an address is given twice: {given}\n" + "\n".join(path))
        if [v for v in world.vms if v.foreign] != self.foreign:
            raise Wrong("a VM of someone else was touched\n" + "\n".join(path))

    foreign: list = field(default_factory=list)

    def judge(self, world, operators, path):
        """Nothing moves any more: one apply of everything, and one that destroys it all, leave nothing behind."""
        world = replace(world, lock="", tasks=())
        if world in self.judged:
            return
        self.judged.add(world)
        wanted = dict(pair for o in operators for pair in o.wants.sets)
        for counts in (wanted, dict.fromkeys(wanted, 0)):
            for one in counts.items():
                world = self.alone(world, Wants((one,)), path)
            self.check(world, path)
            there = sorted((m.set, m.index) for m in marks(world).values())
            named = sorted((name, i) for name, count in counts.items() for i in range(1, count + 1))
            held = {(nic.set, nic.name): h.count for nic, h in read_ledger(world.ledger).holdings.items() if h.count}
            leased = {(name, pool): count for name, count in counts.items() for pool in POOLS if count}
            if there != named or held != leased or len(world.vms) != len(named) + len(self.foreign):
                raise Wrong(f"{counts}: there are {there}, held is {held}\n" + "\n".join(path))

    def alone(self, world, wants, path):
        world, operator = self.planned("last", world, Operator(wants))
        while operator.state == "running":
            for task in world.running():
                world = world.ended(task)
            ((move, world, operator, _),) = self.moves_of("last", world, operator, 0)
            if move.startswith("failed"):
                raise Wrong(f"the last run {move}\n" + "\n".join(path))
        if operator.state != "done":
            raise Wrong("the last plan is refused\n" + "\n".join(path))
        return world


EMPTY = World()


def walked(*wants, world=EMPTY, **about):
    walk = Walk(**about)
    walk.foreign = [v for v in world.vms if v.foreign]
    started = time.process_time()
    states = walk.through(world, *(Wants(w) for w in wants))
    print(f"{states} states, {len(walk.judged)} ends, {time.process_time() - started:.1f} s of CPU")
    return walk


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    model.patched(monkeypatch)


def vm(name, index, *, of, uuid, number, foreign=True):
    """A VM with the mark of a member of the set "a", which names the VM `of`."""
    mark = MemberMark("a", index, of)
    return Vm(number, name, uuid, tuple(sorted(mark.settings().items())), foreign=foreign)


MEMBER = instance_uuid(model.ABOUT.instance, "a", 2, 1)
COPY, COPY_OF_NAME = (
    World((vm(name, 2, of=MEMBER, uuid="of-its-own", number=1),), made=1) for name in ("copy-of-a-2", "a-2")
)
"""A colleague's clone of a member, with the mark that it carries on."""
GROW_BOTH = (("a", 2),), (("b", 1),)
SAME = (("a", 2),), (("a", 2),)
SHRINK = (("a", 3),), (("a", 1),)
MIXED = (("a", 2),), (("a", 1), ("b", 2))
THREE = (("a", 2),), (("a", 1),), (("b", 2),)


WORK = {
    "two sets": (GROW_BOTH, 2),
    "the same": (SAME, 2),
    "shrink": (SHRINK, 1),
    "mixed": (MIXED, 1),
    "three": (THREE, 1),
}


@pytest.mark.parametrize("work", WORK)
def test_every_order_of_calls(work):
    wants, faults = WORK[work]
    assert len(walked(*wants, world=COPY, faults=faults).judged) >= 1


def test_leases_without_the_lock_are_refused_to_the_second():
    """Both have planned on the same ledger; the digest of the text decides."""
    assert walked(*GROW_BOTH, faults=0, locked=False).judged


# -- the walk finds what is wrong


def test_a_ledger_without_its_digest_gives_addresses_twice(monkeypatch):
    def write(context, step, say):
        context.lock().write_ledger(context.vcenter.read_ledger(), step.text)

    monkeypatch.setattr(leases, "write", write)
    with pytest.raises(Wrong, match="given twice"):
        walked(*GROW_BOTH, faults=0, locked=False)


def test_a_release_that_waits_for_no_clone_gives_addresses_twice(monkeypatch):
    monkeypatch.setattr(leases, "_require_gone", lambda *_: None)
    with pytest.raises(Wrong, match="given twice"):
        walked(*THREE, faults=1)


def test_a_copied_mark_that_is_believed_destroys_what_is_not_ours(monkeypatch):
    def believed(estate):
        def own(facts):
            mark = MemberMark.read(settings_of(facts))
            return facts.having({"config.instanceUuid": mark.uuid}) if mark else facts

        return estate.with_objects([own(f) for f in estate.of_type("VirtualMachine")])

    def vm_by_mark(world, ref):
        found = (
            v for v in world.vms if ref in (v.ref, f"VirtualMachine:{dict(v.settings).get('vsphere-ai.instance-uuid')}")
        )
        return next(found, None)

    find = members.find
    monkeypatch.setattr(model.layout, "find", lambda plays, estate: find(plays, believed(estate)))
    monkeypatch.setattr(vm_life, "mark_of", lambda facts: MemberMark.read(settings_of(facts)))
    monkeypatch.setattr(World, "vm", vm_by_mark)
    with pytest.raises(Wrong, match="someone else"):
        walked((("a", 1),), world=COPY_OF_NAME, faults=0)


def test_a_name_that_is_taken_is_left_to_who_has_it():
    """The same VM where marks are judged: the plan for one VM leaves it, that for two is refused."""
    walk = walked((("a", 1),), world=COPY_OF_NAME, faults=1)
    assert walk.judged
    assert plan(COPY_OF_NAME, Wants((("a", 2),))) is None
