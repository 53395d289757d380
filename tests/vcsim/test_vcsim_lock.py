"""The lock in vCenter against VMware's own simulator, which knows nothing of ours."""

from __future__ import annotations

import threading
import time

import pytest

from vsphere_ai.connect import vcenter_lock
from vsphere_ai.connect.vcenter import VCenter

pytestmark = pytest.mark.vcsim


def test_one_of_many_gets_the_lock_and_the_next_one_after_it(vcsim, limits):
    many = [VCenter.connect(vcsim.endpoint(), limits=limits) for _ in range(6)]
    for turn in range(4):
        start, won, busy = threading.Barrier(len(many)), [], []

        def compete(n, vcenter, start=start, won=won, busy=busy, turn=turn):
            holder = vcenter_lock.LockHolder("alice/ops", f"build{n}", n + 1, f"turn {turn}")
            start.wait()
            try:
                won.append(vcenter_lock.acquire(vcenter, holder, announce=lambda ref: None))
            except vcenter_lock.Busy as error:
                busy.append(error.found)

        threads = [threading.Thread(target=compete, args=each) for each in enumerate(many)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 1
        assert {found.ref for found in busy} == {won[0].ref}
        assert {found.holder.user for found in busy} == {"alice/ops"}
        assert {found.holder.since for found in busy} == {won[0].since}
        won[0].release()
        assert vcenter_lock.find(many[0]) is None
    for each in many:
        each.close()


def test_a_lapsed_lock_is_taken_over_and_its_holder_learns_of_it(vcsim, limits):
    with (
        VCenter.connect(vcsim.endpoint(), limits=limits) as one,
        VCenter.connect(vcsim.endpoint(), limits=limits) as two,
    ):
        first = vcenter_lock.acquire(
            one, vcenter_lock.LockHolder("a", "b", 1, "c"), every=0.5, announce=lambda ref: None
        )
        time.sleep(1.1)
        first.renew()
        assert first.period >= 2
        with pytest.raises(vcenter_lock.Busy):
            vcenter_lock.acquire(two, vcenter_lock.LockHolder("d", "e", 2, "f"), announce=lambda ref: None)
        time.sleep(2.6)
        second = vcenter_lock.acquire(two, vcenter_lock.LockHolder("d", "e", 2, "f"), announce=lambda ref: None)
        with pytest.raises(vcenter_lock.LockTakenOver):
            first.renew()
        found = vcenter_lock.find(one)
        assert (found.ref, found.holder.machine) == (second.ref, "e")
        assert vcenter_lock.remove(one, first.ref) is False
        assert vcenter_lock.place(one)[0] == vcenter_lock.HOME
