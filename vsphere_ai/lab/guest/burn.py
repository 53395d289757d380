"""The burn program on a guest: reports of one GPU, whose losses and pace follow the farm and its defects."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping, Sequence

from vsphere_ai.lab.guest import load, logs
from vsphere_ai.lab.guest.machine import GuestGpu, GuestMachine
from vsphere_ai.lab.guest.process import GuestProcess, Peers, options

START, MARK = 0.3, "burn: "
STEP_TFLOP = 1.65
PER_WINDOW = 60.0


def process(peers: Peers, machine: GuestMachine, argv: Sequence[str], env: Mapping[str, str]) -> GuestProcess:
    """Return the process of a rank."""
    given = options(list(argv))
    torch, at = logs.package(machine, "torch"), int(env.get("LOCAL_RANK", "0"))
    if not torch:
        return GuestProcess(START, 3, lambda _: _line({"refused": "No module named 'torch'"}))
    if at >= len(machine.gpus):
        return GuestProcess(
            START, 3, lambda _: _line({"refused": f"there is no GPU {at}: torch sees {len(machine.gpus)}"})
        )
    gpu, length, every = machine.gpus[at], float(given["seconds"]), float(given["every"])
    configuration = {
        "program": "lab", "torch": torch, "cuda": "12.4", "gpu": gpu.name, "capability": "8.0",
        "driver": machine.driver, "workspace": ":4096:8", "seed": int(given["seed"]),
        "steps": int(given["steps"]), "size": int(given["size"]), "layers": int(given["layers"]), "type": given["type"],
    }  # fmt: skip

    def written(seconds: float) -> str:
        at = max(0.0, seconds - START)
        times = [n * every for n in range(1, int(at / every) + 1)] + ([length] if at >= length - 1e-6 else [])
        return _line({"configuration": configuration}) + "".join(
            _line(_report((machine, gpu), configuration, each, length)) for each in times
        )

    return GuestProcess(START + length, 0, written)


def _report(
    where: tuple[GuestMachine, GuestGpu], configuration: Mapping[str, object], at: float, length: float
) -> dict[str, object]:
    machine, gpu = where
    steps = int(str(configuration["steps"]))
    pace = load.peak(gpu) * load.MODEL_FLOPS * load.speed(machine.defects, machine.at(gpu)) / STEP_TFLOP
    pace *= random.Random(gpu.uuid).gauss(1.0, 0.005)  # noqa: S311 - the same GPU is always as fast
    cycles = max(1, int(at * pace / steps))
    right = _digest(configuration, 0)
    defect = machine.defects.first("wrong-bit", **machine.at(gpu))
    report: dict[str, object] = {"at": round(at, 1), "cycles": cycles, "steps": round(at * pace), "finite": True}
    digests = {right: cycles}
    if defect is not None:
        first = round(defect.number("count", 3))
        wrong = cycles if first <= 1 else max(0, -(-(cycles - first + 1) // 3))
        digests = {d: n for d, n in ((right, cycles - wrong), (_digest(configuration, 1), wrong)) if n}
        if first > 1 and wrong:
            report["differs"] = {"cycle": first, "step": 57, "expected": "3e9d1c02", "found": "3e9d1c03"}
    first_digest = next(iter(digests))
    windows = max(1, int(at / PER_WINDOW))
    report |= {"first": first_digest, "digests": digests, "pace": [round(pace, 2)] * windows}
    return {**report, "configuration": configuration, "end": at >= length - 1e-6}


def _digest(configuration: Mapping[str, object], bit: int) -> str:
    text = json.dumps({**configuration, "bit": bit}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _line(values: Mapping[str, object]) -> str:
    return f"{MARK}{json.dumps(values, sort_keys=True)}\n"
