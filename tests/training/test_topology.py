"""Topology of nodes: files of a job, order of NICs, gaps, and advice for NUMA nodes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pydantic import ValidationError
from training.nodes import job

from vsphere_ai.model.nodes import Node, NodeGpu, Rail
from vsphere_ai.model.topology import HostNuma, PassedNic, PciSite, VmCpus
from vsphere_ai.training.exports.nccl_topo import check
from vsphere_ai.training.launch import LaunchPlan
from vsphere_ai.training.launchers import LAUNCHERS, launch
from vsphere_ai.training.node_topology import files, node_topology
from vsphere_ai.training.numa_advice import numa_advice
from vsphere_ai.training.topology import gaps, nic_orders, with_addresses

UP, DOWN = "0000:3c:00.0", "0000:40:00.0"
GPU = NodeGpu(0, "0000:02:00.0", "0000:3b:00.0", site=PciSite("0000:3b:00.0", 0x0302, 0, (UP,)))
RAIL = Rail("ens224", number=1, rdma_device="mlx5_0", vmnic="vmnic4", guest_pci="0000:13:00.0",
            site=PciSite("0000:5e:00.0", 0x0200, 0, (UP,)))  # fmt: skip
FAR = replace(RAIL, interface="ens256", number=2, rdma_device="mlx5_1", vmnic="vmnic5", guest_pci="0000:1b:00.0",
              site=PciSite("0000:af:00.0", 0x0200, 1))  # fmt: skip
NUMA = HostNuma(2, 32, 512 << 10)
NODE = Node("train-01", "10.0.0.1", "ens192", host="esx01", gpus=(GPU,), rails=(RAIL,),
            cpus=VmCpus(16, 1, 64 << 10), numa=NUMA)  # fmt: skip
HOST = {"nccl": {"topology": "host"}}


@pytest.mark.parametrize("mode", LAUNCHERS)
def test_each_mode_gives_each_node_its_own_file(mode):
    two = (NODE, replace(NODE, vm="train-02", host="esx02", rails=(FAR,)))
    made = launch(job(**HOST), mode, two, "run1")
    texts = []
    for each in made.nodes:
        (file,) = [f for f in each.files if f.name == "nccl-topo.xml"]
        assert check(file.text) == []
        texts.append(file.text)
        assert [s.value for s in each.nccl if s.name == "NCCL_TOPO_FILE"] == ["/var/tmp/vsphere-ai/run1/nccl-topo.xml"]
    assert texts[0] != texts[1]
    assert not any(f.name == "nccl-topo.xml" for n in launch(job(), mode, two, "run1").nodes for f in n.files)


def test_a_node_with_a_gap_has_no_file_and_the_reason_is_with_the_setting():
    node = replace(NODE, rails=(replace(RAIL, guest_pci=""),))
    (made,) = launch(job(**HOST), "torchrun", [node], "run1").nodes
    (setting,) = [s for s in made.nccl if s.name == "NCCL_TOPO_FILE"]
    assert (setting.value, made.files) == (None, ())
    assert "rail 1 in the guest" in setting.reason


def test_exports_name_a_file_that_is_put_there_by_others():
    (path,) = [
        s.value for s in LaunchPlan(job(**HOST), (NODE,), "ddp", "/etc/x.xml").nccl(0) if s.name == "NCCL_TOPO_FILE"
    ]
    assert path == "/etc/x.xml"


def test_a_file_of_ones_own_and_that_of_the_host_exclude_each_other():
    with pytest.raises(ValidationError, match="leave one of them out"):
        job(nccl={"topology": "host", "topology_file": "/etc/topo.xml"})


@pytest.mark.parametrize(
    ("node", "words"),
    [
        (replace(NODE, host=""), "no host"),
        (replace(NODE, gpus=()), "no GPU"),
        (replace(NODE, gpus=(replace(GPU, site=None),)), "which part of esx01 GPU 0 is"),
        (replace(NODE, gpus=(replace(GPU, site=replace(GPU.site, numa=None)),)), "NUMA node GPU 0"),
        (replace(NODE, rails=(RAIL, replace(FAR, guest_pci="0000:13:00.1"))), "same PCI address"),
        (replace(NODE, passed=(PassedNic("", RAIL.site),)), "0000:5e:00.0 in the guest"),
    ],
)
def test_what_is_not_known_keeps_from_writing(node, words):
    assert any(words in gap for gap in gaps(node)), gaps(node)
    assert node_topology(node).text == ""
    assert gaps(NODE) == ()


def test_the_nearest_rails_of_a_gpu_come_first():
    (order,) = nic_orders(replace(NODE, rails=(FAR, RAIL)))
    assert [(rail.number, far) for rail, far in order.rails] == [(1, "PIX"), (2, "SYS")]
    assert order.hca == "=mlx5_0:1"
    (bare,) = nic_orders(replace(NODE, rails=(replace(RAIL, rdma_device=""),)))
    assert bare.hca == ""


def test_the_guests_own_addresses_win():
    node = replace(NODE, passed=(PassedNic("", FAR.site),))
    found = with_addresses(node, ["0000:07:00.0"], {"mlx5_0": "0000:08:00.1", "mlx5_5": "0000:09:00.0"})
    assert [g.guest_pci for g in found.gpus] == ["0000:07:00.0"]
    assert [r.guest_pci for r in found.rails] == ["0000:08:00.1"]
    assert [n.guest_pci for n in found.passed] == ["0000:09:00.0"]
    assert 'busid="0000:08:00.0"' in node_topology(found).text


def test_nodes_that_are_alike_share_a_file_and_cpus_are_there_where_they_are_tied():
    tied = replace(NODE, cpus=replace(NODE.cpus, affinity=(0,), count=40))
    other = replace(NODE, vm="train-02", host="esx02 --> <x")
    found = files(map(node_topology, (NODE, tied, other)))
    assert [[n.vm for n in nodes] for nodes, _ in found] == [["train-01", "train-02"], ["train-01"]]
    assert all(check(text) == [] for _, text in found)
    assert 'affinity="000000ff,ffffffff"' in found[1][1]
    assert "affinity" not in found[0][1]


@pytest.mark.parametrize(
    ("node", "snippets"),
    [
        (NODE, ["tuning: {numa_affinity: gpu}"]),
        (replace(NODE, cpus=replace(NODE.cpus, affinity=(0,))), []),
        (replace(NODE, numa=HostNuma(1, 64, 1 << 20)), []),
        (replace(NODE, cpus=VmCpus(48, 1, 64 << 10)), ["tuning: {cores_per_socket: 24}"]),
        (replace(NODE, cpus=VmCpus(48, 24, 64 << 10)), []),
        (replace(NODE, cpus=VmCpus(33, 1, 64 << 10)), ["tuning: {cpus: 34}"]),
        (replace(NODE, cpus=VmCpus(16, 8, 800 << 10, hot_add=True)), [""]),
        (replace(NODE, cpus=VmCpus(16, 16, 64 << 10, (0,)), rails=(RAIL, FAR)), [""]),
        (replace(NODE, gpus=()), []),
    ],
)
def test_advice(node, snippets):
    assert [each.snippet for each in numa_advice(node)] == snippets
