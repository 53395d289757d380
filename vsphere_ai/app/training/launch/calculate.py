"""Calculators for training: checkpoints, and memory of GPUs, from quantities with units."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from vsphere_ai.errors import UsageError
from vsphere_ai.training import quantities
from vsphere_ai.training.checkpoint import BYTES_PER_PARAMETER, Checkpoints, checkpoint_size, checkpoints
from vsphere_ai.training.memory import Memory, Parallel, Recompute, Shape, memory


@dataclass(frozen=True)
class CheckpointRequest:
    """A checkpoint by its size or by the parameters of the model, the rate of its storage, and the MTBF of a node."""

    size: str = ""
    parameters: str = ""
    bytes_each: float = BYTES_PER_PARAMETER
    rate: str = ""
    mtbf: str = ""
    nodes: int = 1


@dataclass(frozen=True)
class MemoryRequest:
    """A model, how it is divided among GPUs, and the memory that each of them has."""

    parameters: str
    gpus: int = 1
    tensor: int = 1
    pipeline: int = 1
    zero: int = 0
    memory: str = ""
    layers: int = 0
    hidden: int = 0
    heads: int = 0
    sequence: int = 0
    micro_batch: int = 1
    recompute: Recompute = "selective"


def calculate_checkpoints(request: CheckpointRequest) -> Checkpoints:
    """Return how long a checkpoint takes, and how often to write one. `UsageError` for a quantity that is none."""
    if bool(request.size) == bool(request.parameters):
        raise UsageError(
            "neither the size of a checkpoint nor the parameters of a model were given",
            "give one of --size and --params",
        )
    if request.size:
        size = _read(quantities.size, request.size)
    else:
        size = checkpoint_size(_read(quantities.count, request.parameters), request.bytes_each)
    mtbf = _read(quantities.seconds, request.mtbf) if request.mtbf else None
    return checkpoints(size, _read(quantities.rate, request.rate), mtbf, request.nodes)


def calculate_memory(request: MemoryRequest) -> tuple[Memory, float | None]:
    """Return what each GPU needs, and what it has in bytes (None: not said)."""
    given = (request.layers, request.hidden, request.heads, request.sequence)
    if any(given) and not all(given):
        raise UsageError("the shape of the model is incomplete", "give --layers, --hidden, --heads and --sequence")
    shape = Shape(*given, request.micro_batch, request.recompute) if all(given) else None
    parallel = Parallel(request.gpus, request.tensor, request.pipeline, request.zero)
    have = _read(quantities.size, request.memory) if request.memory else None
    try:
        return memory(_read(quantities.count, request.parameters), parallel, shape), have
    except ValueError as error:
        raise UsageError(str(error), "choose numbers whose product divides the GPUs") from None


def _read(read: Callable[[str], float], text: str) -> float:
    try:
        return read(text)
    except ValueError as error:
        message, _, help = str(error).partition("\n")
        raise UsageError(message, help) from None
