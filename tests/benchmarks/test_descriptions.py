"""Descriptions of benchmarks: which VMs they take, what guests need, and which figures the history of a set keeps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.raising import refused

from vsphere_ai.benchmarks.benchmark import Measured
from vsphere_ai.benchmarks.checks import of_run
from vsphere_ai.benchmarks.history import trends
from vsphere_ai.benchmarks.launched import Carried, left_of, why_not_well
from vsphere_ai.benchmarks.nccl.nccl_benchmark import NcclBenchmark, NcclOptions, NcclResult
from vsphere_ai.benchmarks.nccl.nccl_text import parse_text
from vsphere_ai.benchmarks.programs.burn import Burned, BurnReport, GpuVerdict
from vsphere_ai.benchmarks.programs.burn_benchmark import (
    BurnBenchmark,
    BurnOptions,
    BurnSamples,
    burn_result,
    burned_gpus,
)
from vsphere_ai.benchmarks.programs.megatron import Throughput
from vsphere_ai.benchmarks.programs.megatron_baseline import ExpectedThroughput
from vsphere_ai.benchmarks.programs.megatron_benchmark import MegatronBenchmark, MegatronOptions
from vsphere_ai.benchmarks.programs.megatron_command import MegatronTest
from vsphere_ai.benchmarks.programs.scale_benchmark import ScaleBenchmark, ScaleOptions, missing_size
from vsphere_ai.benchmarks.programs.training_results import BurnResult, MegatronResult, ScaleResult
from vsphere_ai.benchmarks.rails import RailBenchmark, RdmaResult, rail_names
from vsphere_ai.benchmarks.results import ParsedRun, ParseResult
from vsphere_ai.benchmarks.slow_part.layers import NIC
from vsphere_ai.benchmarks.slow_part.search import SearchOutcome
from vsphere_ai.benchmarks.slow_part.trials import Trial
from vsphere_ai.documents.benchmark_history import BenchmarkResult
from vsphere_ai.errors import Unreachable, UsageError
from vsphere_ai.model.finding import worst
from vsphere_ai.model.nodes import Node, NodeGpu, Rail
from vsphere_ai.training.run import LaunchResult, NodeRun

RAIL = Rail("ens1", number=0, rdma_device="mlx5_0", speed=100.0)
NODES = tuple(Node(f"trn-{n}", f"10.0.0.{n}", gpus=(NodeGpu(0), NodeGpu(1)), rails=(RAIL,)) for n in range(4))
NO_GPU = replace(NODES[0], gpus=())
SAMPLE = Path(__file__).parent / "samples" / "nccl-allreduce-2n16g-a100-roce-v2.17.9.txt"
RUN = parse_text(SAMPLE.read_text("utf-8").splitlines())[0]
TREND = trends([BenchmarkResult(at=1.0, set="train", benchmark="x", operation="y", ranks=1, size=1, value=1.0)])[0]


# -- nccl-tests


def nccl(**options):
    return NcclBenchmark(options=NcclOptions(**options))


def test_the_run_of_all_vms_is_kept_with_its_ranks():
    (figure,) = nccl().measured(NcclResult(NODES, last=RUN))
    assert figure == Measured("nccl", "all_reduce", 8, RUN.largest, RUN.peak)


def test_the_median_of_pairs_is_kept_where_every_pair_was_measured_now():
    pairs = {("trn-0", "trn-1"): 10.0, ("trn-0", "trn-2"): 30.0, ("trn-1", "trn-2"): 11.0}
    result = NcclResult(NODES, pairs=pairs, last=RUN)
    (figure,) = nccl(pairwise=True).measured(result)
    assert figure == Measured("nccl", "all_reduce, median of pairs", 4, RUN.largest, 11.0)
    assert not [*nccl(pairwise=True, known={("trn-0", "trn-1"): 10.0}).measured(result)]
    assert not [*nccl(pairwise=True, pairs=(("trn-0", "trn-1"),)).measured(result)]
    assert not [*nccl(pairwise=True).measured(replace(result, pairs={**pairs, ("trn-0", "trn-3"): None}))]


@pytest.mark.parametrize("options", [{"bisect": True}, {"layers": True}])
def test_a_search_is_not_kept(options):
    assert not [*nccl(**options).measured(NcclResult(NODES, last=RUN))]


def test_nothing_is_kept_of_a_run_that_brought_nothing():
    assert not [*nccl().measured(NcclResult(NODES))]
    assert not [*nccl().measured(NcclResult(NODES, last=replace(RUN, rows=[])))]


def test_the_trend_is_that_of_the_run_of_all_vms():
    assert nccl().with_trend(NcclResult(NODES), TREND).trend == TREND
    assert nccl(pairwise=True).with_trend(NcclResult(NODES), TREND).trend is None


def test_guests_are_not_asked_without_a_preflight():
    assert nccl().requirements(NODES) is not None
    without = [nccl(preflight=False), BurnBenchmark(BurnOptions(preflight=False))]
    without += [
        ScaleBenchmark(ScaleOptions(preflight=False)),
        MegatronBenchmark(options=MegatronOptions(preflight=False)),
    ]
    assert [each.requirements(NODES) for each in without] == [None] * 4


# -- rails


def test_rails_are_measured_between_two_vms_at_least():
    about = RailBenchmark(1 << 20)
    about.check_nodes(NODES)
    for nodes in (NODES[:1], tuple(replace(n, rails=(Rail("ens1"),)) for n in NODES)):
        with pytest.raises(UsageError):
            about.check_nodes(nodes)
    assert not about.requirements(NODES).gpus


def test_the_slowest_vm_of_a_rail_is_kept_and_a_slow_rail_names_its_uplink():
    about = RailBenchmark(1 << 20)
    values = {"trn-0": 92.0, "trn-1": 93.0, "trn-2": 40.0, "trn-3": 94.0}
    result = about.result(NODES, {"rail 0": values})
    assert rail_names(NODES) == ["rail 0"]
    assert [*about.measured(result)] == [Measured("rdma", "rail 0, slowest VM", 4, 1 << 20, 40.0, "Gb/s")]
    assert [(rate.vm, check.verdict) for rate, check, _ in result.rails if check] == [("trn-2", "fail")]
    assert [each.vm for each in result.found] == ["trn-2"]
    assert not [*about.measured(about.result(NODES, {"rail 0": {"trn-0": 92.0}}))]
    assert not [*RailBenchmark(1, known={("trn-0", "rail 0"): 92.0}).measured(result)]


# -- programs


def test_programs_need_a_gpu_on_every_vm():
    for about in (BurnBenchmark(BurnOptions()), MegatronBenchmark(), ScaleBenchmark(ScaleOptions("megatron"))):
        about.check_nodes(NODES)
        with refused(UsageError, "usage.gpus", "trn-0"):
            about.check_nodes((NO_GPU, *NODES[1:]))
    ScaleBenchmark().check_nodes((NO_GPU,))


def ended(node, **more):
    return LaunchResult("burn-1", (node,), {node.vm: NodeRun(state="ended", outcome="done", **more)})


def report(speed):
    return BurnReport(at=10.0, steps=int(10 * speed))


def test_the_median_pace_of_a_burn_that_passed_is_kept():
    about = BurnBenchmark(BurnOptions())
    gpus = [Burned("trn-0", n, "esx", "", report(speed), (), "host") for n, speed in enumerate((1.0, 3.0, 2.0))]
    passed = BurnResult(NODES[:1], tuple(map(GpuVerdict, gpus)))
    assert [*about.measured(passed)] == [Measured("burn", "4 x 4096 bfloat16", 3, 0, 2.0, "steps/s")]
    failed = replace(passed, of_vms={"trn-0": left_of(ended(NODES[0], left=(7,)))})
    assert worst(failed.findings) == "fail"
    assert not [*about.measured(failed)]


def test_each_gpu_of_a_burn_has_its_own_log_and_a_vm_what_is_left_on_it():
    nodes = NODES[:2]
    logs = {"trn-0": {"rank-1.log": 'burn: {"at": 10, "steps": 20}'}}
    carried = [Carried(ended(nodes[0]), logs), Carried(ended(nodes[1], left=(7,)), {}, "it did not end within 9 s")]
    burned = burned_gpus(nodes, carried, BurnSamples({}, {"trn-0": "no SSH"}, lambda node: "host"))
    assert [(b.vm, b.index, b.report is not None, b.why) for b in burned] == [
        ("trn-0", 0, False, "no SSH"),
        ("trn-0", 1, True, "no SSH"),
        ("trn-1", 0, False, ""),
        ("trn-1", 1, False, ""),
    ]
    result = burn_result(nodes, carried, burned, {}, 9.0)
    assert [(c.rule, c.verdict) for c in result.of_vms["trn-1"]] == [
        ("bench.left", "fail"),
        ("burn.run-failed", "unknown"),
    ]
    assert "trn-0" not in result.of_vms


def test_each_vm_of_a_burn_is_launched_alone_with_a_process_per_gpu():
    (node,) = BurnBenchmark(BurnOptions(minutes=2)).launch(NODES[0], "burn-1").nodes
    assert len(node.processes) == 2
    assert "--seconds 120 --every 2" in " ".join(node.processes[0].argv)
    assert "burn.py" in [file.name for file in node.files]


def test_the_figure_of_a_training_is_kept_where_it_passed():
    about, reached = MegatronBenchmark(), Throughput(15, 100.0, 0.01, 150.0, 64.0)
    result = MegatronResult(NODES, MegatronTest(), 8, (), reached)
    assert [*about.measured(result)] == [Measured("megatron", MegatronTest().name, 8, 0, 150.0, "TFLOP/s")]
    (tokens,) = about.measured(replace(result, reached=replace(reached, tflops=None)))
    assert (tokens.unit, tokens.value) == ("tokens/s", result.tokens)
    assert not [*about.measured(replace(result, reached=None))]
    assert about.with_trend(result, TREND).trend == TREND


def test_a_training_that_failed_shows_the_end_of_the_log_of_the_vm_that_is_named():
    about = MegatronBenchmark(options=MegatronOptions(baseline=Path("base.yml")), expected=())
    run = LaunchResult("megatron-1", NODES, {node.vm: NodeRun(state="ended", outcome="failed") for node in NODES})
    carried = Carried(
        run, {"trn-0": {"a.log": "fine"}, "trn-2": {"b.log": "first\n\nOut of memory"}}, "rank 5 on trn-2"
    )
    result = about.result(NODES, carried)
    assert result.tail == ("trn-2: first", "trn-2: Out of memory")
    assert [c.rule for c in result.checks] == ["megatron.run-failed", "megatron.not-measured"]
    assert worst(about.result(NODES, replace(carried, why="")).findings) == "unknown"
    own = replace(about, expected=(ExpectedThroughput(model=MegatronTest().name, tflops=150.0, gpus=8),))
    assert own.result(NODES, carried).expected == ExpectedThroughput(model=MegatronTest().name, tflops=150.0, gpus=8)


def test_scaling_compares_two_numbers_of_vms_at_least():
    assert ScaleBenchmark().sizes(NODES) == (2, 4)
    assert ScaleBenchmark(ScaleOptions("megatron")).sizes(NODES[:3]) == (1, 2, 3)
    ScaleBenchmark().check_count(NODES)
    for options, nodes in ((ScaleOptions(), NODES[:2]), (ScaleOptions("megatron"), NODES[:1])):
        with pytest.raises(UsageError, match="two numbers of VMs"):
            ScaleBenchmark(options).check_count(nodes)


def test_the_efficiency_on_all_vms_is_kept():
    about = ScaleBenchmark()
    result = about.result(NODES, {2: 100.0, 4: 180.0}, ())
    assert [*about.measured(result)] == [Measured("scale", "nccl", 8, 0, pytest.approx(0.9), "of linear")]
    part = about.result(NODES, {2: 100.0}, (missing_size(4, "no answer"),))
    assert not [*about.measured(part)]
    assert "4 VMs: no answer" in [c.message for c in part.checks]


# -- runs that were launched


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (NodeRun(state="ended", outcome="done"), ""),
        (
            NodeRun(state="ended", outcome="failed", reason="rank 3 on node 1 ended with 1"),
            "rank 3 on trn-1 ended with 1",
        ),
        (NodeRun(state="ended", outcome="failed"), "the run is failed"),
        (Unreachable("trn-0: no route", ""), "trn-0: no route"),
    ],
)
def test_why_a_run_did_not_end_well(head, words):
    found = {node.vm: NodeRun(state="ended", outcome="done") for node in NODES} | {"trn-0": head}
    assert why_not_well(LaunchResult("x", NODES, found)) == words


# -- findings


def test_a_search_without_any_measurement_knows_nothing():
    failure = of_run("nccl.run-failed", "unknown", "mpirun ended with 1")
    nothing = NcclResult(NODES, outcome=SearchOutcome(all_slow=True), failures=(failure,))
    assert nothing.findings == (failure,)
    assert [f.rule for f in NcclResult(NODES, outcome=SearchOutcome(all_slow=True)).findings] == ["nccl.not-measured"]


def test_a_trial_of_a_search_that_failed_is_a_warning_beside_what_was_found():
    failure = of_run("nccl.run-failed", "unknown", "it did not end within 600 s")
    sound = SearchOutcome(reference=10.0)
    assert [f.verdict for f in NcclResult(NODES, outcome=sound, failures=(failure,)).findings] == ["warn"]
    assert [(f.rule, f.verdict) for f in NcclResult(NODES, outcome=sound).findings] == [("bench.passed", "pass")]
    open_ = replace(sound, unresolved=("trn-0",), transient=2)
    assert [f.rule for f in NcclResult(NODES, outcome=open_).findings] == ["nccl.unresolved", "nccl.transient"]


def test_pairs_without_a_value_are_not_known_also_where_nobody_says_why():
    pairs = {("trn-0", "trn-1"): 10.0, ("trn-0", "trn-2"): None}
    (missing,) = NcclResult(NODES, pairs=pairs).findings
    assert (missing.verdict, missing.message) == ("unknown", "1 of 2 were not measured")


def test_ways_of_one_pair_have_nothing_to_be_compared_with():
    one = {Trial(("trn-0", "trn-1")): 10.0, Trial(("trn-0", "trn-1"), layer=NIC): 9.0}
    assert [f.rule for f in NcclResult(NODES, layers=one).findings] == ["nccl.one-pair", "bench.passed"]
    two = {**one, Trial(("trn-2", "trn-3")): 10.0}
    slow = NcclResult(NODES, layers=two, slow={Trial(("trn-0", "trn-1"), layer=NIC): 0.5}).findings
    assert [(f.rule, f.verdict) for f in slow] == [("nccl.slow-way", "fail")]
    assert "GPUDirect" in slow[0].remedy


def test_a_file_with_several_runs_has_findings_of_each():
    runs = tuple(ParsedRun("out.txt", RUN, ()) for _ in range(2))
    found = ParseResult((*runs, ParsedRun("other.txt", RUN, ()))).findings
    assert [(f.target.name, f.target.part, f.verdict) for f in found] == [
        ("out.txt", "run 1", "pass"),
        ("out.txt", "run 2", "pass"),
        ("other.txt", "", "pass"),
    ]


@pytest.mark.parametrize(
    ("result", "rule"),
    [
        (RdmaResult(()), "rdma.not-measured"),
        (MegatronResult(NODES, MegatronTest(), 4), "megatron.not-measured"),
        (ScaleResult(NODES, "nccl", "GB/s", ()), "scale.not-measured"),
        (BurnResult(NODES, ()), "burn.not-measured"),
    ],
)
def test_a_benchmark_that_measured_nothing_knows_nothing(result, rule):
    assert (result.findings[0].rule, worst(result.findings)) == (rule, "unknown")
