"""`bench nccl` on guests of the lab: what is planted in the farm is measured, and named with its host."""

from __future__ import annotations

import json
from dataclasses import replace
from math import log2

import pytest
from support.guest_farm import guest_farm

from vsphere_ai.app import EstateRequest, NodesRequest
from vsphere_ai.app.training.benchmarks import frame
from vsphere_ai.app.training.benchmarks.nccl import NcclOptions, NcclRequest, NcclTest, bench_nccl
from vsphere_ai.app.training.benchmarks.rdma import RdmaRequest, bench_rdma
from vsphere_ai.benchmarks.checks import is_passed
from vsphere_ai.errors import Refused
from vsphere_ai.model.finding import exit_code, worst

COUNT = 12
FARM = guest_farm(COUNT)
SHORT = NcclTest(least="64M", most="1G", suffix="_mpi")


@pytest.fixture
def bench(make_lab):
    lab = make_lab(FARM)

    def run(*vms, **options):
        estate = EstateRequest(inventory=lab.directory / "connection.yml")
        nodes = NodesRequest(vms or ("trn-*",), estate=estate)
        return bench_nccl(NcclRequest(nodes, SHORT, NcclOptions(timeout=30, **options)))

    run.lab = lab
    return run


def test_all_vms_together_are_measured_and_checked(bench):
    result = bench()
    assert not result.failures
    (parsed,) = result.parsed.runs
    assert parsed.run.declared_ranks == COUNT
    assert result.reference == pytest.approx(100 / 8 * 0.92, rel=0.08)
    assert {c.rule for c in parsed.checks} == {"nccl.rdma", "nccl.no-gpudirect"}
    assert worst(result.findings) == "warn"
    bench.lab.set_defects({"kind": "rail-down", "vm": "*"})
    assert "nccl.socket" in {c.rule for c in bench(preflight=False).parsed.runs[0].checks}


def test_nothing_starts_where_something_stands_against_it(bench):
    bench.lab.set_defects({"kind": "gpu-busy", "vm": "trn-02"}, {"kind": "clock", "vm": "trn-05", "seconds": 60})
    with pytest.raises(Refused) as refused:
        bench()
    assert refused.value.rule == "bench.preflight"
    assert [line.split()[0] for line in str(refused.value).splitlines()] == ["trn-02", "trn-05"]
    assert bench(preflight=False).parsed.runs


def test_a_search_names_the_vm_and_its_host(bench):
    healthy = bench(bisect=True)
    assert (worst(healthy.findings), healthy.found) == ("pass", ())
    bench.lab.set_defects({"kind": "gpu-slow", "host": "esx07*", "factor": 0.75})
    result = bench(bisect=True)
    assert [(f.kind, f.vm, f.host) for f in result.found] == [("vm", "trn-07", "esx07.lab.local")]
    assert [(f.rule, f.verdict, f.target.name) for f in result.findings] == [("bench.slow", "fail", "trn-07")]
    assert result.rounds <= log2(COUNT) + 4


def test_a_search_names_the_uplink_of_a_vm_with_one_rail(bench, cli):
    bench.lab.set_defects({"kind": "rail-slow", "host": "esx03*", "factor": 0.55})
    (found,) = bench("trn-0[123456]", bisect=True).found
    assert (found.kind, found.vm, found.host, found.vmnic) == ("uplink", "trn-03", "esx03.lab.local", "vmnic4")
    given = ("-i", bench.lab.directory / "connection.yml", "--min", "64M", "--max", "256M", "--transports")
    assert cli("bench", "nccl", "trn-0[123456]", *given) == 2
    table = {line.split("  ")[0]: line.split()[2:] for line in cli.out.splitlines() if line.startswith("trn-")}
    assert list(table) == ["trn-01, trn-02", "trn-03, trn-04", "trn-05, trn-06"]
    assert "nccl.slow-way          trn-03 and trn-04, NIC only: 5" in cli.out
    assert "sockets only:" not in cli.out
    assert cli("bench", "nccl", "trn-0[123456]", *given, "-o", "json") == 2
    slow = [each for each in json.loads(cli.out)["layers"] if each["slow"]]
    assert {each["way"] for each in slow} == {"everything", "no NVLink", "NIC only"}


