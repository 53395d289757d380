"""Exports of a job's nodes for tools that own a job: each written from the nodes, and read back by rules of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from vsphere_ai.training.exports import (
    accelerate_config,
    ansible,
    ansible_check,
    frameworks,
    hostfiles,
    nccl_conf,
    slurm,
    slurm_check,
)
from vsphere_ai.training.exports.finding import LineFinding
from vsphere_ai.training.launch import LaunchPlan


@dataclass(frozen=True)
class ExportFormat:
    """A format: how it is written, and the problems of a text of it. `has_rails`: RDMA devices stand in it."""

    write: Callable[[LaunchPlan], str]
    check: Callable[[str], list[LineFinding]]
    has_rails: bool = False
    takes_mark_for_text: Callable[[str], bool] = lambda _: False
    """Whether its reader takes a byte order mark before such a text for a part of it."""


def _always(_: str) -> bool:
    """Open MPI (a parse error), DeepSpeed (a part of the first host's name) and Slurm (no key begins so)."""
    return True


def _first_line_sets(text: str) -> bool:
    """NCCL skips a line without ``=``, and takes all before it for the name of a variable."""
    return "=" in text.partition("\n")[0]


EXPORTS: Mapping[str, ExportFormat] = {
    "hostfile": ExportFormat(hostfiles.write, hostfiles.check, takes_mark_for_text=_always),
    "deepspeed": ExportFormat(hostfiles.write, hostfiles.check_deepspeed, takes_mark_for_text=_always),
    "accelerate": ExportFormat(accelerate_config.write, accelerate_config.check),
    "tf-config": ExportFormat(frameworks.write_tf_config, frameworks.check_tf_config),
    "nccl-env": ExportFormat(nccl_conf.write, nccl_conf.check, has_rails=True, takes_mark_for_text=_first_line_sets),
    "ansible": ExportFormat(
        ansible.write, ansible_check.check, has_rails=True, takes_mark_for_text=ansible_check.is_ini
    ),
    "slurm": ExportFormat(slurm.write, slurm_check.check, takes_mark_for_text=_always),
}
