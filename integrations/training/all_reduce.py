#!/usr/bin/env python3
"""Training with Python alone: data-parallel gradient descent with an all-reduce over sockets, checkpoints, one loss.

Each rank has a part of the data, which are the same in each run. Rank 0 adds up the gradients of all ranks in the order
of the ranks, so that the sum, and with it the loss, is the same to the last bit wherever the ranks run, and also after
a run that went on from a checkpoint. It needs Python 3.8 or later and the variables that `vsphere-ai launch env` (and
torchrun) sets: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT.

    vsphere-ai launch env -f job.yml        # job.yml: script: /shared/all_reduce.py
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import socket
import struct
import sys
import time
from operator import add, mul

SIZE, SAMPLES, RATE = 16, 64, 0.05
"""Weights of the model, samples of each rank, and the step of the descent."""
NUMBER = struct.Struct("!d")
PATIENCE = 60.0
"""Seconds to wait for the other ranks at the start, and for a message of one."""
AFTER = 2.0
"""Seconds until a rank ends because of another one, so that the one that failed is the first to be reported."""


def data_of(rank: int) -> list[tuple[list[float], float]]:
    """Return the samples of a rank: inputs, and the output of a model that is the same for all."""
    model, own = random.Random(7), random.Random(1000 + rank)  # noqa: S311 - data that are the same in each run
    wanted = [model.uniform(-1, 1) for _ in range(SIZE)]
    samples = []
    for _ in range(SAMPLES):
        inputs = [own.uniform(-1, 1) for _ in range(SIZE)]
        samples.append((inputs, sum(map(mul, wanted, inputs)) + own.uniform(-0.01, 0.01)))
    return samples


def gradient(weights: list[float], samples: list[tuple[list[float], float]]) -> list[float]:
    """Return the gradient of the squared error of a rank's samples, and at the end the error itself."""
    total = [0.0] * (SIZE + 1)
    for inputs, output in samples:
        error = sum(map(mul, weights, inputs)) - output
        for at, value in enumerate(inputs):
            total[at] += 2 * error * value
        total[SIZE] += error * error
    return total


class Peers:
    """The ranks of a job: rank 0 is connected to all others, in the order of the ranks, each of those to rank 0."""

    def __init__(self, rank: int, world: int, address: str, port: int) -> None:
        self.rank, self.world = rank, world
        self.links: list[socket.socket] = []
        if world > 1:
            self.links = self.gathered(address, port) if rank == 0 else [self.joined(address, port)]

    def gathered(self, address: str, port: int) -> list[socket.socket]:
        """Wait for the other ranks; return their connections."""
        links = {}
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind((address, port))
            server.listen(self.world)
            server.settimeout(PATIENCE)
            while len(links) < self.world - 1:
                link, _ = server.accept()
                link.settimeout(PATIENCE)
                links[int(received(link, 1)[0])] = link
        return [links[rank] for rank in sorted(links)]

    def joined(self, address: str, port: int) -> socket.socket:
        """Connect to rank 0, which may not listen yet."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                link = socket.create_connection((address, port), timeout=PATIENCE)
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)
            else:
                sent(link, [float(self.rank)])
                return link

    def all_reduce(self, values: list[float]) -> list[float]:
        """Return the sums of all ranks' values, added in the order of the ranks."""
        if self.rank:
            sent(self.links[0], values)
            return received(self.links[0], len(values))
        for link in self.links:
            values = list(map(add, values, received(link, len(values))))
        for link in self.links:
            sent(link, values)
        return values


def sent(link: socket.socket, values: list[float]) -> None:
    """Send numbers."""
    link.sendall(b"".join(map(NUMBER.pack, values)))


def received(link: socket.socket, count: int) -> list[float]:
    """Return so many numbers; the end of the connection ends the job."""
    content = b""
    while len(content) < count * NUMBER.size:
        part = link.recv(count * NUMBER.size - len(content))
        if not part:
            time.sleep(AFTER)
            sys.exit("another rank is gone")
        content += part
    return [each[0] for each in NUMBER.iter_unpack(content)]


def newest(folder: str) -> tuple[int, list[float]]:
    """Return the step and the weights of the newest checkpoint; step 0 and zeros where there is none."""
    names = sorted(name for name in os.listdir(folder) if name.startswith("step-") and name.endswith(".json"))
    if not names:
        return 0, [0.0] * SIZE
    with open(os.path.join(folder, names[-1])) as file:
        checkpoint = json.load(file)
    return checkpoint["step"], [float.fromhex(text) for text in checkpoint["weights"]]


def keep(folder: str, step: int, weights: list[float]) -> None:
    """Write a checkpoint, whole or not at all."""
    path = os.path.join(folder, f"step-{step:06d}.json")
    with open(f"{path}.new", "w") as file:
        json.dump({"step": step, "weights": [weight.hex() for weight in weights]}, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(f"{path}.new", path)


def main() -> None:
    """Train, from the newest checkpoint where there is one."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--steps", type=int, default=100)
    options.add_argument("--checkpoints", required=True, metavar="DIR", help="a folder that all ranks have")
    options.add_argument("--every", type=int, default=10, help="steps between checkpoints")
    options.add_argument("--pause", type=float, default=0.0, help="seconds of each step, beside its work")
    given = options.parse_args()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    os.makedirs(given.checkpoints, exist_ok=True)
    begun, weights = newest(given.checkpoints)
    peers = Peers(rank, world, os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    # a rank may have read the folder before another one wrote there: all begin with what rank 0 has
    shared = peers.all_reduce([float(begun), *weights] if rank == 0 else [0.0] * (SIZE + 1))
    begun, weights = int(shared[0]), shared[1:]
    if begun and rank == 0:
        print(f"goes on after step {begun}", flush=True)
    samples, loss = data_of(rank), math.nan
    for step in range(begun + 1, given.steps + 1):
        *total, error = peers.all_reduce(gradient(weights, samples))
        weights = [weight - RATE * each / (SAMPLES * world) for weight, each in zip(weights, total)]  # noqa: B905
        loss = error / (SAMPLES * world)
        print(f"step {step} loss {loss:.12f}", flush=True)
        if rank == 0 and step % given.every == 0:
            keep(given.checkpoints, step, weights)
        time.sleep(given.pause)
    if rank == 0:
        text = f"done: {given.steps} steps, {world} ranks, loss {loss:.12f}"
        print(text, flush=True)
        with open(os.path.join(given.checkpoints, "result.txt"), "w") as file:
            file.write(f"{text}\n")


if __name__ == "__main__":
    main()
