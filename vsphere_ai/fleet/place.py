"""Place where the shards of a fleet are planned and carried out: this process, or the workers of a Dask scheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from vsphere_ai.documents.fleets import LOCAL, FleetRun
from vsphere_ai.errors import UsageError
from vsphere_ai.fleet.address import parse_address, valid_until
from vsphere_ai.fleet.certificates import TlsFiles
from vsphere_ai.fleet.lease import terms
from vsphere_ai.fleet.plan import PlannedShard, Sites
from vsphere_ai.fleet.run import FleetOptions, FleetStop, LocalExecutor
from vsphere_ai.fleet.shard import ShardExecutor

if TYPE_CHECKING:
    from vsphere_ai.app.events import Emit
    from vsphere_ai.fleet.dask import DaskFleet


@dataclass(frozen=True)
class PlaceRequest:
    """``local``, or ``dask:`` and the address of a scheduler; "" for a run that goes on: where it began.

    The files of TLS are those of this fleet, `listen` is ``HOST`` or ``HOST:PORT`` of this machine for workers.
    """

    executor: str = ""
    tls_ca: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    listen: str = ""


@dataclass(frozen=True)
class PlanningPlace:
    """Where to plan (None: in this process), and to compare, and what makes the executor of a run.

    `until`: when the certificate of a fleet over Dask expires.
    """

    sites: Sites | None
    compare: Callable[[PlannedShard, FleetOptions, Emit], None] | None
    executor: Callable[[FleetRun, FleetStop], ShardExecutor]
    name: str = LOCAL
    until: datetime | None = None


@contextmanager
def open_place(request: PlaceRequest) -> Iterator[PlanningPlace]:
    """Open the place that is asked for; `UsageError` where it is none, `Unreachable` without a scheduler."""
    given = request.executor or LOCAL
    if given == LOCAL:
        yield PlanningPlace(None, None, _local)
        return
    if not given.startswith("dask:"):
        text = f"--executor {given} is not known"
        raise UsageError(text, "give local, or dask:tls://HOST:PORT", rule="usage.executor")
    from vsphere_ai.fleet.dask import connected

    address = parse_address(given)
    listen = _listen(request.listen)
    with connected(address, TlsFiles(request.tls_ca, request.tls_cert, request.tls_key), terms()) as fleet:
        until = valid_until(fleet.settings)
        yield PlanningPlace(fleet, fleet.compare, lambda run, stop: _over_dask(fleet, listen, run, stop), given, until)


def _local(run: FleetRun, stop: FleetStop) -> ShardExecutor:
    return LocalExecutor(stop, run.budget, halt_on_failure=run.halt_on_failure)


def _over_dask(fleet: DaskFleet, listen: tuple[str, int], run: FleetRun, stop: FleetStop) -> ShardExecutor:
    from vsphere_ai.fleet.executor import DaskExecutor, DaskOptions

    return DaskExecutor(fleet, stop, DaskOptions(*listen, run.budget, run.halt_on_failure))


def _listen(text: str) -> tuple[str, int]:
    """Return the host and port of ``HOST``, ``HOST:PORT`` or ``[HOST]:PORT``; port 0 for any."""
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]") or (":" in host and not host.startswith("[")):
        host, port = text, "0"
    if not (port.isascii() and port.isdecimal() and int(port) < 1 << 16):
        raise UsageError(f"--listen {text} is no address", "give HOST or HOST:PORT", rule="usage.executor")
    return host.removeprefix("[").removesuffix("]"), int(port)
