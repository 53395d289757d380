"""Answers of guests: real samples, and outputs that are not as expected."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vsphere_ai.health import answers
from vsphere_ai.health.answers import read_guest, refined
from vsphere_ai.model.guest_probes import CommandAnswer
from vsphere_ai.model.nodes import Node, NodeGpu, Rail

SAMPLES = Path(__file__).parent / "samples"
ASKED = (
    answers.SMI, answers.PROCESSES, answers.CUDA, answers.VERSIONS, answers.LINKS, answers.ADDRESSES, answers.RULES,
    answers.KERNEL, answers.UPTIME, answers.SYSFS,
)  # fmt: skip
ROW = (
    "0, GPU-1, 00000000:3B:00.0, NVIDIA A100-SXM4-80GB, 535.161.05, 81920, 4, 0x0000000000000004, 0, 7, Yes, No, "
    "3, 4, 8, 16\n"
)
VGPU = "1, GPU-2, 00000000:02:01.0, GRID A100-10C, 535.161.05, 10240, 6" + ", [N/A]" * 9 + "\n"


def test_links_of_real_guests():
    facts = read_guest({"rdma-link": CommandAnswer(0, (SAMPLES / "guest-rdma-link-mlx5.txt").read_text())})
    assert [(link.device, link.netdev, link.is_active) for link in facts.links] == [
        ("mlx5_27", "net2", True),
        ("mlx5_54", "net1", True),
        ("mlx5_67", "net4", True),
        ("mlx5_98", "net3", True),
    ]
    facts = read_guest({"rdma-link": CommandAnswer(0, (SAMPLES / "guest-rdma-link-bnxt-one-down.txt").read_text())})
    assert [(link.device, link.state) for link in facts.links] == [("bnxt_re0", "ACTIVE"), ("bnxt_re1", "DOWN")]


def test_a_whole_gpu_and_a_vgpu():
    whole, vgpu = read_guest({"nvidia-smi": CommandAnswer(0, ROW + VGPU)}).gpus
    assert (whole.bus, whole.throttle, whole.ecc_corrected, whole.remap_pending, whole.remap_failed) == (
        "0000:3b:00.0", 4, 7, True, False,
    )  # fmt: skip
    assert whole.pcie == (3, 4, 8, 16)
    assert (vgpu.memory_used, vgpu.throttle, vgpu.ecc_uncorrected, vgpu.remap_pending) == (6, None, None, None)


@pytest.mark.parametrize("asked", ASKED, ids=lambda a: a.name)
def test_what_cannot_be_read_is_a_failure_of_its_command_only(asked):
    for answer in (CommandAnswer(failure="it did not end in time"), CommandAnswer(127, "bash: not found")):
        facts = read_guest({asked.name: answer})
        assert set(facts.failures) == {asked.name}
    assert read_guest({}).failures == {}


@given(st.sampled_from(ASKED), st.text(max_size=400), st.integers(0, 255))
def test_no_output_of_a_guest_stops_the_check(asked, out, code):
    facts = read_guest({asked.name: CommandAnswer(code, out)})
    assert set(facts.failures) <= {asked.name}


def test_a_node_learns_from_its_guest():
    node = Node("v", "10.0.0.1", gpus=(NodeGpu(0, host_pci="0000:3b:00.0"),), rails=(Rail("net1", number=1),))
    sysfs = "".join(
        f"/sys/class/infiniband/mlx5_54/ports/1/gid_attrs/types/{n}:{kind}\n"
        for n, kind in enumerate(("IB/RoCE v1", "RoCE v2", "IB/RoCE v1", "RoCE v2"))
    )
    address = '[{"ifname": "net1", "mtu": 4200, "flags": ["LOWER_UP"], "addr_info": [{"local": "172.16.1.2"}]}]'
    facts = read_guest(
        {
            "nvidia-smi": CommandAnswer(0, ROW),
            "rdma-link": CommandAnswer(0, (SAMPLES / "guest-rdma-link-mlx5.txt").read_text()),
            "sysfs": CommandAnswer(2, sysfs),
            "addresses": CommandAnswer(0, address),
        }
    )
    known = refined(node, facts)
    assert known.gpus == (NodeGpu(0, "0000:3b:00.0", "0000:3b:00.0", "GPU-1"),)
    assert known.rails == (Rail("net1", "", 1, "mlx5_54", 1, 1, 4200),)


def _row(index, **cells):
    values = dict.fromkeys(answers.GPU_FIELDS, "0") | {"index": str(index), "name": "NVIDIA H100", **cells}
    values["pci.bus_id"] = f"00000000:{0x3B + index:02X}:00.0"
    return ", ".join(values[name] for name in answers.GPU_FIELDS)


@pytest.mark.parametrize(
    ("cells", "fault"),
    [
        ({"name": "[GPU is lost]", "memory.total": "[GPU is lost]"}, "GPU is lost"),
        ({"memory.used": "[Unknown Error]"}, "Unknown Error"),
        ({"remapped_rows.pending": "[GPU requires reset]"}, "GPU requires reset"),
        ({"ecc.errors.corrected.volatile.total": "[Unknown Error]"}, ""),
        ({"ecc.errors.corrected.volatile.total": "[Insufficient Permissions]"}, ""),
    ],
)
def test_a_gpu_in_trouble_leaves_the_other_seven_readable(cells, fault):
    rows = [_row(n, **(cells if n == 3 else {})) for n in range(8)]
    found = tuple(answers.gpus_in("\n".join(rows)))
    assert [gpu.index for gpu in found] == list(range(8))
    assert [gpu.fault for gpu in found if gpu.index != 3] == [""] * 7
    assert found[3].fault == fault
    assert found[3].bus == "0000:3e:00.0"


def test_a_gpu_without_a_number_is_missing_and_the_others_are_read():
    lost = "Unable to determine the device handle for GPU 0000:3E:00.0: Unknown Error"
    out = "\n".join([lost, *(_row(n) for n in range(7))])
    facts = answers.read_guest({answers.SMI.name: answers.CommandAnswer(255, out)})
    assert (len(facts.gpus), facts.failures) == (7, {})
    facts = answers.read_guest({answers.SMI.name: answers.CommandAnswer(255, lost)})
    assert (facts.gpus, list(facts.failures)) == ((), [answers.SMI.name])
