"""Cursor on an estate: asks in one request whether anything of what was read has changed since it was asked last."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

from vsphere_ai.connect.outage import Lost
from vsphere_ai.connect.plain import to_object, type_named
from vsphere_ai.connect.reading import PAGE, Paths, known_paths
from vsphere_ai.connect.session import Session
from vsphere_ai.connect.vmomi import Collector, ManagedObject, vim, vmodl
from vsphere_ai.errors import VsphereAiError


class Cursor:
    """A property collector of a session with two filters: paths of all objects, and more of some.

    It asks for no more than whether there is a change: what has changed is read as it always is. Where it cannot be had
    (rights, an older vCenter), everything counts as changed.
    """

    def __init__(self, session: Session, everywhere: Paths, refs: Sequence[str], closely: Paths) -> None:
        self._session = session
        self._everywhere, self._closely = known_paths(session, everywhere), known_paths(session, closely)
        self._refs = refs
        self._collector: ManagedObject | None = None
        self._view: ManagedObject | None = None
        self._version = ""

    def moved(self) -> bool:
        """Return whether there is a change since the last call; True at the first one, which begins to look."""
        try:
            if self._collector is None:
                self._begin()
                return True
            return self._drained(self._collector)
        except (Lost, vmodl.MethodFault, VsphereAiError):  # reading meets it as well, and says what it is
            self.close()
            return True

    def close(self) -> None:
        """Look no longer; the next call of `moved` begins anew."""
        collector, view = self._collector, self._view
        self._collector = self._view = None
        with contextlib.suppress(Lost, vmodl.MethodFault, VsphereAiError):
            if collector is not None:
                self._session.invoke(collector, "DestroyPropertyCollector")
            if view is not None:
                self._session.invoke(view, "DestroyView")

    def _begin(self) -> None:
        content, invoke, kinds = self._session.content, self._session.invoke, [*map(type_named, self._everywhere)]
        self._version = ""
        collector: ManagedObject = invoke(content.propertyCollector, "CreatePropertyCollector")
        self._collector = collector
        self._view = invoke(content.viewManager, "CreateContainerView", content.rootFolder, kinds, True)
        follow = Collector.TraversalSpec(name="view", type=vim.view.ContainerView, path="view", skip=False)
        start = Collector.ObjectSpec(obj=self._view, skip=True, selectSet=[follow])
        self._filter(collector, [start], self._everywhere)
        if self._refs and self._closely:
            own = [Collector.ObjectSpec(obj=to_object(ref), skip=False) for ref in self._refs]
            self._filter(collector, own, self._closely)
        self._drained(collector)

    def _filter(self, collector: ManagedObject, objects: Sequence[object], paths: Mapping[str, set[str]]) -> None:
        properties = [
            Collector.PropertySpec(type=type_named(name), all=False, pathSet=sorted(own)) for name, own in paths.items()
        ]
        spec = Collector.FilterSpec(objectSet=objects, propSet=properties)
        self._session.invoke(collector, "CreateFilter", spec, True)

    def _drained(self, collector: ManagedObject) -> bool:
        """Take all changes there are; return whether there were any."""
        options = Collector.WaitOptions(maxWaitSeconds=0, maxObjectUpdates=PAGE)
        found = False
        while True:
            update = self._session.invoke(collector, "WaitForUpdatesEx", self._version, options)
            if update is None:
                return found
            found, self._version = True, update.version
            if not update.truncated:
                return found
