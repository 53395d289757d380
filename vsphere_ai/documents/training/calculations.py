"""Documents of `calculate`: checkpoints in bytes and seconds, memory of a GPU in bytes."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from vsphere_ai.documents.printed import PrintedDocument

Without = Field(description="null: no MTBF was given.")


class CheckpointDocument(PrintedDocument):
    """What `calculate checkpoint` prints."""

    printed_by: ClassVar = ("calculate checkpoint",)

    bytes: Annotated[int, Field(description="Size of a checkpoint.")]
    write_seconds: float
    mtbf_seconds: Annotated[float | None, Without]
    interval_seconds: Annotated[float | None, Field(description="Between two checkpoints, by Daly.")]
    young_seconds: Annotated[float | None, Field(description="The same by Young.")]
    lost: Annotated[float | None, Field(description="Share of the time that checkpoints and failures take.")]


class MemoryDocument(PrintedDocument):
    """What `calculate memory` prints: what a GPU needs, in bytes."""

    printed_by: ClassVar = ("calculate memory",)

    weights: int
    gradients: int
    optimizer: int
    activations: Annotated[int | None, Field(description="null: the shape of the model was not given.")]
    overhead: Annotated[int, Field(description="CUDA and NCCL: an estimate.")]
    total: int
    fits: Annotated[bool | None, Field(description="null: no size of a GPU was given.")]
