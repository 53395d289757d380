"""Files of other programs in less usual forms: what the program takes is no fault, and what it misreads is one."""

from __future__ import annotations

import pytest

from vsphere_ai.training.exports import accelerate_config, ansible_check, nccl_conf, nccl_topo, slurm_check

BASE = "ClusterName=c\nSlurmctldHost=h\n"


def verdicts(findings):
    return [finding.verdict for finding in findings]


@pytest.mark.parametrize(
    "text",
    [
        "- topology: one\n  cluster_default: true\n  flat: true\n",
        "# nodes by switch\n---\n- topology: one\n  tree:\n    switches:\n      - switch: s1\n        nodes: n[1-2]\n",
        "\n---\n# a comment\n\n- topology: block\n  block: {block_sizes: [4]}\n",
    ],
)
def test_topology_yaml_of_slurm_is_not_looked_at(text):
    assert verdicts(slurm_check.check(text)) == ["info"]


def test_a_node_of_an_included_file_is_not_called_missing():
    text = BASE + "Include /etc/slurm/nodes.conf\nPartitionName=p Nodes=a[1-2]\n"
    assert set(verdicts(slurm_check.check(text))) == {"info"}
    without = BASE + "PartitionName=p Nodes=a[1-2]\n"
    assert verdicts(slurm_check.check(without)) == ["warn", "fail", "fail"]


@pytest.mark.parametrize("line", ["export NCCL_DEBUG=INFO", "export  NCCL_IB_HCA=mlx5_0"])
def test_nccl_conf_is_no_shell(line):
    assert "fail" in verdicts(nccl_conf.check(f"{line}\n"))


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("[gpu]\n[2001:db8::1]:22 a=1\nn1\n", []),
        ("[2001:db8::1]:22\n", []),
        ("[gpu]\n[a:c].example.com\n[1:3]x y=1\n", []),
        ("[gpu]\n[01:03]\n", ["fail"]),
        ("[gpu]\n[2001:db8::1] a=1\n", ["fail"]),
    ],
)
def test_a_host_of_an_ini_inventory_may_begin_with_a_bracket(text, faults):
    """As ansible-core 2.19.14 answers to these texts."""
    assert [verdict for verdict in verdicts(ansible_check.check(text)) if verdict == "fail"] == faults


def test_a_kind_that_earlier_releases_of_accelerate_have_is_a_warning():
    assert verdicts(accelerate_config.check("distributed_type: TP\nnum_processes: 4\n")) == ["warn"]
    assert verdicts(accelerate_config.check("distributed_type: MULTI\nnum_processes: 4\n")) == ["fail"]


def test_an_empty_mask_of_cpus_is_read_as_none():
    """As in the topology files of cloud instances; NCCL, src/graph/topo.cc, ncclStrToCpuset."""
    text = '<system version="1"><cpu numaid="0" affinity="{}" arch="x86_64" vendor="GenuineIntel"></cpu></system>'
    assert verdicts(nccl_topo.check(text.format(""))) == []
    assert verdicts(nccl_topo.check(text.format("all"))) == ["fail"]
