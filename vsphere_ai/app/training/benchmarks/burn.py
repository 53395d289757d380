"""Burns of VMs: every GPU trains the same steps for a while; what it computes is compared, what it shows is judged."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from vsphere_ai.app.events import Emit, Status, ignore
from vsphere_ai.app.training.benchmarks.burn_samples import Sampler
from vsphere_ai.app.training.benchmarks.frame import BenchmarkPlace, VmBenchmark, carry_out_benchmark
from vsphere_ai.app.training.benchmarks.history import FOLDER
from vsphere_ai.app.training.benchmarks.launch import carry_out, run_name
from vsphere_ai.app.training.nodes.listed import NodesRequest
from vsphere_ai.benchmarks.programs.burn import Burned, agreed
from vsphere_ai.benchmarks.programs.burn_benchmark import (
    BurnBenchmark,
    BurnOptions,
    BurnSamples,
    burn_result,
    burned_gpus,
)
from vsphere_ai.benchmarks.programs.training_results import BurnResult
from vsphere_ai.documents.benchmark_history import BurnDigests
from vsphere_ai.runs.state_files import read_state, write_state
from vsphere_ai.security.state_dir import own_folder

__all__ = ["BurnOptions", "BurnRequest", "bench_burn"]
LATE = 300.0
"""Seconds after its time in which a burn has to end."""


@dataclass(frozen=True)
class BurnRequest:
    """Which VMs burn, and how."""

    nodes: NodesRequest
    options: BurnOptions = field(default_factory=BurnOptions)


def bench_burn(request: BurnRequest, emit: Emit = ignore) -> BurnResult:
    """Keep every GPU of VMs busy with a program whose results are known bit for bit, and judge what it computes.

    The guests need PyTorch. Each VM stands for itself: one that fails stops no other. Ends by itself when its time is
    over, also where this process is gone.
    """
    return carry_out_benchmark(_Burn(request.options), request.nodes, emit)


class _Burn(VmBenchmark[BurnResult]):
    """Burns that are launched like jobs, one for each VM, and what nvidia-smi shows during them."""

    def __init__(self, options: BurnOptions) -> None:
        self._burn = BurnBenchmark(options)
        super().__init__(self._burn)

    def measure(self, place: BenchmarkPlace) -> BurnResult:
        options, nodes, earlier = self._burn.options, place.nodes, _earlier()
        sampler = Sampler.of(place.read, place.guests, place.hosts)
        run, began = run_name("burn"), time.monotonic()
        pause = min(options.every, options.seconds / 4)
        due = pause

        def look(seconds: float) -> None:
            nonlocal due
            if seconds >= due:
                due = seconds + pause
                sampler.take(nodes)
            hot = max((s[-1].temperature or 0 for s in sampler.samples.values()), default=0)
            heat = f", {hot:g} °C at most" if hot else ""
            place.emit(Status(f"burn: {seconds / 60:.1f} of {options.minutes:g} min on {len(nodes)} VMs{heat}"))

        try:
            launches = [self._burn.launch(node, run) for node in nodes]
            carried = carry_out(launches, place.guests, place.emit, within=options.seconds + LATE, look=look)
        finally:
            sampler.close()
        burned = burned_gpus(nodes, carried, BurnSamples(sampler.samples, sampler.why, sampler.side))
        result = burn_result(nodes, carried, burned, earlier, time.monotonic() - began)
        _remember(earlier, burned)
        return result


def _file() -> Path:
    return own_folder(FOLDER) / "burn.json"


def _earlier() -> dict[str, dict[str, int]]:
    """Return the digests on which GPUs agreed in earlier burns on this machine, with how many did, by configuration."""
    kept = read_state(_file(), BurnDigests)
    return {key: dict(known) for key, known in kept.digests.items()} if kept else {}


def _remember(earlier: dict[str, dict[str, int]], burned: Sequence[Burned]) -> None:
    """Keep what two GPUs or more agree on, for burns of the same configuration to come."""
    for key, (digest, number) in agreed(burned).items():
        known = earlier.setdefault(key, {})
        known[digest] = max(number, known.get(digest, 0))
    write_state(_file(), BurnDigests(digests=earlier), "what was computed is not kept for later burns")
