"""Several operators who lease and release addresses under the lock: killed, cut off, and stopped until it expires."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import pytest
from support.lock_world import ROOT, Client, World
from support.seeds import cases

from vsphere_ai.addresses.holding import AddressLedger, NicHolding
from vsphere_ai.addresses.leasing import all_leases, lease, release
from vsphere_ai.addresses.ledger_text import ledger_text, read_ledger
from vsphere_ai.addresses.pool import AddressPool
from vsphere_ai.addresses.request import NicRequest, PoolSettings, SetRequest
from vsphere_ai.connect import address_ledger, vcenter_lock
from vsphere_ai.connect.address_ledger import read_text, write_text
from vsphere_ai.errors import Conflict, Locked, NotVerified, OutcomeUnknown, StepFailed
from vsphere_ai.model.facts import Facts

SEEDS = len(cases(120, 2000))
EVERY = 10.0
POOLS = {
    "v4": AddressPool(subnet="10.0.0.0/27", quarantine=0),
    "v6": AddressPool(subnet="fd00::/123", quarantine=0),
}
NIC = NicRequest("rail1", ("v4", "v6"))
FIELDS = "CustomFieldsManager:fields"
HOLDER = vcenter_lock.LockHolder("alice", "build7", 1, "run")


class Estate(World):
    """A vCenter with custom attributes of its root folder. `given`: what each set was given, as its operator knows."""

    def __init__(self, seed):
        super().__init__(seed)
        self.fields, self.values, self.given = {}, {}, {}

    def give(self, name, ledger):
        """Note what an operator may rely on from now on."""
        self.given[name] = {(e.nic.version, e.address) for e in all_leases(ledger, POOLS) if e.nic.set == name}
        for (one, first), (two, second) in combinations(self.given.items(), 2):
            if first & second:
                self.violations.append(f"{one} and {two} both have {sorted(first & second)}")


class Operator(Client):
    """A client that also sees custom attributes."""

    def service(self, name):
        return FIELDS if name == "customFieldsManager" else super().service(name)

    def read_objects(self, refs, paths):
        if "customValue" not in paths.get("Folder", ()):
            return super().read_objects(refs, paths)
        self._step()
        shown = {
            "availableField": tuple({"key": key, "name": name} for name, key in self.world.fields.items()),
            "customValue": tuple({"key": key, "value": value} for key, value in self.world.values.items()),
        }
        return {ROOT: Facts(ROOT, shown)}

    def call(self, ref, method, args):
        if method == "AddCustomFieldDef":
            return self._changing(lambda: self.world.fields.setdefault(args["name"], len(self.world.fields)))
        if method == "SetField":
            return self._changing(lambda: self.world.values.update({args["key"]: args["value"]}))
        return super().call(ref, method, args)


def an_operator(world, name):
    """Return an actor that lets its set grow and shrink a few times, each time under the lock."""

    def act(me):
        vcenter = Operator(world, me)
        for now in range(4):
            try:
                lock = vcenter_lock.acquire(vcenter, HOLDER, every=EVERY, announce=lambda ref: None)
                world.seen["acquired"] += 1
                try:
                    changed(world, vcenter, lock, name, now)
                finally:
                    lock.release()
            except (vcenter_lock.Busy, OutcomeUnknown, Conflict, Locked, NotVerified, StepFailed) as error:
                world.seen[getattr(error, "rule", "busy")] += 1

    return act


def changed(world, vcenter, lock, name, now):
    before = read_text(vcenter)
    ledger, terms = read_ledger(before.text), PoolSettings(POOLS, now)
    if world.chance.random() < 0.4:
        world.given.pop(name, None)  # its VMs are gone: what they had may be given to others from here on
        after = release(ledger, terms, name, keep=0)
    else:
        found = lease(ledger, terms, [SetRequest(name, world.chance.randrange(1, 8), (NIC,))])
        after = found.ledger
    world.sleep(world.chance.choice((0, 1, 2, 40 if world.chance.random() < 0.2 else 0)))
    written = write_text(lock, before, ledger_text(after))
    world.seen["written"] += 1
    if all_leases(after, POOLS) and any(nic.set == name for nic in after.holdings):
        world.give(name, read_ledger(written.text))


def walked(monkeypatch, seed):
    world = Estate(seed)
    monkeypatch.setattr(vcenter_lock.time, "sleep", world.sleep)
    monkeypatch.setattr(vcenter_lock.time, "monotonic", lambda: world.clock)
    world.run(*(an_operator(world, name) for name in "abc"))
    return world


def lost(world):
    """Return the sets whose addresses the ledger does not have any more, or `damaged` when it says so itself."""
    vcenter = Operator(world, 0, trouble=False)
    try:
        ledger = read_ledger(read_text(vcenter).text)
    except Conflict:
        return "damaged"
    has = {n: {(e.nic.version, e.address) for e in all_leases(ledger, POOLS) if e.nic.set == n} for n in world.given}
    return [name for name, given in world.given.items() if not given <= has[name]]


@pytest.mark.timeout(1200)
def test_no_address_is_given_twice_and_none_that_was_given_is_forgotten(monkeypatch):
    seen = Counter()
    with monkeypatch.context() as patch:
        patch.setattr(address_ledger, "SIZES", (60,))  # several parts each
        for seed in range(SEEDS):
            world = walked(patch, seed)
            seen += world.seen
            assert not world.violations, f"seed {seed}: {world.violations}"
            forgotten = lost(world)
            seen["damaged"] += forgotten == "damaged"
            assert forgotten in ("damaged", []), f"seed {seed}: {forgotten}"
    assert min(seen[each] for each in ("acquired", "written", "answer lost", "killed", "busy", "lock.lost")) > 10, seen
    assert seen["damaged"] * 20 < SEEDS, seen  # only where a call is late by the life of the lock, and then it is said


def without_looking(lock, before, text):
    """Write as if no one else did, and do not read back."""
    vcenter = lock.vcenter
    seen = address_ledger._look(vcenter)
    serial, bank = address_ledger._next(seen.head)
    packed = address_ledger.base64.b64encode(address_ledger.zlib.compress(text.encode(), 9)).decode()
    parts = [packed[at : at + 60] for at in range(0, len(packed), 60)]
    for number, part in enumerate(parts, 1):
        seen = address_ledger._defined(vcenter, seen, address_ledger._name(bank, number))
        address_ledger._set(vcenter, seen, address_ledger._name(bank, number), part)
    seen = address_ledger._defined(vcenter, seen, address_ledger.HEAD)
    head = f"1 {serial} {bank} {len(parts)} {address_ledger._digest(packed)}"
    address_ledger._set(vcenter, seen, address_ledger.HEAD, head)
    return address_ledger.StoredText(text, head)


def test_a_wrong_protocol_is_found_out(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(f"{__name__}.write_text", without_looking)
        worlds = (walked(patch, seed) for seed in range(300))
        assert any(world.violations or lost(world) not in ("damaged", []) for world in worlds)


def test_the_ledger_of_the_tests_is_one(monkeypatch):
    world = Estate(0)
    vcenter = Operator(world, 0, trouble=False)
    lock = vcenter_lock.acquire(vcenter, HOLDER, every=EVERY, announce=lambda ref: None)
    found = lease(AddressLedger(), PoolSettings(POOLS, 0), [SetRequest("a", 2, (NIC,))])
    written = write_text(lock, read_text(vcenter), ledger_text(found.ledger))
    assert NicHolding("a", "rail1", 6) in read_ledger(written.text).holdings
    world.give("a", read_ledger(written.text))
    assert len(world.given["a"]) == 4
    assert lost(world) == []
