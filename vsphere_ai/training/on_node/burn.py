"""Burn: a fixed training program on one GPU that keeps it busy, and reports its losses exactly.

The same steps are trained again and again from the same seed. Every cycle of a sound GPU gives the same losses, bit for
bit, and so does every GPU of the same kind with the same software. It needs PyTorch, and runs with Python 3.8 or later.
Each line that begins with `burn: ` is a report in JSON of everything so far, so that the last one is enough.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import math
import os
import signal
import struct
import sys
import time
from types import ModuleType
from typing import Any, Dict, List, Tuple  # noqa: UP035 - dict[...] is of Python 3.9

MARK = "burn: "
WORKSPACE = ":4096:8"
"""Setting with which cuBLAS is deterministic (NVIDIA, cuBLAS: results reproducibility)."""
WINDOW = 60.0
"""Seconds of which the pace is reported as one number."""
MOST_DIGESTS = 8
REFUSED, LATE = 3, 300


def say(values: Dict[str, object]) -> None:  # noqa: UP006
    """Write a report."""
    sys.stdout.write(f"{MARK}{json.dumps(values, sort_keys=True)}\n")
    sys.stdout.flush()


def refuse(why: str) -> None:
    """End with the reason why nothing can be measured."""
    say({"refused": why})
    sys.exit(REFUSED)


def options() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=1500.0)
    parser.add_argument("--every", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--type", default="bfloat16", choices=("bfloat16", "float16", "float32"))
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    return parser.parse_args()


class BurnProgram:
    """The program: layers of a fixed size, their weights and one batch, all from the seed."""

    def __init__(self, torch: ModuleType, asked: argparse.Namespace, device: str) -> None:
        self.torch, self.asked, self.device = torch, asked, device
        torch.use_deterministic_algorithms(True)
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
        made = torch.Generator(device="cpu").manual_seed(asked.seed)
        kind, size = getattr(torch, asked.type), asked.size

        scales = [1 / math.sqrt(size)] * asked.layers + [1.0, 1.0]
        random = [(torch.randn(size, size, generator=made) * each).to(kind).to(device) for each in scales]
        self.first, (self.batch, self.wanted) = random[:-2], random[-2:]
        self.weights = [torch.nn.Parameter(torch.empty_like(each)) for each in self.first]

    def cycle(self) -> Tuple[List[float], str]:  # noqa: UP006
        """Train the steps from the beginning; return the losses, and the digest of their bits and of the weights."""
        torch = self.torch
        with torch.no_grad():
            for weight, first in zip(self.weights, self.first):  # noqa: B905 - of Python 3.10
                weight.copy_(first)
        made = torch.optim.SGD(self.weights, lr=1e-5 * self.asked.size, momentum=0.9)
        losses = torch.zeros(self.asked.steps, device=self.device)
        for step in range(self.asked.steps):
            made.zero_grad(set_to_none=True)
            value = self.batch
            for weight in self.weights:
                value = torch.nn.functional.gelu(value @ weight) + value
            loss = torch.nn.functional.mse_loss(value.float(), self.wanted.float())
            loss.backward()
            made.step()
            losses[step] = loss.detach()
        found = [float(each) for each in losses.cpu().tolist()]
        digest = hashlib.sha256(struct.pack(f"<{len(found)}f", *found))
        whole = torch.int32 if self.asked.type == "float32" else torch.int16
        for weight in self.weights:  # a sum of whole numbers does not depend on its order
            digest.update(str(int(weight.detach().view(whole).sum(dtype=torch.int64))).encode())
        return found, digest.hexdigest()[:16]


def bits(loss: float) -> str:
    """Return the bits of a loss."""
    return struct.pack(">f", loss).hex()


def configuration(torch: ModuleType, asked: argparse.Namespace, gpu: int) -> Dict[str, object]:  # noqa: UP006
    """Return everything that the losses depend on; only results of equal ones are compared."""
    with open(os.path.abspath(__file__), "rb") as file:
        program = hashlib.sha256(file.read()).hexdigest()[:12]
    found = {"program": program, "torch": torch.__version__, "cuda": torch.version.cuda, "workspace": WORKSPACE}
    found.update({name: getattr(asked, name) for name in ("seed", "steps", "size", "layers", "type")})
    if asked.device == "cpu":
        return {**found, "gpu": "cpu", "threads": torch.get_num_threads()}
    about = torch.cuda.get_device_properties(gpu)
    try:
        with open("/proc/driver/nvidia/version") as text:
            driver = next((word for word in text.readline().split() if word[:3].isdecimal()), "")
    except OSError:
        driver = ""
    found.update(gpu=about.name, capability=f"{about.major}.{about.minor}", driver=driver)
    return {**found, "processors": about.multi_processor_count, "cudnn": torch.backends.cudnn.version()}


def started(asked: argparse.Namespace) -> Tuple[ModuleType, str, int]:  # noqa: UP006
    """Return PyTorch and the device of this process; a process that cannot burn ends with the reason."""
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = WORKSPACE
    gpu = int(os.environ.get("LOCAL_RANK", "0"))
    try:
        torch = importlib.import_module("torch")
    except ImportError as fault:
        refuse(str(fault))
    if asked.device == "cpu":
        torch.set_num_threads(1)
        return torch, "cpu", gpu
    if not torch.cuda.is_available():
        refuse("torch sees no GPU: is its build for CUDA, and the driver of the guest loaded?")
    if gpu >= torch.cuda.device_count():
        refuse(f"there is no GPU {gpu}: torch sees {torch.cuda.device_count()}")
    torch.cuda.set_device(gpu)
    return torch, f"cuda:{gpu}", gpu


def main() -> None:
    """Burn until the time is over."""
    asked = options()
    torch, device, gpu = started(asked)
    signal.alarm(int(asked.seconds) + LATE)  # a GPU that hangs does not keep this process
    about = configuration(torch, asked, gpu)
    say({"configuration": about})
    program = BurnProgram(torch, asked, device)
    program.cycle()  # what is compiled and chosen at first use is not measured
    began = reported = time.monotonic()
    expected: List[float] = []  # noqa: UP006
    digests: Dict[str, int] = {}  # noqa: UP006
    seen: Dict[str, Any] = {"cycles": 0, "steps": 0, "finite": True, "pace": [], "digests": digests}  # noqa: UP006
    window, steps = began, 0
    while True:
        losses, digest = program.cycle()
        now = time.monotonic()
        seen["cycles"] += 1
        seen["steps"] += asked.steps
        seen["finite"] = seen["finite"] and all(map(math.isfinite, losses))
        if not expected:
            expected, seen["first"] = losses, digest
        if digest in digests or len(digests) < MOST_DIGESTS:
            digests[digest] = digests.get(digest, 0) + 1
        if digest != seen["first"] and "differs" not in seen:
            pairs = enumerate(zip(expected, losses))  # noqa: B905 - of Python 3.10
            at = next((n for n, (a, b) in pairs if bits(a) != bits(b)), asked.steps - 1)
            seen["differs"] = {"cycle": seen["cycles"], "step": at + 1}
            seen["differs"].update(expected=bits(expected[at]), found=bits(losses[at]))
        is_last = now - began >= asked.seconds
        if is_last or now - window >= WINDOW:
            seen["pace"].append(round((seen["steps"] - steps) / (now - window), 2))
            window, steps = now, seen["steps"]
        if is_last or now - reported >= asked.every:
            say({**seen, "configuration": about, "at": round(now - began, 1), "end": is_last})
            reported = now
        if is_last:
            return


if __name__ == "__main__":
    main()
