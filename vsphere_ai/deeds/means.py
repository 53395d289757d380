"""What deeds act through: a vCenter, shells, reading again; and the pauses between two looks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from vsphere_ai.errors import Conflict
from vsphere_ai.facts import Facts, Output
from vsphere_ai.plan import Item
from vsphere_ai.state import Target

TASK_TIMEOUT = 1800
COMMAND_TIMEOUT = 120
Say = Callable[[str], None]
"""Takes a line of progress."""


class Server(Protocol):
    """What deeds need of a vCenter (see `connect.vcenter.VCenter`)."""

    def read_objects(self, refs: list[str], paths: Mapping[str, tuple[str, ...]]) -> dict[str, Facts]: ...  # noqa: D102
    def resolve_path(self, ref: str, path: str) -> str: ...  # noqa: D102
    def call(self, ref: str, method: str, args: Mapping[str, Any] | None = None) -> Any: ...  # noqa: D102
    def run_task(  # noqa: D102
        self, ref: str, method: str, args: Mapping[str, Any] | None = None, *, timeout: float, progress: Any = None
    ) -> Any: ...


class CommandLine(Protocol):
    """A shell on a host (see `connect.esxi.Ssh`)."""

    def run(self, argv: tuple[str, ...], deadline_s: float, *, changes: bool = False) -> Output: ...  # noqa: D102


@dataclass(frozen=True)
class Means:
    """Everything deeds act through. `left` reads a target again and returns what is still to change there."""

    vcenter: Server
    shell: Callable[[Target], AbstractContextManager[CommandLine]]
    left: Callable[[Target], tuple[Item, ...]]
    gpus: Mapping[str, int]
    """Host reference -> number of NVIDIA GPUs it had when planned."""
    hosts: Mapping[str, str]
    """VM reference -> reference of its host when planned."""

    def read(self, target: Target, *paths: str) -> Facts:
        """Read properties of one target; `Conflict` when it is gone."""
        managed = target.ref.partition(":")[0]
        found = self.vcenter.read_objects([target.ref], {managed: paths}).get(target.ref)
        if found is None:
            raise Conflict(f"{target.name} is gone from the inventory", "plan again")
        return found

    def in_maintenance(self, host: Target) -> bool:
        """Read whether a host is in maintenance mode."""
        return bool(self.read(host, "runtime.inMaintenanceMode").get("runtime.inMaintenanceMode"))

    def task(
        self, target: Target, method: str, args: Mapping[str, Any], say: Say, timeout: float = TASK_TIMEOUT
    ) -> None:
        """Call a method of a target that returns a task, and wait for its end."""

        def progress(percent: int | None) -> None:
            if percent is not None:
                say(f"{percent}%")

        self.vcenter.run_task(target.ref, method, args, timeout=timeout, progress=progress)


def polling(limit: float, *, fastest: float) -> Iterator[float]:
    """Yield the seconds waited, at least once, in growing pauses of at most 10 s, until `limit` has passed."""
    started, pause = time.monotonic(), fastest
    while True:
        yield time.monotonic() - started
        if time.monotonic() - started + pause > limit:
            return
        time.sleep(pause)
        pause = min(10.0, pause * 1.3)
