"""The lock in vCenter under a scheduler that picks who makes the next call, loses answers, and kills."""

from __future__ import annotations

from collections import Counter

import pytest
from support.lock_world import Client, World
from support.seeds import cases

from vsphere_ai.connect import vcenter_lock
from vsphere_ai.errors import OutcomeUnknown, VimFault

SEEDS = len(cases(150, 2000))
EVERY = 10.0
HOLDER = vcenter_lock.LockHolder("alice", "build7", 1, "run")


def a_run(world):
    """Return an actor that takes the lock a few times, keeps it for a while, and gives it back."""

    def act(me):
        vcenter = Client(world, me)
        for _ in range(3):
            try:
                lock = vcenter_lock.acquire(vcenter, HOLDER, every=EVERY, announce=lambda ref: None)
            except (vcenter_lock.Busy, OutcomeUnknown) as error:
                world.seen[type(error).__name__] += 1
                continue
            world.seen["acquired"] += 1
            world.believe(me, lock)
            try:
                for _ in range(world.chance.randrange(8)):
                    world.sleep(world.chance.choice((1, 4, 9, 40 if world.chance.random() < 0.2 else 2)))
                    try:
                        lock.renew()
                    except OutcomeUnknown:
                        continue
                    world.believe(me, lock)
            except vcenter_lock.LockTakenOver:
                world.seen["lost"] += 1
                world.believers.pop(me)
                continue
            world.believers.pop(me)
            try:
                lock.release()
            except OutcomeUnknown:
                continue

    return act


def violations(monkeypatch, seed, actors=4):
    world = World(seed)
    monkeypatch.setattr(vcenter_lock.time, "sleep", world.sleep)
    monkeypatch.setattr(vcenter_lock.time, "monotonic", lambda: world.clock)
    world.run(*(a_run(world) for _ in range(actors)))
    return world


@pytest.mark.timeout(1200)
def test_never_two_hold_it_and_it_never_stays_for_good(monkeypatch):
    seen = Counter()
    with monkeypatch.context() as patch:
        for seed in range(SEEDS):
            world = violations(patch, seed)
            seen += world.seen
            assert not world.violations, f"seed {seed}: {world.violations}"
            world.clock += vcenter_lock.GRACE * EVERY + EVERY
            lock = vcenter_lock.acquire(Client(world, 0, trouble=False), HOLDER, announce=lambda ref: None)
            lock.release()
            assert [name for _, name in world.folders.values()] == ["root", vcenter_lock.HOME], f"seed {seed}"
    assert min(seen[each] for each in ("acquired", "Busy", "answer lost", "killed", "lost")) > 10, seen


def remove_what_was_seen(vcenter, found):
    vcenter_lock.remove(vcenter, found.ref)


def renew_by_time_alone(lock):
    lock.period = int((lock.vcenter.now() - lock.since).total_seconds() // lock.every)
    try:
        vcenter_lock._tell(lock.vcenter, lock.ref, str(lock.period))
    except VimFault:
        raise vcenter_lock.LockTakenOver from None


@pytest.mark.parametrize(
    ("owner", "name", "wrong"),
    [
        (vcenter_lock, "_take_over", remove_what_was_seen),
        (vcenter_lock.VCenterLock, "renew", renew_by_time_alone),
    ],
)
def test_a_wrong_protocol_is_found_out(monkeypatch, owner, name, wrong):
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, wrong)
        worlds = (violations(patch, seed) for seed in range(500))
        assert any("all hold" in words for world in worlds for words in world.violations)
