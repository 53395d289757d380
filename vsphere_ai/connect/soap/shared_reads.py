"""Shared reads: what several threads read of single objects at the same moment goes into one request."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from vsphere_ai.connect.soap.reading import Paths
from vsphere_ai.model.facts import Facts

AT_ONCE = 4
"""Reads of the same property paths that go side by side; who comes then shares the next one."""
Read = Callable[[Sequence[str], Paths], dict[str, Facts]]
"""Reads property paths of objects, by reference; objects that are gone are left out."""
_Key = tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(eq=False)
class _Asking:
    """A thread that waits at `ready` until its object was read with others (`found`), or until it reads for all."""

    ref: str
    ready: threading.Lock = field(default_factory=threading.Lock)
    leads: bool = False
    found: Mapping[str, Facts] | None = None

    def __post_init__(self) -> None:
        self.ready.acquire()


@dataclass
class _ReadLine:
    """Those who wait to read the same property paths, and how many reads of them are under way.

    `called`: one of those who waited is about to read for all of them.
    """

    waiting: list[_Asking] = field(default_factory=list)
    under_way: int = 0
    called: bool = False


class SharedReads:
    """Reads of single objects, from several threads. No answer is older than the question.

    A read begins at once where fewer than `AT_ONCE` of its paths are under way. Else it waits for one of these to end,
    and goes together with all that wait. Where that fails, each of them reads its object alone.
    """

    def __init__(self, read: Read) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._lines: dict[_Key, _ReadLine] = {}

    def read(self, ref: str, paths: Paths) -> dict[str, Facts]:
        """Return the facts of one object by its reference; nothing when it is gone. Raises what `Read` raises."""
        key = tuple((managed, tuple(asked)) for managed, asked in paths.items())
        one = _Asking(ref)
        with self._lock:
            line = self._lines.setdefault(key, _ReadLine())
            if line.under_way < AT_ONCE:
                line.under_way += 1
                one.leads = True
            else:
                line.waiting.append(one)
        if not one.leads:
            self._wait(key, one)
        if one.leads:
            return self._lead(key, one, paths)
        found = self._read([ref], paths) if one.found is None else one.found
        return {ref: found[ref]} if ref in found else {}

    def _wait(self, key: _Key, one: _Asking) -> None:
        try:
            one.ready.acquire()
        except BaseException:  # a signal: no other thread may wait for this thread
            with self._lock:
                line = self._lines[key]
                if one in line.waiting:
                    line.waiting.remove(one)
                line.called = line.called and not one.leads
            if one.leads:
                self._hand_over(key)
            raise

    def _lead(self, key: _Key, one: _Asking, paths: Paths) -> dict[str, Facts]:
        with self._lock:
            line = self._lines[key]
            together, line.waiting, line.called = line.waiting, [], False
        try:
            found = self._read(list(dict.fromkeys((one.ref, *(each.ref for each in together)))), paths)
            for each in together:
                each.found = found
        finally:
            self._hand_over(key)
            for each in together:
                each.ready.release()
        return {one.ref: found[one.ref]} if one.ref in found else {}

    def _hand_over(self, key: _Key) -> None:
        """Let the first of those that wait read for them; without any, this read is one less."""
        with self._lock:
            line = self._lines[key]
            if line.waiting and not line.called:
                following = line.waiting.pop(0)
                following.leads = line.called = True
                following.ready.release()
                return
            line.under_way -= 1
            if not line.under_way:
                del self._lines[key]
