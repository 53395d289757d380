"""Baseline of Megatron runs: TFLOP/s per GPU that a model is known to reach, as a YAML file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import yaml

from vsphere_ai.benchmarks.baseline import FORMAT
from vsphere_ai.errors import Diagnostic, InputError, Mark
from vsphere_ai.model.bounded import yaml_value

_KNOWN = {"model": str, "tflops": float, "gpus": int}


@dataclass(frozen=True)
class ExpectedThroughput:
    """What a model is expected to reach: TFLOP/s per GPU, on so many GPUs (None: any number)."""

    model: str
    tflops: float
    gpus: int | None = None


def expected_for(every: Sequence[ExpectedThroughput], model: str, gpus: int) -> ExpectedThroughput | None:
    """Return what is expected of a model on so many GPUs: the entry of that number, else one of any."""
    own = [each for each in every if each.model == model]
    return next((e for n in (gpus, None) for e in own if e.gpus == n), None)


def text_of(expected: Sequence[ExpectedThroughput]) -> str:
    """Return a baseline as the text of a file."""
    entries = [{k: v for k, v in vars(each).items() if v is not None} for each in expected]
    return "# TFLOP/s per GPU\n" + yaml.safe_dump({"baseline": FORMAT, "megatron": entries}, sort_keys=False)


def read(text: str, name: str) -> tuple[ExpectedThroughput, ...]:
    """Return the entries of a file; `InputError` where it has none for Megatron."""
    try:
        document = yaml_value(text)
    except ValueError as error:
        raise _wrong(name, f"not a baseline: {error}") from None
    if not isinstance(document, dict) or document.get("baseline") != FORMAT:
        raise _wrong(name, f"not a baseline: it has to begin with 'baseline: {FORMAT}'")
    entries = document.get("megatron")
    if not isinstance(entries, list) or not entries:
        raise _wrong(name, "there are no figures under 'megatron'")
    return tuple(_expected(entry, (name, at)) for at, entry in enumerate(entries))


def _expected(entry: object, where: tuple[str, int]) -> ExpectedThroughput:
    if not isinstance(entry, dict):
        raise _wrong(where, "not a mapping")
    if wrong := [key for key in entry if key not in _KNOWN]:
        raise _wrong(where, f"unknown field '{wrong[0]}'", f"there are: {', '.join(_KNOWN)}")
    model, tflops, gpus = (entry.get(key) for key in _KNOWN)
    if not isinstance(model, str):
        raise _wrong(where, "'model' is missing")
    if isinstance(tflops, bool) or not isinstance(tflops, int | float) or not 0 < tflops < 1e6:
        raise _wrong(where, f"'tflops' is not a number above 0: {tflops}")
    if gpus is not None and (isinstance(gpus, bool) or not isinstance(gpus, int) or gpus < 1):
        raise _wrong(where, f"'gpus' is not a number from 1: {gpus}")
    return ExpectedThroughput(model, float(tflops), gpus)


def _wrong(where: str | tuple[str, int], message: str, help: str = "") -> InputError:
    name, entry = (where, "") if isinstance(where, str) else (where[0], f"megatron[{where[1]}]: ")
    return InputError([Diagnostic(Mark(name), f"{entry}{message}", help)])
