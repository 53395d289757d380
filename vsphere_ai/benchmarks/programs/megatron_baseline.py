"""Baseline of Megatron runs: TFLOP/s per GPU that a model is known to reach."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import ConfigDict, Field

from vsphere_ai.documents.part import WholePart


class ExpectedThroughput(WholePart):
    """What a model is expected to reach: TFLOP/s per GPU, on so many GPUs (None: any number)."""

    model_config = ConfigDict(extra="forbid", strict=True)

    model: str
    tflops: Annotated[float, Field(gt=0, lt=1e6)]
    gpus: Annotated[int, Field(ge=1)] | None = None


def expected_for(every: Sequence[ExpectedThroughput], model: str, gpus: int) -> ExpectedThroughput | None:
    """Return what is expected of a model on so many GPUs: the entry of that number, else one of any."""
    own = [each for each in every if each.model == model]
    return next((e for n in (gpus, None) for e in own if e.gpus == n), None)
