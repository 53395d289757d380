"""Worker of a fleet: a Dask worker in this process, for some vCenters of an inventory."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vsphere_ai import __version__
from vsphere_ai.errors import Denied, Unreachable, UsageError
from vsphere_ai.fleet.address import Address, context, loopback, security, valid_until
from vsphere_ai.fleet.certificates import TlsFiles, date
from vsphere_ai.fleet.dask import IDENTITY, RESOURCE
from vsphere_ai.fleet.probe import require_mutual_tls
from vsphere_ai.fleet.run import FleetStop
from vsphere_ai.fleet.site import Site, serve
from vsphere_ai.language.inventories.inventory import find_inventory
from vsphere_ai.model.names.suggestion import suggest
from vsphere_ai.runs import replica
from vsphere_ai.security.files import locked
from vsphere_ai.security.state_dir import file_name, own_folder

if TYPE_CHECKING:
    from distributed import Worker
    from distributed.security import Security

FOLDER = "workers"
AGAIN = 2.0
"""Seconds until a scheduler is tried again that was lost."""
SPARE = 2
"""Threads beyond one for each vCenter: a task that waits for a lease has one."""


@dataclass(frozen=True)
class WorkerRequest:
    """Which vCenters of an inventory to serve (all without any), and where: `listen` is a host of this machine."""

    scheduler: Address
    tls: TlsFiles
    inventory: Path | None = None
    vcenters: tuple[str, ...] = ()
    name: str = ""
    listen: str = ""


def work(request: WorkerRequest, stop: FleetStop, say: Callable[[str], None]) -> None:
    """Serve until `stop` is called; then end the runs that are under way in order, and hand them over."""
    found = find_inventory(request.inventory)
    names = request.vcenters or tuple(found.vcenters)
    for name in names:
        if name not in found.vcenters:
            raise UsageError(f"the inventory has no vCenter '{name}'", suggest(name, found.vcenters, "it has"))
    settings = security(request.scheduler, request.tls)
    own = request.name or f"{socket.gethostname()}-{os.getpid()}"
    site = Site(own, found.path.absolute(), names, context(settings, "worker", listens=False), stop, say)
    with _own_journals() as folder:
        serve(site)
        asyncio.run(_serve(request, site, settings, folder))


async def _serve(request: WorkerRequest, site: Site, settings: Security, folder: Path) -> None:
    """Be a worker of the scheduler, again after it was lost, until the end is asked for.

    One that is not of the fleet is an error at first, and later, while shards may be under way, one that is lost.
    """
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def end(_number: int, _why: str) -> None:
        loop.call_soon_threadsafe(ended.set)

    site.stop.add(end)
    known = False
    said: set[str] = set()  # why it does not answer: once each, until it answers again
    while not ended.is_set():
        try:
            await loop.run_in_executor(None, require_mutual_tls, request.scheduler, settings)
            async with _worker(request, site, settings, folder) as worker:
                until = date(valid_until(settings))
                site.say(f"worker {site.name} at {worker.address}, vCenters {', '.join(site.vcenters)}")
                site.say(f"its certificate expires {until}")
                known = True
                said.clear()
                await _first(ended.wait(), worker.finished())
        except (OSError, TimeoutError, RuntimeError, Denied, Unreachable) as error:
            if isinstance(error, Denied) and not known:
                raise
            if str(error) not in said:
                site.say(f"the scheduler at {request.scheduler} does not answer, and is tried again: {error}")
            said.add(str(error))
        if not ended.is_set():
            await _first(ended.wait(), asyncio.sleep(AGAIN))
    await loop.run_in_executor(None, site.wait)


async def _first(*waiting: object) -> None:
    tasks = [asyncio.ensure_future(each) for each in waiting]  # type: ignore[call-overload]
    _, left = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in left:
        task.cancel()


def _worker(request: WorkerRequest, site: Site, settings: Security, folder: Path) -> Worker:
    import dask
    from distributed import Worker

    dask.config.set({"distributed.worker.http.routes": []})  # that server shows names to everyone
    said = {"name": site.name, "version": __version__, "vcenters": list(site.vcenters)}
    return Worker(
        str(request.scheduler),
        name=site.name,
        nthreads=len(site.vcenters) + SPARE,
        resources={f"{RESOURCE}{name}": 1.0 for name in site.vcenters},
        startup_information={IDENTITY: lambda _worker: said},
        security=settings,
        host=request.listen or loopback(request.scheduler.host),
        local_directory=str(folder),
        memory_limit=0,  # Dask would pause and kill what it finds too large
        dashboard=False,
        dashboard_address="127.0.0.1:0",
        death_timeout=10,
    )


@contextmanager
def _own_journals() -> Iterator[Path]:
    """Keep journals of this process apart: a coordinator may run here. Those of workers that were killed go."""
    folder = own_folder(FOLDER)
    for left in folder.iterdir():
        with suppress(OSError), locked(left / "lock", wait=False):
            shutil.rmtree(left)
    mine = folder / f"{file_name(socket.gethostname())}-{os.getpid()}"
    mine.mkdir(mode=0o700)
    with locked(mine / "lock", wait=False):
        before, replica.folder = replica.folder, f"{FOLDER}/{mine.name}/runs"
        try:
            yield mine
        finally:
            replica.folder = before
            shutil.rmtree(mine, ignore_errors=True)
