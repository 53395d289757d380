"""Site of a worker: its inventory, the vCenters it serves, and the runs it works on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl

    from vsphere_ai.fleet.run import FleetStop

Say = Callable[[str], None]


@dataclass
class Site:
    """What a worker has: its inventory, with the vCenters it serves, and its own identity in the fleet.

    `stop` stops all shards of this worker; `active` counts them. `say` prints a line.
    """

    name: str
    inventory: Path
    vcenters: tuple[str, ...]
    context: ssl.SSLContext
    stop: FleetStop
    say: Say
    active: set[str] = field(default_factory=set)
    changed: threading.Condition = field(default_factory=threading.Condition)

    @contextmanager
    def working(self, run: str) -> Iterator[None]:
        """Work on a run, after another thread of this worker that does: Dask may have given up on that one only."""
        with self.changed:
            self.changed.wait_for(lambda: run not in self.active)
            self.active.add(run)
        try:
            yield
        finally:
            with self.changed:
                self.active.discard(run)
                self.changed.notify_all()

    def wait(self) -> None:
        """Return when no run is under way here."""
        with self.changed:
            self.changed.wait_for(lambda: not self.active)


SITES: list[Site] = []
"""The site that this process serves; empty in a worker that was not started by ``fleet worker``."""


def serve(site: Site) -> None:
    """Let tasks of this process work at a site."""
    SITES[:] = [site]
