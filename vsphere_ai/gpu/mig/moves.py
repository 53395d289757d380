"""The nvidia-smi commands of a transition, in an order the driver never refuses: destroy, then create with starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from vsphere_ai.gpu.catalog import Board
from vsphere_ai.gpu.commands import create_instances, destroy_compute_instance, destroy_instance, set_mig_mode
from vsphere_ai.gpu.mig.search import Instance, Transition


@dataclass(frozen=True)
class MigMove:
    """One command and what it does, in words. An argv with ``ID`` or ``GPU`` in it is to be read, not to be run."""

    argv: tuple[str, ...]
    summary: str


def moves(
    board: Board, way: Transition, pci: str, compute: Mapping[tuple[str, int], Sequence[int]]
) -> Iterator[MigMove]:
    """Yield the commands for a GPU that was read; `compute` maps (PCI address, GPU instance) to compute instances."""
    for gone in way.destroy:
        if gone.gi_id is not None:
            yield from destroying(gone, gone.gi_id, pci, compute)
    if way.create:
        yield MigMove(create_instances(pci, _places(board, way.create)), f"create {_words(way.create)} on {pci}")


def enabling(board: Board, pci: str, *, pending: bool = False) -> Iterator[MigMove]:
    """Yield the commands that switch MIG on; on boards that need a reset the mode takes effect with the next boot.

    nvidia-smi ends with 0 as well when the mode is pending only, so the mode is read again.
    """
    if not pending:
        yield MigMove(set_mig_mode(pci, True), f"enable MIG mode on {pci}; no VM may use the GPU")
    if board.mig_needs_reboot_on_esxi or pending:
        yield MigMove(("reboot",), "reboot the host, in maintenance mode: the MIG mode takes effect then")
    query = ("nvidia-smi", "--query-gpu=pci.bus_id,mig.mode.current", "--format=csv")
    yield MigMove(query, "go on when the mode is Enabled")


def destroying(
    gone: Instance, gi: int, pci: str, compute: Mapping[tuple[str, int], Sequence[int]]
) -> Iterator[MigMove]:
    """Yield the commands for one instance: the driver refuses a GPU instance that still has compute instances."""
    for ci in compute.get((pci, gi), ()):
        yield MigMove(
            destroy_compute_instance(pci, gi, ci), f"destroy compute instance {ci} of GPU instance {gi} on {pci}"
        )
    yield MigMove(destroy_instance(pci, gi), f"destroy {gone.profile_name} (GPU instance {gi}) on {pci}")


def moves_on_paper(board: Board, way: Transition) -> Iterator[MigMove]:
    """Yield the commands for a GPU that was not read: ``GPU`` and the ``ID`` of instances are placeholders."""
    for gone in way.destroy:
        words = f"destroy {gone.profile_name} at {gone.start}; ID: see nvidia-smi mig -lgi"
        # without -ci every compute instance of the GPU instance goes
        yield MigMove(("nvidia-smi", "mig", "-i", "GPU", "-dci", "-gi", "ID"), words)
        yield MigMove(("nvidia-smi", "mig", "-i", "GPU", "-dgi", "-gi", "ID"), words)
    if way.create:
        items = ",".join(f"{number}:{start}" for number, start in _places(board, way.create))
        yield MigMove(("nvidia-smi", "mig", "-i", "GPU", "-cgi", items, "-C"), f"create {_words(way.create)}")


def _places(board: Board, instances: Sequence[Instance]) -> list[tuple[int, int]]:
    return [(board.profile(i.profile_name).id, i.start) for i in instances]


def _words(instances: Sequence[Instance]) -> str:
    return ", ".join(f"{i.profile_name}:{i.start}" for i in instances)
