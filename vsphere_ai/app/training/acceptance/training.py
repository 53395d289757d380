"""Gate of an acceptance that trains: Megatron-LM with mock data on all VMs of the set."""

from __future__ import annotations

from vsphere_ai.app.events import Emit
from vsphere_ai.app.training.acceptance.values import WORSE, Acceptance
from vsphere_ai.app.training.benchmarks.megatron import MegatronOptions, MegatronRequest, MegatronTest, bench_megatron
from vsphere_ai.benchmarks.checks import is_passed
from vsphere_ai.health.certificate import Gate, Measurement
from vsphere_ai.model.finding import Verdict

TRAINING = "training of all VMs"


def megatron(found: Acceptance, emit: Emit) -> Gate:
    """Train on all nodes; without the TFLOP/s of a run, or below the baseline, the gate fails.

    Without a baseline there is nothing to compare with, which is a warning. What holds is not measured again.
    """
    asked = found.request
    if TRAINING in found.passed("megatron"):
        return Gate("megatron", (), (TRAINING,))
    options = MegatronOptions(baseline=asked.baseline)
    test = MegatronTest(folder=asked.megatron_folder)
    result = bench_megatron(MegatronRequest(found.asked, test, options), emit)
    parts = ("input:baseline",)
    bad = [c for c in result.checks if c.verdict in WORSE]
    measured = [Measurement(c.rule, c.verdict, c.message, parts, test=TRAINING) for c in bad]
    tflops = result.reached.tflops if result.reached is not None else None
    if tflops is not None and is_passed(result.findings):
        limit = result.expected.tflops if result.expected is not None else None
        status: Verdict = "pass" if limit is not None else "warn"
        more = "" if limit is not None else "; no baseline says what it has to reach"
        text = f"{test.name}: {tflops:.1f} TFLOP/s per GPU on {result.gpus} GPUs{more}"
        measured.append(Measurement(TRAINING, status, text, parts, tflops, limit, "TFLOP/s"))
    return Gate("megatron", tuple(measured), (TRAINING,))
