"""Nodes and jobs as tests of launchers use them."""

from __future__ import annotations

from vsphere_ai.model.nodes import Node, NodeGpu, Rail
from vsphere_ai.training.job import TrainingJob
from vsphere_ai.training.launchers import launch


def node(number, gpus=2, rails=1):
    return Node(
        vm=f"train-0{number + 1}",
        address=f"10.20.0.{11 + number}",
        interface="ens192",
        gpus=tuple(NodeGpu(n) for n in range(gpus)),
        rails=tuple(Rail(f"ens{224 + n}", number=n + 1, rdma_device=f"rocep{n + 1}s0") for n in range(rails)),
    )


def nodes(count=2, **more):
    return tuple(node(n, **more) for n in range(count))


def job(**more):
    given = {"training_job": "ddp", "nodes": {"playbook": "train.yml", "set": "train"}, "nccl": "off"}
    program = {} if {"module", "command"} & set(more) else {"script": "/shared/train.py"}
    return TrainingJob.model_validate({**given, **program, **more})


def launched(mode, count=2, *, gpus=2, of=None, **more):
    return launch(job(**more), mode, of or nodes(count, gpus=gpus), "run1")


def commands(made):
    return [[" ".join(p.argv) for p in each.processes] for each in made.nodes]
