"""A byte order mark before a file of another program: a fault where that program takes it for a part of the text."""

from __future__ import annotations

import pytest

from vsphere_ai.app.training.launch.export import check_job_export
from vsphere_ai.app.training.nodes.nccl_topology import TopologyRequest, check_topology
from vsphere_ai.training.exports.finding import faults

TOPOLOGY = '<system version="1"><cpu numaid="0"></cpu></system>\n'
FILES = {
    # Open MPI 4.1.4 ends with a parse error, DeepSpeed 0.19.8 has a host whose name begins with the mark
    "hostfile": ("a slots=2\n", True),
    "deepspeed": ("a slots=2\n", True),
    "slurm": ("# comment\nNodeName=a CPUs=2\n", True),
    "nccl-env": ("NCCL_DEBUG=INFO\n", True),
    "accelerate": ("distributed_type: FSDP\nnum_processes: 2\n", False),
    "ansible": ("all:\n  hosts:\n    a:\n", False),
}


@pytest.mark.parametrize("format", FILES)
def test_a_byte_order_mark(tmp_path, format):
    text, is_wrong = FILES[format]
    path = tmp_path / "file"
    path.write_text(text, "utf-8")
    assert not faults(check_job_export(format, path))
    path.write_text(text, "utf-8-sig")
    problems = faults(check_job_export(format, path))
    assert ["byte order mark" in each.message for each in problems] == ([True] if is_wrong else [])


def test_where_it_stands_before_what_is_skipped_or_is_ini(tmp_path):
    path = tmp_path / "file"
    path.write_text("# NCCL\nNCCL_DEBUG=INFO\n", "utf-8-sig")
    assert not faults(check_job_export("nccl-env", path))
    path.write_text("[gpus]\na\n", "utf-8-sig")  # ansible-core 2.19: "host range must be begin:end"
    assert len(faults(check_job_export("ansible", path))) == 1


def test_nccl_refuses_a_topology_with_one(tmp_path):
    path = tmp_path / "topo.xml"
    path.write_text(TOPOLOGY, "utf-8")
    assert not faults(check_topology(path, TopologyRequest()))
    path.write_text(TOPOLOGY, "utf-8-sig")
    assert faults(check_topology(path, TopologyRequest()))
