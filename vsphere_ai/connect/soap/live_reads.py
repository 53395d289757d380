"""Live reads: what was read of a vCenter is kept for as long as a cursor reports no change of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from vsphere_ai.connect.soap import reading
from vsphere_ai.connect.soap.cursor import Cursor
from vsphere_ai.connect.soap.reading import Paths
from vsphere_ai.connect.soap.session import SoapSession
from vsphere_ai.connect.wire.plain import type_named
from vsphere_ai.connect.wire.vmomi import vim
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.plain import Plain, PlainObject

_Key = tuple[tuple[str, tuple[str, ...]], ...]
_OWNED = ("configManager.", "environmentBrowser")
"""How paths begin that lead to a manager of an object: what it answered holds while the object does not change."""


class LiveReads:
    """Reads of a session: what has not changed since it was read last is returned without a request.

    Only members of the inventory are followed; tasks, alarms and services are read each time.
    """

    def __init__(self, session: SoapSession) -> None:
        self._session = session
        self._cursor = Cursor(session)
        self._lists: dict[_Key, dict[str, Facts | None]] = {}
        self._named: dict[_Key, dict[str, Facts]] = {}
        self._all_followed: set[_Key] = set()
        self._followed: dict[_Key, set[str]] = {}
        self._answers: dict[tuple[str, str, str], Plain] = {}
        self._owners: dict[str, str] = {}

    def refresh(self) -> frozenset[str] | None:
        """Forget what is not as it was read, and return of which objects that is; None: of all."""
        changed = self._cursor.changed()
        if changed is None:
            self._all_followed, self._followed = set(), {}
            self.forget()
            return None
        for key, listed in self._lists.items():
            listed.update(dict.fromkeys(ref for ref in changed if ref in listed or _is_of(ref, key)))
        for named in self._named.values():
            for ref in changed & named.keys():
                del named[ref]
        self._answers = {key: a for key, a in self._answers.items() if self._owners.get(key[0]) not in changed}
        return changed

    def forget(self) -> None:
        """Forget everything that was read, and go on to follow it."""
        for kept in (self._lists, self._named, self._answers, self._owners):
            kept.clear()

    def all(self, paths: Paths) -> dict[str, Facts]:
        """Return paths of every object of some types, as `reading.read_all`."""
        key = _key(paths)
        if key not in self._all_followed:
            self._cursor.follow_all(paths)
            self._all_followed.add(key)
        listed = self._lists.get(key)
        if listed is None:
            listed = self._lists[key] = dict(reading.read_all(self._session, paths))
        elif stale := [ref for ref, facts in listed.items() if facts is None]:
            found = reading.read_objects(self._session, stale, paths)
            listed.update(found)
            for ref in set(stale) - found.keys():  # it is gone
                del listed[ref]
        return {ref: facts for ref, facts in listed.items() if facts is not None}

    def objects(self, refs: Sequence[str], paths: Paths) -> dict[str, Facts]:
        """Return paths of the named objects, as `reading.read_objects`."""
        key = _key(paths)
        named, followed = self._named.setdefault(key, {}), self._followed.setdefault(key, set())
        members = [ref for ref in refs if issubclass(type_named(ref.partition(":")[0]), vim.ManagedEntity)]
        missing = [ref for ref in members if ref not in named]
        if key not in self._all_followed and (new := [ref for ref in missing if ref not in followed]):
            self._cursor.follow(new, paths)
            followed.update(new)
        others = sorted(set(refs) - set(members))
        found = reading.read_objects(self._session, [*missing, *others], paths) if missing or others else {}
        named.update((ref, found[ref]) for ref in missing if ref in found)
        self._owners.update(_owned(found[ref] for ref in missing if ref in found))
        return {ref: facts for ref in refs if (facts := named.get(ref) or found.get(ref)) is not None}

    def answer(self, ref: str, method: str, args: PlainObject, ask: Callable[[], Plain]) -> Plain:
        """Return what a manager of an object has answered, for as long as the object is as it was."""
        if ref not in self._owners:
            return ask()
        key = (ref, method, repr(sorted(args.items())))
        if key not in self._answers:
            self._answers[key] = ask()
        return self._answers[key]


def _key(paths: Paths) -> _Key:
    return tuple((name, tuple(own)) for name, own in paths.items())


def _is_of(ref: str, key: _Key) -> bool:
    kind = type_named(ref.partition(":")[0])
    return any(issubclass(kind, type_named(name)) for name, _ in key)


def _owned(found: Iterable[Facts]) -> Iterable[tuple[str, str]]:
    for facts in found:
        for path, value in facts.properties.items():
            if path.startswith(_OWNED) and isinstance(value, str):
                yield value, facts.ref
