"""Logs of Megatron, scaling over VMs, and the history of results."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vsphere_ai.app.training.benchmarks.parse import throughput_of
from vsphere_ai.benchmarks.baseline_file import baseline_text
from vsphere_ai.benchmarks.history import trends
from vsphere_ai.benchmarks.programs import megatron_baseline
from vsphere_ai.benchmarks.programs.megatron import (
    Iteration,
    megatron_checks,
    megatron_gate,
    parse_megatron,
    throughput,
)
from vsphere_ai.benchmarks.programs.megatron_baseline import ExpectedThroughput
from vsphere_ai.benchmarks.programs.megatron_command import MegatronTest
from vsphere_ai.benchmarks.programs.scaling import counts, falls, scaling, scaling_checks
from vsphere_ai.documents.benchmark_history import BenchmarkResult
from vsphere_ai.errors import InputError, UsageError

SAMPLES = Path(__file__).parent / "samples"


def log(name):
    return (SAMPLES / f"megatron-{name}.txt").read_text("utf-8").splitlines()


def test_lines_with_the_throughput():
    found = parse_megatron(log("mixtral-16h100"))
    assert [(i.number, i.of, i.time, i.tflops, i.batch) for i in found] == [
        (71, 100, 5361.6, 243.6, 128),
        (72, 100, 5470.7, 238.7, 128),
        (73, 100, 5829.9, 224.0, 128),
    ]
    assert found[0].loss == pytest.approx(1.818812)
    total = throughput(found, warmup=1)
    assert (total.iterations, total.tflops) == (2, pytest.approx(231.35))
    assert total.samples == pytest.approx(128 / 5.6503, rel=1e-4)


def test_lines_without_it():
    found = parse_megatron(log("without-throughput"))
    assert (found[0].number, found[0].time, found[0].tflops) == (122, 86545.2, None)
    total = throughput(found, warmup=0)
    assert (total.iterations, total.tflops, total.samples) == (4, None, pytest.approx(1024 / 88.4734, rel=1e-4))
    assert throughput(found, warmup=4) is None


@given(st.lists(st.text(max_size=100), max_size=10), st.integers(0, 400))
def test_no_log_stops_the_reader(lines, cut):
    whole = log("mixtral-16h100")[0]
    parse_megatron([*lines, *(f"{whole[:cut]}{line}{whole[cut:]}" for line in lines)])


def test_scaling_against_linear():
    scales = scaling({1: 100.0, 2: 196.0, 4: 380.0, 8: 560.0})
    assert [round(s.efficiency, 3) for s in scales] == [1.0, 0.98, 0.95, 0.7]
    assert [c.rule for c in scaling_checks(scales)] == ["scale.poor"]
    assert [c.rule for c in scaling_checks(scaling({2: 196.0, 4: 340.0}))] == ["scale.drop"]
    assert not list(scaling_checks(scaling({1: 100.0, 2: 199.0, 4: 390.0})))
    assert scaling({}) == ()
    with pytest.raises(ValueError, match="above 0"):
        scaling({1: 0.0})


@pytest.mark.parametrize(("most", "found"), [(1, (1,)), (2, (1, 2)), (6, (1, 2, 4, 6)), (8, (1, 2, 4, 8))])
def test_sizes_of_a_scaling_run(most, found):
    assert counts(most) == found


def results(values, **more):
    given = {"set": "train", "benchmark": "nccl", "operation": "all_reduce", "ranks": 16, "size": 1 << 30} | more
    return [BenchmarkResult(at=1000.0 + at, value=value, **given) for at, value in enumerate(values)]


def test_a_result_is_worse_where_the_spread_does_not_explain_it():
    rng = random.Random(2)
    steady = [rng.gauss(190, 2) for _ in range(20)]
    for last, is_worse, is_significant in ((188, False, False), (170, True, True), (210, False, True)):
        (trend,) = trends(results([*steady, last]))
        assert (trend.is_worse, trend.is_significant) == (is_worse, is_significant)
    (first,) = trends(results([190.0]))
    assert (first.count, first.norm, first.is_significant) == (1, None, False)


def test_a_slow_decline_has_a_slope():
    (trend,) = trends(results([200.0 - at for at in range(20)]))
    assert trend.slope == pytest.approx(-1 / 190.5, rel=0.01)
    (flat,) = trends(results([190.0] * 5))
    assert flat.slope == 0


def test_other_measurements_are_not_compared():
    mixed = [*results([190.0, 191.0]), *results([90.0], size=1 << 20), *results([80.0], set="other")]
    assert sorted((t.newest.set, t.newest.size, t.count) for t in trends(mixed)) == [
        ("other", 1 << 30, 1),
        ("train", 1 << 20, 1),
        ("train", 1 << 30, 2),
    ]


def iteration(number=20, **more):
    return Iteration(number, 20, 200.0, 137.0, 256, 5.0, **more)


@pytest.mark.parametrize(
    ("found", "rules"),
    [
        ([], ["megatron.not-measured"]),
        ([iteration(n) for n in range(1, 21)], []),
        ([iteration(n) for n in range(1, 20)], ["megatron.not-measured"]),
        ([iteration(), replace(iteration(), loss=math.nan)], ["megatron.loss"]),
        ([replace(iteration(), not_numbers=1)], ["megatron.loss"]),
        ([replace(iteration(), loss=None)], ["megatron.no-loss"]),
        ([replace(iteration(), skipped=2)], ["megatron.skipped"]),
        ([replace(iteration(), time=t) for t in (100, 200, 300)], ["megatron.unsteady"]),
        ([replace(iteration(), tflops=None)], ["megatron.no-throughput"]),
    ],
)
def test_what_is_wrong_with_a_run(found, rules):
    assert [c.rule for c in megatron_checks(found, 20, 0)] == rules


def test_a_loss_that_is_logged_as_no_number_is_read():
    line = " iteration 3/ 20 | elapsed time per iteration (ms): 200.0 | lm loss: nan | number of nan iterations: 1 |"
    (found,) = parse_megatron([line])
    assert math.isnan(found.loss)
    assert found.not_numbers == 1


def test_a_baseline_of_megatron_is_written_read_and_gates(tmp_path):
    made = [ExpectedThroughput(model="sanity", tflops=137.5, gpus=4), ExpectedThroughput(model="7b", tflops=300.0)]
    (tmp_path / "b.yml").write_text(baseline_text(megatron=made), "utf-8")
    assert throughput_of(tmp_path / "b.yml") == tuple(made)
    assert megatron_baseline.expected_for(made, "7b", 16) == made[1]
    assert megatron_baseline.expected_for(made, "sanity", 16) is None
    assert megatron_gate(130.0, made[0], 0.1) is None
    assert megatron_gate(120.0, made[0], 0.1).rule == "megatron.below-baseline"
    assert megatron_gate(None, made[0], 0.1).verdict == "unknown"


@pytest.mark.parametrize(
    "text",
    [
        "megatron: [{model: a, tflops: 1}]",
        "baseline: 1\nnccl: []",
        "baseline: 1\nmegatron: [{model: a, tflops: 0}]",
        "baseline: 1\nmegatron: [{model: a, tflops: 1, gpu: 2}]",
        "baseline: 1\nmegatron: [{tflops: 1}]",
        "baseline: 1\nmegatron: [{model: a, tflops: 1, gpus: true}]",
        "[",
    ],
)
def test_a_wrong_baseline_is_refused_with_its_place(text, tmp_path):
    (tmp_path / "b.yml").write_text(text, "utf-8")
    with pytest.raises(InputError) as refused:
        throughput_of(tmp_path / "b.yml")
    assert all(each.mark.line for each in refused.value.diagnostics)


@pytest.mark.parametrize(
    ("more", "gpus"),
    [
        ({"model": "70b"}, 1),
        ({"iterations": 5}, 1),
        ({"samples": 7}, 1),
        ({"folder": "megatron"}, 1),
        ({"more": ("--train-iters=9",)}, 1),
        ({"tensor": 4}, 6),
    ],
)
def test_what_megatron_cannot_take_is_refused(more, gpus):
    with pytest.raises(UsageError):
        MegatronTest(**more).arguments(gpus)


def test_the_global_batch_grows_with_the_gpus_and_fits_the_micro_batch():
    for gpus, tensor in ((1, 1), (6, 1), (16, 8)):
        words = MegatronTest(tensor=tensor).arguments(gpus)
        given = dict(pairwise(words))
        batch, micro = int(given["--global-batch-size"]), int(given["--micro-batch-size"])
        assert batch == 64 * gpus
        assert batch % (micro * gpus // tensor) == 0
        assert {"--mock-data", "--log-throughput", "--bf16"} <= set(words)


def test_the_step_at_which_efficiency_falls_names_the_vms_that_came_with_it():
    vms = [f"trn-{n}" for n in range(8)]
    step = falls(scaling({1: 100.0, 2: 196.0, 4: 380.0, 8: 560.0}), vms)
    assert (step.before.vms, step.after.vms, step.added) == (4, 8, ("trn-4", "trn-5", "trn-6", "trn-7"))
    assert step.lost == pytest.approx(0.25)
    assert falls(scaling({1: 100.0, 2: 196.0}), vms) is None
    assert falls(scaling({2: 10.0}), vms) is None
    assert counts(6, least=2) == (2, 4, 6)
