"""Histories of benchmarks as the state folder keeps them: a result of a set on each line, and digests of burns."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from vsphere_ai.documents.stored import StoredDocument

Number = Annotated[float, Field(allow_inf_nan=False)]


class BenchmarkResult(StoredDocument):
    """A result of a set; higher is better. It is compared with those of the same `key`."""

    remedy: ClassVar[str] = "correct this line or remove it: without it, the other results count"

    at: Annotated[Number, Field(description="Seconds since 1970.")]
    set: str
    benchmark: str
    operation: str
    ranks: int
    size: Annotated[int, Field(description="Bytes; 0 where the benchmark has none.")]
    value: Annotated[Number, Field(gt=0)]
    unit: str = "GB/s"
    run: Annotated[str, Field(description='The run that measured it; "" for none.')] = ""

    @property
    def key(self) -> tuple[str, str, str, int, int, str]:
        """What it is compared by."""
        return (self.set, self.benchmark, self.operation, self.ranks, self.size, self.unit)


class BurnDigests(StoredDocument):
    """Digests on which GPUs agreed in burns on this machine."""

    remedy: ClassVar[str] = "move the file away: GPUs are compared with those of the same burn only then"

    digests: Annotated[
        dict[str, dict[str, int]], Field(description="Configuration -> digest -> the most GPUs that agreed on it.")
    ]
