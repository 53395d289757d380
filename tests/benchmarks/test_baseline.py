"""Baselines: what is learned of a fleet, files of it, results beside it; published figures."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.nccl_tables import Job, Layout, text_of

from vsphere_ai.app.training.benchmarks.parse import baseline_of, load_baseline
from vsphere_ai.benchmarks.baseline import ExpectedBandwidth, compare, gate, learn
from vsphere_ai.benchmarks.baseline_file import baseline_text
from vsphere_ai.benchmarks.checks import is_passed, of_run
from vsphere_ai.benchmarks.nccl.collectives import COLLECTIVES
from vsphere_ai.benchmarks.nccl.nccl_text import parse_text
from vsphere_ai.benchmarks.published import alike, figures
from vsphere_ai.benchmarks.statistics import Sensitivity, norm, outliers
from vsphere_ai.errors import InputError
from vsphere_ai.model.finding import worst


def runs(*speeds, ranks=16, operation="all_reduce", size=1 << 30):
    """A run per bus bandwidth at the largest size, and a slow small size beside it."""
    factor = 1.875 if operation == "all_reduce" else 0.9375
    times = [{1 << 20: (90.0, 91.0), size: (size / 1e3 * factor / s,) * 2} for s in speeds]
    return [parse_text(text_of(Job(operation, ranks, t, Layout())).splitlines())[0] for t in times]


def rule(comparisons):
    return [(check := gate(c)) and (check.rule, check.verdict) for c, _ in comparisons]


def test_what_is_learned_has_no_outliers_and_keeps_the_spread():
    learned = learn(runs(190, 192, 188, 140, 191, 189))
    assert [(e.operation, e.ranks, e.size, e.runs) for e in learned] == [("all_reduce", 16, 1 << 30, 5)]
    assert learned[0].busbw == pytest.approx(190, rel=1e-3)
    assert learned[0].sigma == pytest.approx(1.414, rel=0.02)
    assert 0.02 < learned[0].visible < 0.05


def test_a_file_is_read_back(tmp_path):
    learned = learn([*runs(190, 192), *runs(160, operation="all_gather")])
    (tmp_path / "b.yml").write_text(baseline_text(learned, about="set train"), "utf-8")
    assert baseline_of(tmp_path / "b.yml") == learned
    assert len(learned) == 2
    assert load_baseline(tmp_path / "b.yml").about == "set train"


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("", 1, 1, "baseline"),
        ("[", 2, 1, ""),
        ("baseline: 2\nnccl: []", 1, 11, "1"),
        ("baseline: 1", 1, 1, "nccl"),
        ("baseline: 1\nnccl: [1]", 2, 8, ""),
        ("baseline: 1\nnccl: [{operation: all_reduce}]", 2, 8, "busbw"),
        ("baseline: 1\nnccl: [{operation: all_reduce, busbw: 0}]", 2, 39, ""),
        ("baseline: 1\nnccl: [{operation: all_reduce, busbw: .nan}]", 2, 39, ""),
        ("baseline: 1\nnccl: [{operation: all_reduce, busbw: fast}]", 2, 39, ""),
        ("baseline: 1\nnccl: [{operation: all_reduce, busbw: 1, ranks: 1.5}]", 2, 49, ""),
        ("baseline: 1\nnccl: [{operation: all_reduce, busbw: 1, colour: red}]", 2, 42, "colour"),
        ("baseline: 1\nncll: [{operation: all_reduce, busbw: 1}]", 2, 1, "ncll"),
    ],
)
def test_what_is_wrong_in_a_file_is_named_with_its_place(text, line, column, words, tmp_path):
    path = tmp_path / "b.yml"
    path.write_text(text, "utf-8")
    with pytest.raises(InputError) as refused:
        baseline_of(path)
    first = refused.value.diagnostics[0]
    assert (first.mark.file, first.mark.line, first.mark.column) == (str(path), line, column)
    assert words in f"{first.message} {first.help}"


def test_a_result_is_judged_at_its_size_and_not_by_the_average():
    expected = [ExpectedBandwidth(operation="all_reduce", busbw=190.0, ranks=16, size=1 << 30)]
    assert rule(compare(runs(188), expected)) == [None]
    assert rule(compare(runs(165), expected)) == [("nccl.below-baseline", "fail")]
    assert rule(compare(runs(480), expected)) == [None]  # above the line rate: reduction in the switch


def test_what_is_not_measured_is_not_passed():
    expected = [ExpectedBandwidth(operation="all_reduce", busbw=190.0, ranks=16, size=1 << 30)]
    missing = ("nccl.not-measured", "unknown")
    assert rule(compare([], expected)) == [missing]
    assert rule(compare(runs(500, operation="all_gather"), expected)) == [missing]
    assert rule(compare(runs(500, ranks=32), expected)) == [missing]
    assert rule(compare(runs(500, size=1 << 28), expected)) == [missing]
    assert rule(compare(parse_text(["# nThread 1 nGpus 1 minBytes 8 maxBytes 8"]), expected)) == [missing]


def test_unknown_ranks_above_a_warning_and_is_no_pass():
    checks = [of_run("a", "info", ""), of_run("b", "warn", ""), of_run("c", "unknown", "")]
    assert worst(checks) == "unknown"
    assert not is_passed(checks)
    assert is_passed(checks[:2])
    assert worst([]) == "pass"


@given(st.lists(st.floats(95, 105), min_size=3, max_size=40), st.lists(st.floats(1, 70), max_size=10))
def test_a_minority_of_bad_values_does_not_move_the_norm(good, bad):
    found = norm([*good, *bad[: (len(good) - 1) // 2]], tolerance=0.15)
    assert min(good) * (1 - 1e-9) <= found.mean <= max(good) * (1 + 1e-9)
    assert norm([]) is None


def is_bad(outlier):
    """Return whether it is far out by both scores."""
    return outlier.modified_z < -3 and (outlier.z is None or outlier.z < -2)


def test_outliers_are_found_by_the_median():
    rng = random.Random(1)
    healthy = {f"vm-{at:02d}": rng.gauss(190, 1.5) for at in range(32)}
    assert [o.name for o in outliers(healthy) if is_bad(o)] == []
    (worst_of, *rest) = outliers(healthy | {"vm-33": 150.0})
    assert (worst_of.name, is_bad(worst_of)) == ("vm-33", True)
    assert not [o for o in rest if is_bad(o)]
    assert outliers(dict.fromkeys("abcdef", 190.0)) == ()
    assert outliers({"a": 190.0, "b": 100.0}) == ()


@pytest.mark.parametrize(
    ("sigma", "needed"), [(0.03, {0.15: 2, 0.10: 4, 0.07: 8, 0.05: 15}), (0.01, {0.15: 1, 0.10: 1, 0.07: 1, 0.05: 2})]
)
def test_runs_that_a_slowdown_needs(sigma, needed):
    found = Sensitivity(sigma, tests=256)
    assert {slowdown: found.needed(slowdown) for slowdown in needed} == needed


def test_the_smallest_visible_slowdown_is_seen():
    rng = random.Random(3)
    see = Sensitivity(0.03, runs=4, tests=20)
    mean = lambda level: sum(rng.gauss(level, 0.03 * level) for _ in range(4)) / 4  # noqa: E731
    slow = [mean(1 - see.smallest) < see.gate for _ in range(2000)]
    healthy = [mean(1) < see.gate for _ in range(2000)]
    assert sum(slow) / 2000 > 0.98
    assert sum(healthy) / 2000 < 0.005


def test_published_figures_have_sources_and_known_operations():
    assert len({f.id for f in figures()}) == len(figures())
    for figure in figures():
        assert figure.operation in COLLECTIVES
        assert "@" in figure.source
        assert figure.busbw > 0
    assert {f.id for f in alike("all_reduce", "NVIDIA A100-SXM4-40GB", 16)} >= {"dgx-a100-2", "oci-a100-2"}
    assert not list(alike("all_reduce", "NVIDIA A100-SXM4-40GB", 24))


def test_a_published_result_is_that_of_its_table():
    samples = Path(__file__).parent / "samples"
    peaks = {
        round(run.peak, 2)
        for path in samples.glob("nccl-*.txt")
        for run in parse_text(path.read_text("utf-8").splitlines())
        if run.peak
    }
    taken = {"dgx-a100-2", "roce-sriov-2", "oci-a100-2", "efa-a100-2", "efa-h100-1", "tcpxo-h100-2", "azure-v100-2"}
    assert {f.busbw for f in figures() if f.id in taken | {"azure-a100-2"}} <= peaks