def test_a_search_names_a_link_of_two_hosts(bench):
    bench.lab.set_defects({"kind": "pair-slow", "one": "esx02*", "other": "esx03*", "factor": 0.5})
    result = bench(bisect=True)
    assert [set(f.ends) for f in result.found] == [{"esx02.lab.local", "esx03.lab.local"}]


def test_every_pair_is_measured(bench):
    bench.lab.set_defects({"kind": "rail-slow", "host": "esx03*", "factor": 0.5})
    result = bench("trn-01", "trn-02", "trn-03", "trn-04", pairwise=True)
    assert len(result.pairs) == 6
    assert [(f.kind, f.vm, f.host) for f in result.found] == [("vm", "trn-03", "esx03.lab.local")]
    assert (result.trials, result.rounds) == (6, 3)


def test_a_baseline_is_learned_from_the_set_and_holds_for_it(bench, cli, tmp_path):
    given = ("-i", bench.lab.directory / "connection.yml", "--min", "64M", "--max", "256M")
    file, vms = tmp_path / "baseline.yml", "trn-0[1234567]"
    # a slow VM of seven is an outlier of what is learned
    bench.lab.set_defects({"kind": "gpu-slow", "host": "esx02*", "factor": 0.6})
    assert cli("bench", "nccl", vms, *given, "--pairwise", "--learn", file) == 2
    (line,) = [line for line in cli.out.splitlines() if line.startswith("learned:")]
    assert "all_reduce, 2 ranks: 11." in line
    assert "one run shows a slowdown of" in line
    assert cli("bench", "nccl", vms, *given, "--pairwise", "--learn", file) == 64
    bench.lab.set_defects({"kind": "gpu-slow", "host": "*", "factor": 0.6})
    assert cli("bench", "nccl", vms, *given, "--pairwise", "--baseline", file) == 2
    assert cli("bench", "nccl", vms, *given, "--baseline", file) == 1
    assert "nccl.not-measured" in cli.out
    bench.lab.set_defects()
    assert cli("bench", "nccl", vms, *given, "--pairwise", "--baseline", file) == 0
    # of all VMs together: the rows come as they are measured, and three runs are learned from
    whole = tmp_path / "whole.yml"
    assert cli("bench", "nccl", vms, *given, "--learn", whole) == 0
    assert [line.split()[:2] for line in cli.out.splitlines()[:3]] == [
        ["SIZE", "TIME"], ["64", "MiB"], ["128", "MiB"],
    ]  # fmt: skip
    assert "learned: all_reduce, 7 ranks: " in cli.out
    assert "of 3 runs" in cli.out
    assert cli("bench", "nccl", vms, *given, "--baseline", whole, "-o", "json") == 0
    assert json.loads(cli.out)["verdict"] == "warn"


def test_a_run_that_hangs_or_fails_is_no_pass(bench):
    bench.lab.set_defects({"kind": "hang", "vm": "trn-01", "command": "mpirun"})
    estate = EstateRequest(inventory=bench.lab.directory / "connection.yml")
    request = NcclRequest(NodesRequest(("trn-0[12]",), estate=estate), SHORT, NcclOptions(timeout=1))
    result = bench_nccl(request)
    assert (exit_code(result.findings), [c.rule for c in result.failures]) == (1, ["nccl.run-failed"])
    assert result.left == ()
    bench.lab.set_defects({"kind": "process-left", "vm": "trn-02"})
    result = bench("trn-0[12]")
    assert (exit_code(result.findings), [(c.rule, c.message.split(":")[0]) for c in result.left]) == (
        2,
        [("bench.left", "trn-02")],
    )
    assert is_passed(result.parsed.findings)
    bench.lab.set_defects()
    absent = NcclTest(folder="/opt/none", operation="hypercube")
    result = bench_nccl(NcclRequest(request.nodes, absent, NcclOptions(timeout=10)))
    assert (exit_code(result.findings), result.reference) == (1, None)
    failing = bench_nccl(replace(request, test=absent, options=NcclOptions(timeout=10, bisect=True)))
    assert {f.verdict for f in failing.findings} == {"unknown"}, "what was never measured is not slow"


