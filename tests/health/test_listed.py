"""GPUs that `nvidia-smi -L` lists and that cannot be used, and paths between GPUs and RDMA devices."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vsphere_ai.health import answers
from vsphere_ai.health.answers import GPU_FIELDS, read_guest, refined
from vsphere_ai.health.checks import ObservedVm, judge
from vsphere_ai.health.placement import P2P, RELAX_ACS, VmPlace
from vsphere_ai.health.profile import HealthProfile
from vsphere_ai.health.witness import HostFacts
from vsphere_ai.model.guest_probes import CommandAnswer
from vsphere_ai.model.nodes import Node, NodeGpu, Rail
from vsphere_ai.model.topology import HostNuma, PassedNic, PciSite, VmCpus
from vsphere_ai.training.numa_advice import numa_advice

ROW = {"index": "0", "uuid": "GPU-a", "pci.bus_id": "00000000:03:00.0", "name": "NVIDIA A100", "driver_version": "550"}
HEAD = "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
LEGEND = "\nNIC Legend:\n\n  NIC0: mlx5_0\n"


def gpu(index, site=None):
    return NodeGpu(index, f"0000:0{3 + index}:00.0", f"0000:{3 + index}b:00.0", site=site)


def row(index):
    values = {**ROW, "index": str(index), "uuid": f"GPU-{index}", "pci.bus_id": f"00000000:0{3 + index}:00.0"}
    return ", ".join(values.get(name, "0") for name in GPU_FIELDS) + "\n"


def matrix(first, second, numa="0"):
    return (
        f"{HEAD}GPU0\t X \tPHB\t{first}\t0-15\t{numa}\t\tN/A\nGPU1\tPHB\t X \t{second}\t0-15\t{numa}\t\tN/A\n"
        f"NIC0\t{first}\t{second}\t X \t\t\t\n{LEGEND}"
    )


def listed(*lines):
    return "".join(f"GPU {n}: NVIDIA A100 (UUID: GPU-{n})\n{more}" for n, more in lines)


def findings(texts, node=None, host=None):
    node = node or Node("vm", "10.0.0.1", host="esx", gpus=(gpu(0), gpu(1)))
    facts = read_guest({command.name: CommandAnswer(0, out) for command, out in texts.items()})
    seen = ObservedVm(refined(node, facts), facts, host or HostFacts(), passthrough=True)
    return [(f.rule, f.verdict, f.target.part) for f in judge(seen, HealthProfile()).findings]


def test_a_gpu_that_is_listed_and_has_no_values_is_named_and_the_count_is_right():
    texts = {answers.SMI: row(0), answers.LISTED: listed((0, ""), (1, ""))}
    assert findings(texts) == [("gpu-fault", "fail", "GPU 0000:4b:00.0")]


def test_a_gpu_that_is_not_even_listed_is_missing():
    assert [f[:2] for f in findings({answers.SMI: row(0), answers.LISTED: listed((0, ""))})] == [("gpu-count", "fail")]


def test_mig_mode_without_a_device_fails_and_with_one_does_not():
    modes = "0, Enabled, 0, 30, 400.00, 1410\n1, Enabled, 0, 30, 400.00, 1410\n"
    some = "  MIG 7g.80gb     Device  0: (UUID: MIG-1)\n"
    texts = {answers.SMI: row(0) + row(1), answers.MEASURES: modes, answers.LISTED: listed((0, some), (1, ""))}
    assert findings(texts) == [("gpu-mig", "fail", "GPU 0000:4b:00.0")]


@pytest.mark.parametrize("text", ["", "No devices were found\n", "Insufficient Permissions\n"])
def test_a_list_or_a_matrix_that_cannot_be_read_is_no_finding(text):
    assert findings({answers.SMI: row(0) + row(1), answers.LISTED: text, answers.PATHS: text}) == []


def test_a_gpu_whose_nic_is_across_sockets_is_a_warning():
    texts = {answers.SMI: row(0) + row(1), answers.PATHS: matrix("PHB", "SYS")}
    assert findings(texts) == [("gpu-nic", "warn", "GPU 0000:4b:00.0")]


def test_where_the_host_has_a_nic_near_the_gpu_the_remedy_is_the_topology_file():
    site = PciSite("0000:5b:00.0", 0x0200, 1)
    node = Node(
        "vm", "10.0.0.1", host="esx", gpus=(gpu(0), gpu(1, PciSite("0000:4b:00.0", 0x0302, 1))),
        passed=(PassedNic("", site),),
    )  # fmt: skip
    facts = read_guest({answers.SMI.name: CommandAnswer(0, row(0) + row(1)),
                        answers.PATHS.name: CommandAnswer(0, matrix("PHB", "SYS"))})  # fmt: skip
    (found,) = judge(ObservedVm(refined(node, facts), facts, passthrough=True), HealthProfile()).findings
    assert "render nccl-topo" in found.remedy
    far = replace(node, passed=(PassedNic("", replace(site, numa=0)),))
    (found,) = judge(ObservedVm(refined(far, facts), facts, passthrough=True), HealthProfile()).findings
    assert "render nccl-topo" not in found.remedy


@pytest.mark.parametrize(
    ("path", "expected"), [("PHB", ["info"] * 2), ("NODE", ["info"] * 2), ("PIX", []), ("PXB", []), ("?", [])]
)
def test_paths_too_far_for_gpudirect_are_named_where_the_vm_is_prepared_for_it(path, expected):
    texts = {answers.SMI: row(0) + row(1), answers.PATHS: matrix(path, path)}
    ready = HostFacts(settings={P2P: "TRUE", RELAX_ACS: "TRUE"}, place=VmPlace(direct=True, ats=True))
    assert [verdict for _, verdict, _ in findings(texts, host=ready)] == expected
    assert findings(texts) == []


def advice(node, text):
    facts = read_guest({answers.PATHS.name: CommandAnswer(0, text)})
    return [each.reason for each in numa_advice(refined(node, facts))]


def test_numa_advice_says_what_the_guest_does_not_show():
    sites = [PciSite(f"0000:{n}b:00.0", 0x0302, n) for n in (0, 1)]
    node = Node(
        "vm", "10.0.0.1", gpus=(gpu(0, sites[0]), gpu(1, sites[1])),
        cpus=VmCpus(32, 16, 1 << 16), numa=HostNuma(2, 32, 1 << 18), rails=(Rail("a"),),
    )  # fmt: skip
    assert [r for r in advice(node, matrix("PHB", "PHB")) if "NUMA nodes 0 and 1" in r and "topology" in r]
    shown = matrix("PHB", "PHB").replace("GPU1\tPHB\t X \tPHB\t0-15\t0", "GPU1\tPHB\t X \tPHB\t0-15\t1")
    assert not [r for r in advice(node, shown) if "topology" in r]


def test_numa_advice_goes_by_the_guest_where_the_host_is_not_known():
    node = Node("vm", "10.0.0.1", gpus=(gpu(0), gpu(1)))
    assert advice(node, matrix("SYS", "PHB")) == ["the guest shows mlx5_0 on another NUMA node than GPU 0 (SYS)"]
    assert advice(node, matrix("PHB", "PHB")) == []
