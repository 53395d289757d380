"""Launches as text: reasons of settings once for all nodes that have them."""

from __future__ import annotations

from vsphere_ai.model.nodes import Node, NodeGpu, Rail
from vsphere_ai.report.training.launch_text import launch_text
from vsphere_ai.training.job import TrainingJob
from vsphere_ai.training.launchers import launch


def test_a_reason_is_written_once_for_all_nodes_and_with_their_names_where_others_do_not_have_it():
    nodes = [
        Node(
            f"trn-{n:03}",
            f"10.0.{n // 256}.{n % 256}",
            "mgmt",
            gpus=(NodeGpu(0),),
            rails=(Rail("rdma1", f"10.1.{n // 256}.{n % 256}", 1, rdma_device="mlx5_0" if n > 3 else ""),),
        )
        for n in range(1, 257)
    ]
    job = TrainingJob(training_job="big", nodes=({"name": "n", "address": "10.0.0.1"},), script="/t.py")
    lines = launch_text(launch(job, "torchrun", nodes, "big")).splitlines()
    reasons = [line for line in lines if line.startswith("#")]
    assert len(reasons) == 5
    shown = [line.rpartition("(")[2] for line in reasons if "NCCL_IB_HCA" in line]
    assert shown == ["trn-[001:003])", "trn-[004:256])"]
    assert sum(line.startswith("NODE ") for line in lines) == 256
