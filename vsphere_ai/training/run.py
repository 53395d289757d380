"""Runs of jobs: how one stands on its nodes, and what its processes wrote."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from vsphere_ai.errors import VsphereAiError
from vsphere_ai.model.nodes import Node
from vsphere_ai.training.progress import JobProgress, StepClock


class NodeRun(BaseModel):
    """How a run stands on a node, as the node says: a process without an exit code runs; `left` could not be ended.

    `unsure`: nvidia-smi does not answer, so whether a GPU still has one of its processes is not known. `state` is
    waiting, running, stopping, stopped, ended or unknown; `outcome` is done, failed or stopped. `steps` are those that
    its logs show, `scripts` the SHA-256 of the job's files when it started there. `lost` are the numbers of nodes
    without which an elastic job goes on, and why, as rank 0's node knows. `vms` are the nodes of the run, in the order
    of their numbers.
    """

    model_config = ConfigDict(defer_build=True, frozen=True)

    state: str = "unknown"
    attempt: int = 0
    processes: dict[str, int | None] = {}
    outcome: str = ""
    reason: str = ""
    alive: bool = False
    pids: tuple[int, ...] = ()
    left: tuple[int, ...] = ()
    unsure: bool = False
    steps: dict[str, StepClock] = {}
    scripts: dict[str, str] = {}
    lost: dict[int, str] = {}
    vms: tuple[str, ...] = ()


@dataclass(frozen=True)
class LaunchResult:
    """A run on its nodes, in the order of their ranks: how it stands on each, or why that is not known."""

    run: str
    nodes: tuple[Node, ...]
    found: Mapping[str, NodeRun | VsphereAiError]
    progress: JobProgress | None = None
    """Whether it goes on, where that was looked at."""

    @property
    def head(self) -> NodeRun | VsphereAiError:
        """How it stands on rank 0's node, which decides."""
        return self.found[self.nodes[0].vm]

    @property
    def is_over(self) -> bool:
        """Whether no process of it runs any more."""
        return not any(
            isinstance(n, NodeRun) and (n.pids or (n.alive and n.state != "ended")) for n in self.found.values()
        )

    @property
    def lost(self) -> Mapping[int, str]:
        """The nodes, by their number, without which an elastic job goes on, and why."""
        return self.head.lost if isinstance(self.head, NodeRun) else {}

    def scripts(self) -> dict[str, dict[str, tuple[str, ...]]]:
        """Return the SHA-256 of each file of the job, with its VMs: one, where it is the same everywhere."""
        found: dict[str, dict[str, tuple[str, ...]]] = {}
        for vm, each in self.found.items():
            for path, text in (each.scripts if isinstance(each, NodeRun) else {}).items():
                own = found.setdefault(path, {})
                own[text] = (*own.get(text, ()), vm)
        return found

    @property
    def exit_code(self) -> int:
        """Return 0 while a run goes on and where it ended well or was stopped; else 1, also where it hangs."""
        head = self.head
        every = [self.found[node.vm] for n, node in enumerate(self.nodes) if n not in self.lost]
        wrong = any(not isinstance(n, NodeRun) or n.left or n.unsure or n.state == "unknown" for n in every)
        wrong |= self.progress is not None and self.progress.verdict in ("stalled", "hung")
        lost = isinstance(head, NodeRun) and not head.alive and head.state != "ended"
        return int(wrong or lost or (isinstance(head, NodeRun) and head.outcome == "failed"))


@dataclass(frozen=True)
class LogsResult:
    """What the processes of a run wrote: the ends of their logs by node and name of the file."""

    run: str
    logs: Mapping[str, Mapping[str, str] | VsphereAiError]
