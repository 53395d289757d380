#!/usr/bin/env python3
"""Training with PyTorch and gloo: data-parallel gradient descent with an all-reduce, checkpoints, one loss.

It runs on CPUs, and so also where the GPUs are not those of this machine. The data of a rank are the same in each run,
and numbers have double precision, so that a run that goes on from a checkpoint ends with the loss of one that nothing
disturbed, up to the order in which gloo adds. It needs PyTorch in the guests.

    vsphere-ai launch torchrun -f job.yml        # job.yml: script: /shared/all_reduce_torch.py
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import torch
from torch import distributed, nn

SIZE, SAMPLES, RATE = 16, 64, 0.05
"""Weights of the model, samples of each rank, and the step of the descent."""


def data_of(rank: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the samples of a rank: inputs (SAMPLES, SIZE), and outputs (SAMPLES, 1) of a model that all share."""
    model, own = torch.Generator().manual_seed(7), torch.Generator().manual_seed(1000 + rank)
    wanted = torch.rand(SIZE, 1, generator=model, dtype=torch.float64) * 2 - 1
    inputs = torch.rand(SAMPLES, SIZE, generator=own, dtype=torch.float64) * 2 - 1
    return inputs, inputs @ wanted


def main() -> None:
    """Train, from the newest checkpoint where there is one."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--steps", type=int, default=100)
    options.add_argument("--checkpoints", required=True, type=Path, help="a folder that all ranks have")
    options.add_argument("--every", type=int, default=10, help="steps between checkpoints")
    given = options.parse_args()
    given.checkpoints.mkdir(parents=True, exist_ok=True)
    distributed.init_process_group("gloo")
    rank, world = distributed.get_rank(), distributed.get_world_size()
    model = nn.Linear(SIZE, 1, bias=False, dtype=torch.float64)
    nn.init.zeros_(model.weight)
    newest = max(given.checkpoints.glob("step-*.pt"), default=None)
    begun = torch.zeros(1, dtype=torch.int64)
    if rank == 0 and newest is not None:
        kept = torch.load(newest, weights_only=True)
        begun += kept["step"]
        model.load_state_dict(kept["model"])
        print(f"goes on after step {int(begun)}", flush=True)
    for tensor in (begun, model.weight.data):  # all begin with what rank 0 has
        distributed.broadcast(tensor, 0)
    inputs, outputs = data_of(rank)
    loss = torch.zeros(())
    for step in range(int(begun) + 1, given.steps + 1):
        model.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), outputs)
        loss.backward()
        loss = loss.detach()
        for tensor in (model.weight.grad, loss):
            distributed.all_reduce(tensor)
        model.weight.data -= RATE * model.weight.grad / world
        print(f"step {step} loss {float(loss) / world:.12f}", flush=True)
        if rank == 0 and step % given.every == 0:
            path = given.checkpoints / f"step-{step:06d}.pt"
            torch.save({"step": step, "model": model.state_dict()}, f"{path}.new")
            os.replace(f"{path}.new", path)
    if rank == 0:
        text = f"done: {given.steps} steps, {world} ranks, loss {float(loss) / world:.12f}"
        print(text, flush=True)
        (given.checkpoints / "result.txt").write_text(f"{text}\n", encoding="utf-8")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
