"""Memory of a GPU that training a transformer takes: model states and activations.

Sources: S. Rajbhandari et al., ZeRO, arXiv:1910.02054 (model states: 2 + 2 + 12 bytes per parameter with Adam in mixed
precision, and which of them each stage divides); V. Korthikanti et al., Reducing Activation Recomputation in Large
Transformer Models, arXiv:2205.05198, equations 2, 4 and 6. What CUDA, NCCL and
fragmentation take (`overhead`) is a guess.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

WEIGHTS, GRADIENTS, OPTIMIZER = 2, 2, 12
"""Bytes per parameter."""
GIB = 1 << 30
Recompute = Literal["none", "selective", "full"]


@dataclass(frozen=True)
class Parallel:
    """How a model is divided: `gpus` in all, `tensor` and `pipeline` of them for one copy, and the stage of ZeRO."""

    gpus: int = 1
    tensor: int = 1
    pipeline: int = 1
    zero: int = 0

    @property
    def data(self) -> int:
        """Copies of the model; `ValueError` where the GPUs do not divide evenly."""
        copy = self.tensor * self.pipeline
        if self.gpus % copy:
            raise ValueError(f"{self.gpus} GPUs are no multiple of {self.tensor} (tensor) × {self.pipeline} (pipeline)")
        return self.gpus // copy


@dataclass(frozen=True)
class Shape:
    """A transformer: what its activations depend on."""

    layers: int
    hidden: int
    heads: int
    sequence: int
    micro_batch: int = 1
    recompute: Recompute = "selective"


@dataclass(frozen=True)
class Memory:
    """Bytes that a GPU needs, by what they are for; `activations` None: the shape of the model is not known."""

    weights: float
    gradients: float
    optimizer: float
    activations: float | None = None
    overhead: float = 2 * GIB

    @property
    def total(self) -> float:
        """All that is known."""
        known = self.weights + self.gradients + self.optimizer + self.overhead
        return known if self.activations is None else known + self.activations


def memory(parameters: float, parallel: Parallel, shape: Shape | None = None) -> Memory:
    """Return the memory that each GPU needs."""
    own, data = parameters / (parallel.tensor * parallel.pipeline), parallel.data
    weights, gradients, optimizer = (own * n / (data if parallel.zero >= stage else 1) for n, stage in _STATES)
    return Memory(weights, gradients, optimizer, activations(shape, parallel) if shape else None)


_STATES = ((WEIGHTS, 3), (GRADIENTS, 2), (OPTIMIZER, 1))
"""Bytes per parameter, and the stage of ZeRO that divides them among the copies of the model."""


def activations(shape: Shape, parallel: Parallel) -> float:
    """Return the bytes of activations on the first stage of a pipeline, which holds one micro-batch for each stage.

    With a pipeline (1F1B) a stage has `layers / pipeline` layers and `pipeline` micro-batches: the product is `layers`.
    """
    unit = shape.sequence * shape.micro_batch * shape.hidden
    tensor = parallel.tensor
    if shape.recompute == "full":
        return 2.0 * unit * shape.layers
    if shape.recompute == "selective":
        return unit * shape.layers * (10 + 24 / tensor)
    attention = 5 * shape.heads * shape.sequence / shape.hidden
    return unit * shape.layers * (10 + 24 / tensor + attention / tensor)
