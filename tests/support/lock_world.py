"""A vCenter's folders for tests of its lock: actors of whom one at a time makes a call, lost answers, and deaths."""

from __future__ import annotations

import threading
from collections import Counter
from datetime import UTC, datetime, timedelta

from support.seeds import chance
from vsphere_ai.errors import OutcomeUnknown, VimFault
from vsphere_ai.model.facts import Facts

ROOT, SEARCH = "Folder:root", "SearchIndex:index"
START = datetime(2026, 1, 1, tzinfo=UTC)


class Killed(BaseException):
    """The process is no more."""


class World:
    """A vCenter's folders, a clock that moves by itself, and actors of whom one at a time makes a call."""

    def __init__(self, seed):
        self.chance = chance("lock", seed)
        self.folders = {ROOT: (None, "root")}
        self.clock, self.count = 0.0, 0
        self.turn = threading.Condition()
        self.waiting, self.alive, self.chosen = {}, set(), None
        self.believers = {}
        self.violations = []
        self.seen = Counter()

    # -- scheduling

    def run(self, *actors):
        threads = [threading.Thread(target=self._live, args=(n, actor), daemon=True) for n, actor in enumerate(actors)]
        self.alive = set(range(len(actors)))
        for thread in threads:
            thread.start()
        with self.turn:
            while self.alive:
                assert self.turn.wait_for(lambda: set(self.waiting) == self.alive, 20), "an actor hangs"
                if self.alive:
                    self.chosen = self.chance.choice(sorted(self.waiting))
                    del self.waiting[self.chosen]
                    self.clock += self.chance.choice((0, 0, 0, 0.1, 0.3, 12 if self.chance.random() < 0.05 else 0))
                    self.turn.notify_all()
                    self.turn.wait_for(lambda: self.chosen is None, 20)
        for thread in threads:
            thread.join()

    def _live(self, me, actor):
        try:
            actor(me)
        except Killed:
            self.seen["killed"] += 1
            self.believers.pop(me, None)
        except Exception as error:
            self.violations.append(f"{me} crashed: {error!r}")
        finally:
            with self.turn:
                self.alive.discard(me)
                self.chosen = None
                self.turn.notify_all()

    def step(self, me):
        """Wait to be chosen."""
        with self.turn:
            if self.chosen == me:
                self.chosen = None
            self.waiting[me] = True
            self.turn.notify_all()
            self.turn.wait_for(lambda: self.chosen == me)

    def sleep(self, seconds):
        self.clock += seconds

    # -- what must not happen

    def believe(self, me, lock):
        self.believers[me] = lock
        valid = [n for n, each in self.believers.items() if self.now() < each.expires]
        if len(valid) > 1:
            self.violations.append(f"{valid} all hold the lock at {self.clock:.1f}")

    def now(self):
        return START + timedelta(seconds=self.clock)


class Client:
    """One actor's connection to the world."""

    def __init__(self, world, me, *, trouble=True):
        self.world, self.me, self.trouble = world, me, trouble

    def service(self, name):
        return {"rootFolder": ROOT, "searchIndex": SEARCH}[name]

    def now(self):
        self._step()
        return self.world.now()

    def call(self, ref, method, args):
        if method == "FindChild":
            self._step()
            return self._child(args["entity"], args["name"])
        assert method == "CreateFolder"
        return self._changing(lambda: self._create(ref, args["name"]))

    def run_task(self, ref, method, *, timeout):
        assert method == "Destroy_Task"
        return self._changing(lambda: self._destroy(ref))

    def read_objects(self, refs, paths):
        self._step()
        folders = self.world.folders
        return {
            ref: Facts(
                ref, {"name": folders[ref][1], "childEntity": tuple(c for c, (p, _) in folders.items() if p == ref)}
            )
            for ref in refs
            if ref in folders
        }

    def _step(self):
        if self.trouble:
            self.world.step(self.me)
            if self.world.chance.random() < 0.004:
                raise Killed

    def _changing(self, change):
        self._step()
        fate = self.world.chance.random() if self.trouble else 1
        if fate < 0.02:
            raise OutcomeUnknown("it never arrived")
        done = change()
        if fate < 0.05:
            self.world.seen["answer lost"] += 1
            raise OutcomeUnknown("the answer was lost")
        if fate < 0.06:
            raise Killed
        return done

    def _child(self, parent, name):
        return next((ref for ref, each in self.world.folders.items() if each == (parent, name)), None)

    def _create(self, parent, name):
        if parent not in self.world.folders:
            raise VimFault("gone", "", {"_typeName": "ManagedObjectNotFound"})
        if self._child(parent, name):
            raise VimFault("there", "", {"_typeName": "DuplicateName"})
        self.world.count += 1
        ref = f"Folder:{self.world.count}"
        self.world.folders[ref] = (parent, name)
        return ref

    def _destroy(self, ref):
        if ref not in self.world.folders:
            raise VimFault("gone", "", {"_typeName": "ManagedObjectNotFound"})
        doomed = [ref]
        for each in doomed:
            doomed += [c for c, (p, _) in self.world.folders.items() if p == each]
        for each in doomed:
            del self.world.folders[each]
