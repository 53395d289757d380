"""Reads of single objects at the same moment share a request; none is answered with what was read before it asked."""

from __future__ import annotations

import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.gates import LONG

from vsphere_ai.connect.soap.shared_reads import AT_ONCE, SharedReads
from vsphere_ai.errors import Unreachable
from vsphere_ai.model.facts import Facts

PATHS = {"VirtualMachine": ("config.changeVersion",)}


class Server:
    """Answers once it is let go; `requests` are the objects of each read, in the order in which they came."""

    def __init__(self):
        self.requests, self.go_on = [], threading.Event()
        self.clock, self.gone, self.fails = itertools.count(), set(), []
        self._lock = threading.Lock()

    def read(self, refs, _paths):
        with self._lock:
            self.requests.append(tuple(refs))
            fails, at = self.fails.pop(0) if self.fails else None, next(self.clock)
        assert self.go_on.wait(LONG)
        if fails:
            raise fails
        return {ref: Facts(ref, {"at": at}) for ref in refs if ref not in self.gone}


@pytest.fixture
def server():
    return Server()


def wait_until(seen):
    end = time.monotonic() + LONG
    while not seen() and time.monotonic() < end:
        time.sleep(0.002)
    assert seen()


def waiting(reads):
    return sum(len(line.waiting) for line in list(reads._lines.values()))


def test_the_first_go_alone_and_those_who_wait_go_together(server):
    reads = SharedReads(server.read)
    with ThreadPoolExecutor(64) as pool:
        first = [pool.submit(reads.read, f"vm-{n}", PATHS) for n in range(AT_ONCE)]
        wait_until(lambda: len(server.requests) == AT_ONCE)
        asked = next(server.clock)
        later = [pool.submit(reads.read, f"vm-{n}", PATHS) for n in range(AT_ONCE, 64)]
        wait_until(lambda: waiting(reads) == 64 - AT_ONCE)
        server.go_on.set()
        found = [each.result() for each in (*first, *later)]
    assert [list(each) for each in found] == [[f"vm-{n}"] for n in range(64)]
    assert len(server.requests) == AT_ONCE + 1
    assert sorted(ref for refs in server.requests for ref in refs) == sorted(f"vm-{n}" for n in range(64))
    assert all(facts.get("at") > asked for each in found[AT_ONCE:] for facts in each.values()), "read before it asked"
    assert not reads._lines


def test_other_paths_do_not_wait(server):
    reads = SharedReads(server.read)
    with ThreadPoolExecutor(2 * AT_ONCE) as pool:
        for n, paths in itertools.product(range(AT_ONCE), (PATHS, {"VirtualMachine": ("name",)})):
            pool.submit(reads.read, f"vm-{n}", paths)
        wait_until(lambda: len(server.requests) == 2 * AT_ONCE)
        server.go_on.set()


def test_an_object_that_is_gone_is_left_out_for_its_own_thread_only(server):
    reads = SharedReads(server.read)
    server.gone.add("vm-5")
    with ThreadPoolExecutor(8) as pool:
        ends = [pool.submit(reads.read, f"vm-{n}", PATHS) for n in range(8)]
        wait_until(lambda: waiting(reads) + len(server.requests) == 8)
        server.go_on.set()
        assert [len(each.result()) for each in ends] == [1, 1, 1, 1, 1, 0, 1, 1]


def test_a_shared_read_that_fails_is_repeated_by_each_alone(server):
    """An error is about one target, whose name is put into it: no two threads get the same one."""
    reads = SharedReads(server.read)
    with ThreadPoolExecutor(8) as pool:
        first = [pool.submit(reads.read, f"vm-{n}", PATHS) for n in range(AT_ONCE)]
        wait_until(lambda: len(server.requests) == AT_ONCE)
        later = [pool.submit(reads.read, f"vm-{n}", PATHS) for n in range(AT_ONCE, 8)]
        wait_until(lambda: waiting(reads) == 8 - AT_ONCE)
        server.fails = [Unreachable("gone away", "wait")]
        server.go_on.set()
        raised = [each.exception() for each in (*first, *later)]
    assert [type(each) for each in raised].count(Unreachable) == 1
    assert sorted(map(len, server.requests)) == [1] * 4 + [1] * (8 - AT_ONCE - 1) + [8 - AT_ONCE]
    assert not reads._lines


def test_a_thread_that_is_interrupted_while_it_reads_leaves_the_others_to_go_on(server):
    reads = SharedReads(server.read)
    with ThreadPoolExecutor(8) as pool:
        server.fails = [KeyboardInterrupt()] * AT_ONCE
        first = [pool.submit(reads.read, f"vm-{n}", PATHS) for n in range(AT_ONCE)]
        wait_until(lambda: len(server.requests) == AT_ONCE)
        later = [pool.submit(reads.read, f"vm-{n}", PATHS) for n in range(AT_ONCE, 8)]
        wait_until(lambda: waiting(reads) == 8 - AT_ONCE)
        server.go_on.set()
        assert all(isinstance(each.exception(), KeyboardInterrupt) for each in first)
        assert all(len(each.result()) == 1 for each in later)
    assert not reads._lines
