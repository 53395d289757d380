"""File of baselines: one model, by which it is written, and read by the reader of YAML files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict

from vsphere_ai.benchmarks.baseline import ExpectedBandwidth
from vsphere_ai.benchmarks.programs.megatron_baseline import ExpectedThroughput


class BaselineFile(BaseModel):
    """What benchmarks have to reach: one file may have figures of nccl-tests and of Megatron."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid", strict=True)

    baseline: Literal[1]
    """Version of the format."""
    about: str = ""
    """What was measured, for people."""
    nccl: tuple[ExpectedBandwidth, ...] = ()
    megatron: tuple[ExpectedThroughput, ...] = ()


def baseline_text(
    nccl: Sequence[ExpectedBandwidth] = (), megatron: Sequence[ExpectedThroughput] = (), about: str = ""
) -> str:
    """Return figures as the text of a file."""
    units = ["bus bandwidth in GB/s, size in bytes, sigma: spread of one run in GB/s"] if nccl else []
    units += ["TFLOP/s per GPU"] if megatron else []
    made = BaselineFile(baseline=1, about=about, nccl=tuple(nccl), megatron=tuple(megatron))
    values = {key: value for key, value in made.model_dump(mode="json", exclude_none=True).items() if value}
    return f"# {'; '.join(units)}\n" + yaml.safe_dump(values, sort_keys=False)
