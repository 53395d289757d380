"""Cursor on an estate: says in one request which of the objects that were read have changed since it was asked last."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from vsphere_ai.connect.soap.outage import RequestLost
from vsphere_ai.connect.soap.reading import PAGE, Paths, known_paths
from vsphere_ai.connect.soap.session import SoapSession
from vsphere_ai.connect.wire.plain import to_object, to_ref, type_named
from vsphere_ai.connect.wire.vmomi import Collector, RemoteObject, vim, vmodl
from vsphere_ai.errors import VsphereAiError

MOST_FILTERS = 64
"""Filters of a collector; with more of them it is made anew."""
_ERRORS = (RequestLost, vmodl.MethodFault, VsphereAiError)


class Cursor:
    """A property collector of a session, with a filter for each set of objects and paths that is followed.

    What has changed is read as it always is. Where the collector cannot be had or is gone (rights, a session that has
    ended, a vCenter that has restarted, a version that it does not know any more), nothing is known of changes: the
    next one begins with nothing followed.
    """

    def __init__(self, session: SoapSession) -> None:
        self._session = session
        self._collector: RemoteObject | None = None
        self._views: list[RemoteObject] = []
        self._version = ""
        self._filters = 0
        self._broken = False
        self._seen: set[str] = set()

    def follow_all(self, paths: Paths) -> None:
        """Follow these paths of all objects of these types; what is read from now on is not older."""
        root, kinds = self._session.content.rootFolder, [type_named(name) for name in paths]
        with self._ending():
            own = [Collector.ObjectSpec(obj=root, skip=False)] if any(isinstance(root, kind) for kind in kinds) else []
            self._follow("CreateContainerView", (root, kinds, True), paths, own)

    def follow(self, refs: Sequence[str], paths: Paths) -> None:
        """Follow these paths of the named objects; those that are gone are left out."""
        with self._ending():
            without_gone(refs, lambda there: self._follow("CreateListView", (there,), paths))

    def _follow(self, method: str, args: Sequence[object], paths: Paths, more: Sequence[object] = ()) -> None:
        """Follow what is in a view, which loses what is destroyed, and `more` objects."""
        if self._broken:
            return
        self._begun()  # views end with their session, which this may renew
        view = self._session.invoke(self._session.content.viewManager, method, *args)
        self._views.append(view)
        through = Collector.TraversalSpec(name="view", type=vim.view.ManagedObjectView, path="view", skip=False)
        start = Collector.ObjectSpec(obj=view, skip=True, selectSet=[through])
        self._drain(self._filter([start, *more], paths))

    def changed(self) -> frozenset[str] | None:
        """Return what has changed since the call before this one, is new or gone; None when that is not known."""
        with self._ending():
            if self._goes_on:
                self._drain(None)
        if not self._goes_on:
            self.close()
            return None
        seen, self._seen = self._seen, set()
        return frozenset(seen)

    @property
    def _goes_on(self) -> bool:
        return self._collector is not None and not self._broken and self._filters <= MOST_FILTERS

    def close(self) -> None:
        """Follow nothing."""
        made = [(self._collector, "DestroyPropertyCollector"), *((view, "DestroyView") for view in self._views)]
        self._collector, self._views, self._version, self._filters, self._seen = None, [], "", 0, set()
        self._broken = False
        with contextlib.suppress(*_ERRORS):
            for each, method in made:
                if each is not None:
                    self._session.invoke(each, method)

    @contextlib.contextmanager
    def _ending(self) -> Iterator[None]:
        """Give up where it cannot go on: reading meets the reason as well, and says what it is."""
        try:
            yield
        except _ERRORS:
            self._broken = True

    def _begun(self) -> RemoteObject:
        if self._collector is None:
            make = partial(self._session.invoke, self._session.content.propertyCollector, "CreatePropertyCollector")
            self._collector = self._session.reading(make, patient=False)  # after a login, where the session has ended
        return self._collector

    def _filter(self, objects: Sequence[object], paths: Paths) -> str:
        """Add a filter, and return its reference. Paths that the server does not know are left out."""
        wanted = {name: set(own) for name, own in known_paths(self._session, paths).items()}
        while True:
            properties = [
                Collector.PropertySpec(type=type_named(name), all=False, pathSet=sorted(own))
                for name, own in wanted.items()
            ]
            spec = Collector.FilterSpec(objectSet=objects, propSet=properties)
            try:
                made = self._session.invoke(self._begun(), "CreateFilter", spec, True)
            except vmodl.query.InvalidProperty as fault:
                if not any(str(fault.name) in own for own in wanted.values()):
                    raise
                for own in wanted.values():
                    own.discard(str(fault.name))
                continue
            self._filters += 1
            return to_ref(made)

    def _drain(self, begun: str | None) -> None:
        """Take all changes there are; that objects are there for a filter that was just begun is none."""
        options, more = Collector.WaitOptions(maxWaitSeconds=0, maxObjectUpdates=PAGE), True
        collector, ask = self._begun(), self._session.invoke
        with self._session.stub.without_values():  # what has changed is read by other means, and much faster
            while more and (update := ask(collector, "WaitForUpdatesEx", self._version, options)):
                self._version, more = update.version, update.truncated
                for found in update.filterSet or ():
                    own = to_ref(found.filter) == begun
                    news = (each for each in found.objectSet or () if not (own and each.kind == "enter"))
                    self._seen.update(to_ref(each.obj) for each in news)


def without_gone(refs: Iterable[str], ask: Callable[[list[RemoteObject]], Iterable[RemoteObject] | None]) -> list[str]:
    """Ask with objects, again without those that vCenter does not know; return these, and those that are answered."""
    there, gone = dict.fromkeys(refs), list[str]()
    while there:
        try:
            return [*gone, *map(to_ref, ask([to_object(ref) for ref in there]) or ())]
        except vmodl.fault.ManagedObjectNotFound as fault:
            gone.append(to_ref(fault.obj) if fault.obj is not None else "")
            if gone[-1] not in there:
                raise
            del there[gone[-1]]
    return gone
