#!/usr/bin/env python3
"""Training with Python alone: data-parallel gradient descent with an all-reduce over sockets, checkpoints, one loss.

Each rank has a part of the data, which are the same in each run. Rank 0 adds up the gradients of all ranks in the order
of the ranks, so that the sum, and with it the loss, is the same to the last bit wherever the ranks run, and also after
a run that went on from a checkpoint. It needs Python 3.8 or later and the variables that `vsphere-ai launch env` (and
torchrun) sets: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT.

    vsphere-ai launch env -f job.yml        # job.yml: script: /shared/all_reduce.py
"""

import argparse
import json
import math
import os
import random
import socket
import struct
import sys
import time

SIZE, SAMPLES, RATE = 16, 64, 0.05
"""Weights of the model, samples of each rank, and the step of the descent."""
NUMBER = struct.Struct("!d")
PATIENCE = 60.0
"""Seconds to wait for the other ranks at the start, and for a message of one."""


def data_of(rank):
    """Return the samples of a rank: inputs, and the output of a model that is the same for all."""
    model, own = random.Random(7), random.Random(1000 + rank)
    wanted = [model.uniform(-1, 1) for _ in range(SIZE)]
    samples = []
    for _ in range(SAMPLES):
        inputs = [own.uniform(-1, 1) for _ in range(SIZE)]
        samples.append((inputs, sum(w * x for w, x in zip(wanted, inputs)) + own.gauss(0, 0.01)))
    return samples


def gradient(weights, samples):
    """Return the gradient of the squared error of a rank's samples, and at the end the error itself."""
    total = [0.0] * (SIZE + 1)
    for inputs, output in samples:
        error = sum(w * x for w, x in zip(weights, inputs)) - output
        for at, value in enumerate(inputs):
            total[at] += 2 * error * value
        total[SIZE] += error * error
    return total


class Peers:
    """The ranks of a job, connected to rank 0."""

    def __init__(self, rank, world, address, port):
        self.rank, self.world = rank, world
        self.links = self.gathered(address, port) if rank == 0 else [self.joined(address, port)] if world > 1 else []

    def gathered(self, address, port):
        """Wait for the other ranks; return their connections in the order of the ranks."""
        if self.world == 1:
            return []
        found = {}
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind((address, port))
            server.listen(self.world)
            server.settimeout(PATIENCE)
            while len(found) < self.world - 1:
                link, _ = server.accept()
                link.settimeout(PATIENCE)
                found[int(received(link, 1)[0])] = link
        return [found[rank] for rank in sorted(found)]

    def joined(self, address, port):
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

    def all_reduce(self, values):
        """Return the sums of all ranks' values, added in the order of the ranks."""
        if self.rank:
            sent(self.links[0], values)
            return received(self.links[0], len(values))
        for link in self.links:
            values = [own + other for own, other in zip(values, received(link, len(values)))]
        for link in self.links:
            sent(link, values)
        return values


def sent(link, values):
    """Send numbers."""
    link.sendall(b"".join(map(NUMBER.pack, values)))


def received(link, count):
    """Return so many numbers; the end of the connection ends the job."""
    found = b""
    while len(found) < count * NUMBER.size:
        part = link.recv(count * NUMBER.size - len(found))
        if not part:
            sys.exit("another rank is gone")
        found += part
    return [each[0] for each in NUMBER.iter_unpack(found)]


def newest(folder):
    """Return the step and the weights of the newest checkpoint; step 0 and zeros where there is none."""
    names = sorted(name for name in os.listdir(folder) if name.startswith("step-") and name.endswith(".json"))
    if not names:
        return 0, [0.0] * SIZE
    with open(os.path.join(folder, names[-1])) as file:
        found = json.load(file)
    return found["step"], [float.fromhex(text) for text in found["weights"]]


def keep(folder, step, weights):
    """Write a checkpoint, whole or not at all."""
    path = os.path.join(folder, "step-%06d.json" % step)
    with open(path + ".new", "w") as file:
        json.dump({"step": step, "weights": [weight.hex() for weight in weights]}, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".new", path)


def main():
    """Train, from the newest checkpoint where there is one."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--steps", type=int, default=100)
    options.add_argument("--checkpoints", required=True, metavar="DIR", help="a folder that all ranks have")
    options.add_argument("--every", type=int, default=10, help="steps between checkpoints")
    options.add_argument("--pause", type=float, default=0.0, help="seconds of each step, beside its work")
    given = options.parse_args()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    os.makedirs(given.checkpoints, exist_ok=True)
    begun, weights = newest(given.checkpoints)
    peers = Peers(rank, world, os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    # a rank may have read the folder before another one: all begin with what rank 0 has
    begun, *weights = peers.all_reduce([float(begun), *weights] if rank == 0 else [0.0] * (SIZE + 1))
    if begun and rank == 0:
        print("goes on after step %d" % begun, flush=True)
    samples, loss = data_of(rank), math.nan
    for step in range(int(begun) + 1, given.steps + 1):
        *total, error = peers.all_reduce(gradient(weights, samples))
        weights = [weight - RATE * each / (SAMPLES * world) for weight, each in zip(weights, total)]
        loss = error / (SAMPLES * world)
        print("step %d loss %.12f" % (step, loss), flush=True)
        if rank == 0 and step % given.every == 0:
            keep(given.checkpoints, step, weights)
        time.sleep(given.pause)
    if rank == 0:
        print("done: %d steps, %d ranks, loss %.12f" % (given.steps, world, loss), flush=True)


if __name__ == "__main__":
    main()