def test_the_command_prints_a_line_per_trial_and_a_verdict(bench, cli):
    bench.lab.set_defects({"kind": "gpu-slow", "host": "esx09*", "factor": 0.7})
    given = ("-i", bench.lab.directory / "connection.yml", "--min", "64M", "--max", "256M", "--bisect")
    assert cli("bench", "nccl", "trn-*", *given) == 2
    lines = cli.out.splitlines()
    assert any(line.startswith("  fail    bench.slow             trn-09 on esx09.lab.local") for line in lines)
    assert sum(line.startswith("round ") for line in lines) > 8
    assert cli("bench", "nccl", "trn-*", *given, "-o", "json") == 2
    document = json.loads(cli.out)
    assert [(f["rule"], f["target"]["name"]) for f in document["findings"]] == [("bench.slow", "trn-09")]
    printed = cli.file(cli.out, "slow.json")
    assert cli("report", printed, "-o", "junit") == 0
    assert 'failures="1"' in cli.out
    assert cli("report", printed, "-o", "sarif") == 0
    assert json.loads(cli.out)["runs"][0]["results"][0]["ruleId"] == "bench.slow"


def test_other_types_and_reductions_are_measured(bench, cli):
    given = ("-i", bench.lab.directory / "connection.yml", "--min", "64M", "--max", "256M", "-o", "json")
    for more in (("--type", "bfloat16", "--reduction", "max"), ("--op", "broadcast", "--root", "1", "--no-check")):
        cli("bench", "nccl", "trn-0[1:2]", *given, *more)
        (run,) = json.loads(cli.out)["runs"]
        assert run["busbw"] > 5, run
    assert cli("bench", "nccl", "trn-0[1:2]", *given, "--type", "float7") == 64
    assert "bfloat16" in cli.err


def test_every_rail_is_measured_and_a_slow_one_named_with_its_uplink(bench, cli, monkeypatch):
    estate = EstateRequest(inventory=bench.lab.directory / "connection.yml")
    nodes = NodesRequest(("trn-0[1234]",), estate=estate)
    monkeypatch.setattr(frame, "checked", lambda given, *_, **__: tuple(map(with_device, given[0])))
    healthy = bench_rdma(RdmaRequest(nodes))
    assert (worst(healthy.findings), len(healthy.rates), healthy.found) == ("pass", 4, ())
    bench.lab.set_defects({"kind": "rail-slow", "host": "esx03*", "factor": 0.5})
    result = bench_rdma(RdmaRequest(nodes))
    assert [(f.kind, f.vm, f.host, f.vmnic) for f in result.found] == [
        ("uplink", "trn-03", "esx03.lab.local", "vmnic4")
    ]
    (slow,) = (f for f in result.findings if f.verdict == "fail")
    assert (slow.rule, slow.target.part) == ("rdma.half-speed", "ens224")
    assert ("vmnic", "vmnic4") in slow.evidence
    bench.lab.set_defects({"kind": "rail-down", "vm": "trn-02"})
    assert [(c.rule, c.verdict) for c in bench_rdma(RdmaRequest(nodes)).checks] == [("rdma.not-measured", "unknown")]
    bench.lab.set_defects({"kind": "process-left", "vm": "trn-02"})
    left = bench_rdma(RdmaRequest(nodes))
    assert ([(c.rule, c.verdict) for c in left.checks], exit_code(left.findings)) == ([("bench.left", "fail")], 2)


def with_device(node):
    return replace(node, rails=tuple(replace(r, interface="ens224", rdma_device="roces224f1") for r in node.rails))
