"""Ranks of the processes of a job: numbered node by node, from 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Rank:
    """A process among all of a job (`rank` of `world_size`), and on its node (`local_rank` of `local_size`)."""

    rank: int
    world_size: int
    local_rank: int
    local_size: int
    node_rank: int
    nodes: int

    def environment(self, master_addr: str, master_port: int) -> dict[str, str]:
        """Return the eight variables by which PyTorch (``env://``) and Lightning find the others.

        Source: PyTorch's torch.distributed and torchrun pages; GROUP_RANK is torchrun's name of NODE_RANK.
        """
        return {
            "MASTER_ADDR": master_addr,
            "MASTER_PORT": str(master_port),
            "WORLD_SIZE": str(self.world_size),
            "RANK": str(self.rank),
            "LOCAL_RANK": str(self.local_rank),
            "LOCAL_WORLD_SIZE": str(self.local_size),
            "NODE_RANK": str(self.node_rank),
            "GROUP_RANK": str(self.node_rank),
        }


def ranks_of(processes: Sequence[int]) -> tuple[Rank, ...]:
    """Return the ranks of a job with so many processes on each node; `ValueError` where a node has none."""
    if not processes or min(processes) < 1:
        raise ValueError("a job has at least one process on each of its nodes")
    world, places = sum(processes), [(n, k, own) for n, own in enumerate(processes) for k in range(own)]
    return tuple(Rank(rank, world, k, own, n, len(processes)) for rank, (n, k, own) in enumerate(places))


def node_rank(world_rank: int, local_size: int) -> int:
    """Return the number of a process's node where every node has `local_size` processes, numbered node by node.

    ``OMPI_COMM_WORLD_NODE_RANK`` is another number: that of a process among those on its node.
    """
    return world_rank // local_size
