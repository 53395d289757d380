"""Live cursor: whether an estate that is read again and again has changed since, so that it need not be read."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from vsphere_ai.language.selected import RECORD
from vsphere_ai.model.facts import Estate
from vsphere_ai.reading.collector import LIGHT, is_call, paths_everywhere
from vsphere_ai.reading.requirements import wanted_paths

if TYPE_CHECKING:
    from vsphere_ai.app.session import Session
    from vsphere_ai.connect.cursor import Cursor

LONGEST = 600.0
"""Seconds after which an estate is read although vCenter reports no change: what hosts answer by calls of their own and
over SSH, and tags, are no properties that vCenter reports changes of."""


class LiveCursor:
    """Follows what was read of one vCenter."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._cursor: Cursor | None = None
        self._refs: tuple[str, ...] = ()
        self._read_at = 0.0

    def unchanged(self) -> bool:
        """Return whether nothing has changed since the call before this one, so that what was read still holds."""
        if self._cursor is None:
            return False
        moved = self._cursor.moved()
        return not moved and time.monotonic() - self._read_at < LONGEST

    def follow(self, *estates: Estate) -> None:
        """Follow what these readings brought, from the next call of `unchanged` on."""
        self._read_at = time.monotonic()
        if any(RECORD in estate.objects for estate in estates):  # conditions of selectors look at more than properties
            self.stop()
            return
        refs = tuple(sorted({ref for estate in estates for ref in _read_closely(estate)}))
        if self._cursor is None or refs != self._refs:
            self.stop()
            closely = {kind: tuple(p for p in paths if not is_call(p)) for kind, paths in wanted_paths().items()}
            own = {kind: closely[kind] for kind in ("HostSystem", "VirtualMachine")}
            self._cursor = self._session.vcenter.cursor(paths_everywhere(closely), refs, own)
            self._refs = refs

    def stop(self) -> None:
        """Follow nothing."""
        if self._cursor is not None:
            self._cursor.close()
        self._cursor = None


def _read_closely(estate: Estate) -> Iterable[str]:
    light: Mapping[str, frozenset[str]] = {k: frozenset(LIGHT[k]) for k in ("HostSystem", "VirtualMachine")}
    for ref, facts in estate.objects.items():
        known = light.get(ref.partition(":")[0])
        if known is not None and not facts.properties.keys() <= known:
            yield ref
