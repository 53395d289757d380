"""`pretrain_gpt.py` of Megatron-LM with mock data, under torchrun: a log computed from the farm.

An iteration takes as long as its slowest GPU, and the part of the gradients' all-reduce that is not overlapped. Its
floating-point operations are those that Megatron counts for a GPT. Time in the lab passes `FASTER` times as fast.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from vsphere_ai.lab.guest import load, nccl
from vsphere_ai.lab.guest.machine import GuestMachine
from vsphere_ai.lab.guest.process import GuestProcess, Peers, options

FOLDER = "/opt/Megatron-LM"
FASTER, START = 100.0, 0.3
NOT_OVERLAPPED = 0.3
"""Part of the gradients' all-reduce that an iteration waits for."""
NOISE = 0.01


@dataclass(frozen=True)
class LabGpt:
    """A GPT by the options of the program."""

    layers: int
    hidden: int
    sequence: int
    vocabulary: int

    @property
    def parameters(self) -> float:
        """The number of its parameters."""
        return 12.0 * self.layers * self.hidden**2 + self.vocabulary * self.hidden

    @property
    def flops(self) -> float:
        """Floating-point operations of a sample, forward and backward."""
        h, s = self.hidden, self.sequence
        return 72.0 * self.layers * s * h**2 * (1 + s / (6 * h) + self.vocabulary / (12 * h * self.layers))


@dataclass(frozen=True)
class Job:
    """What is trained, and on how much: samples and GPUs, of which so many groups see samples of their own."""

    model: LabGpt
    batch: int
    gpus: int
    parallel: int
    iterations: int

    @property
    def flops(self) -> float:
        """Floating-point operations of an iteration per GPU."""
        return self.model.flops * self.batch / self.gpus


def process(peers: Peers, machine: GuestMachine, argv: Sequence[str], env: Mapping[str, str]) -> GuestProcess:
    """Return the agent of a node with the program's processes; Megatron writes its log on the last rank."""
    given = options(list(argv))
    if not argv[0].startswith(FOLDER):
        return GuestProcess(
            0.1, 2, lambda _: f"python3: can't open file '{argv[0]}': [Errno 2] No such file or directory\n"
        )
    model = LabGpt(*(int(given[n]) for n in ("num-layers", "hidden-size", "seq-length", "vocab-size")))
    gpus = [len(each.gpus) for each, _ in peers]
    split = int(given.get("tensor-model-parallel-size", "1")) * int(given.get("pipeline-model-parallel-size", "1"))
    batch, iterations = int(given["global-batch-size"]), int(given["train-iters"])
    parallel = sum(gpus) // split
    if not parallel or batch % (parallel * int(given["micro-batch-size"])):
        text = f"AssertionError: global batch size ({batch}) is not divisible by micro batch size times data parallel\n"
        return GuestProcess(START, 1, lambda _: text)
    job = Job(model, batch, sum(gpus), parallel, iterations)
    step = _step(peers, job, env)
    length = START + iterations * step / FASTER
    log = machine.name == peers[-1][0].name
    lines = list(_lines(peers, job, step)) if log else []

    def written(seconds: float) -> str:
        done = iterations if seconds >= length - 1e-6 else int(max(0.0, seconds - START) * FASTER / step)
        return "".join(f"{line}\n" for line in lines[:done])

    return GuestProcess(length, 0, written)


def _step(peers: Peers, job: Job, env: Mapping[str, str]) -> float:
    """Return the seconds of an iteration."""
    each = [
        load.peak(gpu) * load.MODEL_FLOPS * load.speed(m.defects, m.at(gpu)) * load.pace(m, len(peers))
        for m, _ in peers
        for gpu in m.gpus
    ]
    compute = job.flops / (min(each) * 1e12)
    if job.parallel < 2:
        return compute
    run = nccl.LabNcclRun([(m, len(m.gpus)) for m, _ in peers], [], dict(env))
    gradients = 2 * job.model.parameters / (nccl.bandwidth(run, job.gpus) * 1e9)
    exchange = 2 * (job.parallel - 1) / job.parallel * gradients
    return compute + NOT_OVERLAPPED * exchange


def _lines(peers: Peers, job: Job, step: float) -> Iterator[str]:
    noise = random.Random()  # noqa: S311 - noise, not a secret
    bad = min((d.number("count", 1) for m, _ in peers for d in m.defects.of("loss-nan", vm=m.name)), default=math.inf)
    batch, iterations = job.batch, job.iterations
    for number in range(1, iterations + 1):
        seconds = step * noise.gauss(1.0, NOISE) * (3 if number == 1 else 1)
        tflops = job.flops / seconds / 1e12
        loss = "nan" if number >= bad else f"{math.log(job.model.vocabulary) * 0.97**number:.6E}"
        nans = int(number >= bad)
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
        yield (
            f" [{stamp}] iteration {number:8d}/{iterations:8d} | consumed samples: {number * batch:12d} |"
            f" elapsed time per iteration (ms): {seconds * 1e3:.1f} | throughput per GPU (TFLOP/s/GPU): {tflops:.1f} |"
            f" learning rate: 1.000000E-04 | global batch size: {batch:5d} | lm loss: {loss} | loss scale: 1.0 |"
            f" grad norm: 1.021 | number of skipped iterations:   0 | number of nan iterations: {nans:3d} |"
        )
