"""Results of calculators as text and as JSON values; every number has its unit."""

from __future__ import annotations

from vsphere_ai.documents.training.calculations import CheckpointDocument, MemoryDocument
from vsphere_ai.model.text import duration
from vsphere_ai.training.checkpoint import Checkpoints
from vsphere_ai.training.memory import Memory


def checkpoint_text(found: Checkpoints) -> str:
    """Return the size, the time to write, and the intervals by Young and Daly."""
    lines = [f"size of a checkpoint   {bytes_text(found.size)}", f"time to write one      {_time(found.write)}"]
    if found.mtbf and found.young and found.daly and found.lost is not None:
        lines += [
            f"MTBF of the job        {_time(found.mtbf)}",
            f"interval (Daly)        {_time(found.daly)}",
            f"interval (Young)       {_time(found.young)}",
            f"time lost              {found.lost:.1%} of the time, to checkpoints and failures",
        ]
    return "".join(f"{line}\n" for line in lines)


def checkpoint_document(found: Checkpoints) -> CheckpointDocument:
    """Return the same as it is printed."""
    return CheckpointDocument(
        bytes=round(found.size),
        write_seconds=found.write,
        mtbf_seconds=found.mtbf,
        interval_seconds=found.daly,
        young_seconds=found.young,
        lost=found.lost,
    )


def memory_text(found: Memory, have: float | None) -> str:
    """Return what a GPU needs, by what it is for, and whether it has that."""
    shown = bytes_text(found.activations) if found.activations is not None else "not known: give the shape of the model"
    lines = [
        f"weights           {bytes_text(found.weights)}",
        f"gradients         {bytes_text(found.gradients)}",
        f"optimizer         {bytes_text(found.optimizer)}",
        f"activations       {shown}",
        f"CUDA, NCCL        {bytes_text(found.overhead)}, a guess",
        f"in all            {bytes_text(found.total)} of each GPU",
    ]
    if have is not None:
        free = have - found.total
        verdict = f"fits, with {bytes_text(free)} free" if free >= 0 else f"does not fit: {bytes_text(-free)} too much"
        lines.append(f"of {bytes_text(have)}: {verdict}")
    return "".join(f"{line}\n" for line in lines)


def memory_document(found: Memory, have: float | None) -> MemoryDocument:
    """Return the same as it is printed."""
    return MemoryDocument(
        weights=round(found.weights),
        gradients=round(found.gradients),
        optimizer=round(found.optimizer),
        activations=None if found.activations is None else round(found.activations),
        overhead=round(found.overhead),
        total=round(found.total),
        fits=None if have is None else found.total <= have,
    )


def bytes_text(number: float) -> str:
    """Return bytes in the binary unit that fits, and beside it in the decimal one: they differ by 10 % at TB."""
    for power, (binary, decimal) in ((4, ("TiB", "TB")), (3, ("GiB", "GB")), (2, ("MiB", "MB"))):
        if number >= 1024**power:
            return f"{number / 1024**power:.2f} {binary} ({number / 1000**power:.2f} {decimal})"
    return f"{number:.0f} B"


def _time(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.2f} min" if seconds < 3600 else duration(seconds)
