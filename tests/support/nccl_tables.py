"""Writer of tables as nccl-tests print them (NVIDIA/nccl-tests src/util.cu), in each layout there has been."""

from __future__ import annotations

from dataclasses import dataclass, field

FACTORS = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "alltoall": lambda n: (n - 1) / n,
    "broadcast": lambda n: 1.0,
    "reduce": lambda n: 1.0,
    "sendrecv": lambda n: 1.0,
}
WHOLE = ("all_gather", "reduce_scatter", "alltoall")
REDOP = ("all_reduce", "reduce_scatter", "reduce")
ROOT = ("broadcast", "reduce")


@dataclass(frozen=True)
class Layout:
    """How a version prints: `old` has an `error` column and only the columns an operation needs."""

    old: bool = False
    header: bool = True
    title: bool = True
    footer: bool = True
    prefix: str = ""
    per_iteration: bool = False
    timestamps: bool = False
    checked: bool = True
    devices: bool = True


@dataclass(frozen=True)
class Job:
    """A run: its operation, ranks, and microseconds by size in bytes (out of place, in place)."""

    operation: str
    ranks: int
    times: dict[int, tuple[float, float]]
    layout: Layout = field(default_factory=Layout)
    wrong: int = 0


def float_text(value: float, width: int) -> str:
    power, limit = 0, 1
    while value >= limit:
        power, limit = power + 1, limit * 10
    if power < width - 2:
        return f"{value:{width}.2f}"
    if power < width - 1:
        return f"{value:{width}.1f}"
    if power < width + 1:
        return f"{value:{width}.0f}"
    return f"{value:{width}.1e}"


def count_of(job: Job, size: int) -> int:
    return size // 4 // (job.ranks if job.operation in WHOLE else 1)


def bandwidths(job: Job, size: int, time: float) -> tuple[float, float]:
    alg = size / 1e3 / time
    return alg, alg * FACTORS[job.operation](job.ranks)


def text_of(job: Job) -> str:
    """The text of a run; sizes have to be multiples of 4 × ranks."""
    made = [*(_preamble(job) if job.layout.header else ()), *_heads(job)]
    buses = []
    for size, times in job.times.items():
        cells = [f"{size:12d}", f"{count_of(job, size):12d}", f"{'float':>8}", *_keys(job)]
        for time in times:
            alg, bus = bandwidths(job, size, time)
            buses.append(bus)
            wrong = f"{'5e-07' if job.layout.old else f'{job.wrong:6g}'}" if job.layout.checked else "   N/A"
            cells += [float_text(time, 7), float_text(alg, 6), float_text(bus, 6), f"{wrong:>6}"]
            if job.layout.per_iteration:
                cells += [float_text(time * f, 7) for f in (0.9, 1.2, 1.1, 0.01)]
        made.append("  ".join(cells) + ("  2026-11-23 22:00:00" if job.layout.timestamps else ""))
    if job.layout.footer:
        bad = job.wrong * 2 * len(job.times)
        made.append(f"# Out of bounds values : {bad} {'FAILED' if bad else 'OK'}")
        made += [f"# Avg bus bandwidth    : {sum(buses) / max(1, len(buses)):g} ", "#"]
        if not job.layout.old:
            made += [f"# Collective test concluded: {job.operation}_perf", "#"]
    return "".join(f"{job.layout.prefix}{line}\n" for line in made)


def _keys(job: Job) -> list[str]:
    redop = "sum" if job.operation in REDOP else "none"
    root = 0 if job.operation in ROOT else -1
    if not job.layout.old:
        return [f"{redop:>6}", f"{root:6d}"]
    return [f"{redop:>6}"] * (job.operation in REDOP) + [f"{root:6d}"] * (job.operation in ROOT)


def _preamble(job: Job) -> list[str]:
    sizes = f"minBytes {min(job.times, default=8)} maxBytes {max(job.times, default=8)}"
    made = [
        "# nccl-tests version 2.19.6 nccl-headers=23003 nccl-library=23003",
        f"# Collective test starting: {job.operation}_perf",
    ] * (not job.layout.old)
    made += [f"# nThread 1 nGpus 1 {sizes} step: 2(factor) warmup iters: 5 iters: 20 validation: 1 ", "#"]
    made.append("# Using devices")
    group = "" if job.layout.old else " Group  0"
    for rank in range(job.ranks if job.layout.devices else 0):
        where = f"vm-{rank // 8:02d} device {rank % 8:2d} [0000:0f:00] NVIDIA A100"
        made.append(f"#  Rank {rank:2d}{group} Pid {4000 + rank:6d} on {where}")
    return [*made, "NCCL version 2.30.3+cuda13.0"]


def _heads(job: Job) -> list[str]:
    half = ["time", "algbw", "busbw", "error" if job.layout.old else "#wrong"]
    half += ["i_min", "i_max", "i_p99", "i_cv%"] * job.layout.per_iteration
    keys = ["redop", "root"]
    if job.layout.old:
        keys = ["redop"] * (job.operation in REDOP) + ["root"] * (job.operation in ROOT)
    names = ["size", "count", "type", *keys, *half, *half, *["timestamp"] * job.layout.timestamps]
    title = ["#                                              out-of-place                       in-place          "]
    return ["#", *title * job.layout.title, "# " + "  ".join(f"{n:>8}" for n in names), "#        (B)    (elements)"]
