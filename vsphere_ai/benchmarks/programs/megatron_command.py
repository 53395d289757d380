"""Arguments of a run of Megatron-LM with mock data: a GPT of a named size, and as many samples per GPU on any set.

Options as in NVIDIA/Megatron-LM, megatron/training/arguments.py; `sanity` is the model with which Azure checks a
cluster (Azure/ai-infrastructure-on-azure, examples/megatron-lm).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from vsphere_ai.errors import UsageError

VOCABULARY = 50_304


@dataclass(frozen=True)
class GptModel:
    """A GPT: layers, hidden size, attention heads, and tokens of a sample."""

    layers: int
    hidden: int
    heads: int
    sequence: int


MODELS: Mapping[str, GptModel] = {
    "sanity": GptModel(12, 512, 8, 1024),
    "1.3b": GptModel(24, 2048, 16, 2048),
    "7b": GptModel(32, 4096, 32, 2048),
}
_OWN = ("--mock-data", "--train-iters", "--log-interval", "--log-throughput", "--global-batch-size")


@dataclass(frozen=True)
class MegatronTest:
    """What is run: `samples` per GPU in each of `iterations`, `micro_batch` of them at a time.

    `tensor` and `pipeline` split the model over GPUs. `warmup` iterations are not measured. `folder` is where
    Megatron-LM is in the guests, `python` their Python with PyTorch; `more` are further arguments for the program.
    `UsageError` for what Megatron cannot take.
    """

    model: str = "sanity"
    iterations: int = 20
    warmup: int = 5
    micro_batch: int = 8
    samples: int = 64
    tensor: int = 1
    pipeline: int = 1
    folder: str = "/opt/Megatron-LM"
    python: str = "python3"
    more: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.model not in MODELS:
            raise UsageError(f"there is no model '{self.model}'", f"there are: {', '.join(MODELS)}")
        if self.iterations <= self.warmup:
            text = f"{self.iterations} iterations with {self.warmup} of warm-up leave nothing to measure"
            raise UsageError(text, "give more --iterations, or a shorter --warmup")
        if self.samples * self.tensor * self.pipeline % self.micro_batch:
            text = f"{self.samples} samples per GPU are no multiple of the micro batch of {self.micro_batch}"
            raise UsageError(text, "give other --samples, or another --micro-batch")
        if not re.fullmatch(r"/[^\0\n]*", self.folder):
            raise UsageError(f"'{self.folder}' is no absolute path", "give the folder of Megatron-LM in the guests")
        own = next((each for each in self.more if each.partition("=")[0] in _OWN), None)
        if own is not None:
            raise UsageError(f"{own} is set by this command", "leave it out")

    @property
    def name(self) -> str:
        """What is measured, as the history and baselines name it."""
        split = f" tp{self.tensor} pp{self.pipeline}" if self.tensor * self.pipeline > 1 else ""
        return f"{self.model}{split}, {self.samples} samples per GPU"

    @property
    def script(self) -> str:
        """Path of the program in the guests."""
        return f"{self.folder.rstrip('/')}/pretrain_gpt.py"

    @property
    def tokens(self) -> int:
        """Tokens of a sample."""
        return MODELS[self.model].sequence

    def arguments(self, gpus: int) -> tuple[str, ...]:
        """Return the arguments of the program on so many GPUs; `UsageError` where they cannot hold the model."""
        if gpus % (self.tensor * self.pipeline):
            text = f"{gpus} GPUs cannot be divided by {self.tensor} x {self.pipeline} (tensor x pipeline parallel)"
            raise UsageError(text, "change --tensor or --pipeline", rule="usage.gpus")
        model = MODELS[self.model]
        values = {
            "num-layers": model.layers,
            "hidden-size": model.hidden,
            "num-attention-heads": model.heads,
            "seq-length": model.sequence,
            "max-position-embeddings": model.sequence,
            "tensor-model-parallel-size": self.tensor,
            "pipeline-model-parallel-size": self.pipeline,
            "micro-batch-size": self.micro_batch,
            "global-batch-size": self.samples * gpus,
            "train-iters": self.iterations,
            "tokenizer-type": "NullTokenizer",
            "vocab-size": VOCABULARY - 1,
            "lr": "1e-4",
            "lr-decay-style": "constant",
            "seed": 1234,
            "log-interval": 1,
            "eval-iters": 0,
            "eval-interval": 1_000_000,
        }
        pairs = (word for name, value in values.items() for word in (f"--{name}", str(value)))
        return (*pairs, "--bf16", "--mock-data", "--log-throughput", *self.more)
