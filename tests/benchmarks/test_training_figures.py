"""Logs of Megatron, scaling over VMs, and the history of results."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vsphere_ai.benchmarks.history import Result, line_of, read_history, trends
from vsphere_ai.benchmarks.megatron import parse_megatron, throughput
from vsphere_ai.benchmarks.scaling import counts, scaling, scaling_checks

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
    return [Result(at=1000.0 + at, value=value, **given) for at, value in enumerate(values)]


def test_results_are_read_back_and_broken_lines_skipped():
    made = results([190.0, 191.0])
    lines = [*map(line_of, made), "", "{", "[]", '{"at": 1}', line_of(made[0])[:40], "[" * 5000, "x\x00"]
    assert read_history(lines) == tuple(made)
    assert read_history([line_of(made[0]).replace("190.0", '"fast"'), line_of(made[0]).replace("190.0", "-1")]) == ()


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
