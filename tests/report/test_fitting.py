"""Screens of benchmarks at 80 columns: no line is wider, and nothing of it is lost."""

from dataclasses import replace

import pytest

from vsphere_ai.benchmarks.history import trends
from vsphere_ai.benchmarks.slow_part.layers import SlowLayer
from vsphere_ai.benchmarks.slow_part.search import SearchOutcome
from vsphere_ai.benchmarks.slow_part.verdict import accused
from vsphere_ai.documents.benchmark_history import BenchmarkResult
from vsphere_ai.model.nodes import Node, NodeGpu, Rail
from vsphere_ai.report.findings_text import findings_text
from vsphere_ai.report.folding import fitted
from vsphere_ai.report.training.benchmark_text import history_text

NODE = Node(
    "train-03",
    "10.0.0.3",
    host="esx03.lab.local",
    gpus=(NodeGpu(0, host_pci="0000:3b:00.0"),),
    rails=(Rail("ens192", number=0, rdma_device="mlx5_0", vmnic="vmnic4"),),
)


def test_of_a_vm_with_one_gpu_and_one_rail_both_are_named():
    outcome = SearchOutcome(vms=(SlowLayer("train-03", "vm"),), reference=11.5)
    (found,) = accused(outcome, (NODE,))
    assert (found.kind, found.pci, found.vmnic) == ("vm", "0000:3b:00.0", "vmnic4")
    whole, shown = (findings_text((found.finding,), "", width=columns) for columns in (1000, 80))
    assert max(map(len, shown.splitlines())) <= 80
    assert shown.split() == whole.split()
    assert all(part in " ".join(shown.split()) for part in ("0000:3b:00.0 or", "vmnic4", "vsphere-ai bench rdma"))
    (plain,) = accused(outcome, (replace(NODE, gpus=NODE.gpus * 2),))
    assert (plain.pci, plain.vmnic) == ("", "")


def test_a_history_of_several_benchmarks_fits():
    kinds = (
        ("nccl", "reduce_scatter", 1 << 30, 371.32, "GB/s"),
        ("megatron", "sanity", 0, 137.5, "TFLOP/s"),
        ("scale", "megatron", 0, 0.97, "of linear"),
    )
    made = [
        BenchmarkResult(
            at=1.7e9 + at,
            set="a-training-set-with-a-long-name",
            benchmark=kind,
            operation=what,
            ranks=1024,
            size=size,
            value=value * (1 - at / 10),
            unit=unit,
        )
        for kind, what, size, value, unit in kinds
        for at in range(5)
    ]
    shown = history_text(trends(made)).splitlines()
    assert max(map(len, shown)) <= 80
    assert "a-training-set-with-a-long-name, nccl" in shown
    assert sum(line.endswith((" slower", " as before")) for line in shown) == len(kinds)


@pytest.mark.parametrize(
    ("line", "hanging"),
    [("  fail    words " + "more " * 20, 10), ("    -> " + "words " * 20, 6), ("slow: " + "words " * 20, 2)],
)
def test_what_is_wrapped_stands_under_the_last_column(line, hanging):
    first, *others = fitted(line, 80).splitlines()
    assert others
    assert len(first) <= 80
    assert all(len(o) - len(o.lstrip()) == hanging and len(o) <= 80 for o in others)
