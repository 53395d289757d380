"""Readers of `topo -m` and `-L`, on layouts of several releases as they are posted in public issues."""

from __future__ import annotations

import pytest

from vsphere_ai.gpu.smi.device_paths import parse_device_paths, parse_gpu_list
from vsphere_ai.gpu.smi.listings import UnreadableOutput

LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NV#  = Connection traversing a bonded set of # NVLinks
"""
NEW = (
    "\t\x1b[4mGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \tNV18\tPIX\tSYS\t0-47,96-143\t0\t\tN/A\n"
    "GPU1\tNV18\t X \tSYS\tPXB\t48-95,144-191\t1\t\tN/A\n"
    "NIC0\tPIX\tSYS\t X \tSYS\t\t\t\t\n"
    "NIC1\tSYS\tPXB\tSYS\t X \t\t\t\t\n" + LEGEND + "\nNIC Legend:\n\n  NIC0: mlx5_0\n  NIC1: mlx5_bond_0\n\n"
)
PASTED = """        GPU0    GPU1    NIC0    NIC1    CPU Affinity    NUMA Affinity   GPU NUMA ID
GPU0     X      NV18    PIX     SYS     0-47,96-143     0               N/A
GPU1    NV18     X      SYS     PXB     48-95,144-191   1               N/A
NIC0    PIX     SYS      X      SYS
NIC1    SYS     PXB     SYS      X

NIC Legend:

  NIC0: mlx5_0
  NIC1: mlx5_bond_0
"""
OLD = """\tGPU0\tGPU1\tmlx5_0\tmlx5_bond_0\tCPU Affinity
GPU0\t X \tNV2\tPIX\tSOC\t0-19,40-59
GPU1\tNV2\t X \tSOC\tPXB\t20-39,60-79
mlx5_0\tPIX\tSOC\t X \tSOC\t
mlx5_bond_0\tSOC\tPXB\tSOC\t X \t
"""


def paths(shown):
    return [{nic.device: nic.path for nic in gpu.nics} for gpu in shown.gpus]


@pytest.mark.parametrize("text", [NEW, PASTED, OLD, NEW.replace("\x1b", "")], ids=("new", "pasted", "old", "no-escape"))
def test_gpus_have_the_paths_to_rdma_devices_by_their_names(text):
    shown = parse_device_paths(0, text)
    assert paths(shown) == [{"mlx5_0": "PIX", "mlx5_bond_0": "SYS"}, {"mlx5_0": "SYS", "mlx5_bond_0": "PXB"}]
    assert shown.unread == ()


@pytest.mark.parametrize(("text", "numa", "links"), [(NEW, [0, 1], "NV18"), (OLD, [None, None], "NV2")])
def test_what_a_release_does_not_show_is_not_known(text, numa, links):
    shown = parse_device_paths(0, text)
    assert [gpu.numa for gpu in shown.gpus] == numa
    assert [gpu.peers for gpu in shown.gpus] == [((1, links),), ((0, links),)]
    assert shown.gpus[0].cpus in ("0-47,96-143", "0-19,40-59")


def test_a_virtual_machine_with_one_gpu_and_without_nics():
    text = "\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \tN/A\tN/A\tN/A\n" + LEGEND
    (gpu,) = parse_device_paths(0, text).gpus
    assert (gpu.nics, gpu.peers, gpu.cpus, gpu.numa, gpu.is_across) == ((), (), None, None, False)


def test_a_damaged_row_leaves_the_others_readable():
    text = NEW.replace("GPU1\tNV18\t X \tSYS\tPXB\t48-95,144-191\t1\t\tN/A\n", "GPU1\tNV18\t\n")
    shown = parse_device_paths(0, text)
    assert shown.unread == ("GPU1",)
    assert paths(shown) == [{"mlx5_0": "PIX", "mlx5_bond_0": "SYS"}, {"mlx5_0": None, "mlx5_bond_0": None}]


def test_a_path_of_a_later_release_is_not_known():
    assert paths(parse_device_paths(0, NEW.replace("PIX", "C2C")))[0] == {"mlx5_0": None, "mlx5_bond_0": "SYS"}


def test_a_gpu_is_across_only_where_every_path_is_known():
    across = parse_device_paths(0, NEW.replace("PIX", "SYS"))
    assert [gpu.is_across for gpu in across.gpus] == [True, False]
    unknown = parse_device_paths(0, NEW.replace("PIX", "???"))
    assert [gpu.is_across for gpu in unknown.gpus] == [False, False]


@pytest.mark.parametrize("text", ["", "No devices were found\n", "Failed to initialize NVML: Unknown Error\n", LEGEND])
def test_a_text_without_a_matrix_is_refused(text):
    with pytest.raises(UnreadableOutput):
        parse_device_paths(255, text)


LIST = """GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-5d0ba5f3-0000-1111-2222-333344445555)
  MIG 3g.40gb     Device  0: (UUID: MIG-81a3b0f7-0000-1111-2222-333344445555)
  MIG 1c.3g.40gb  Device  1: (UUID: MIG-GPU-5d0ba5f3-0000-1111-2222-333344445555/2/0)
  MIG 1g.10gb+me  Device  2: (UUID: MIG-91a3b0f7-0000-1111-2222-333344445555)
GPU 1: GRID A100D-80C (UUID: GPU-6d0ba5f3-0000-1111-2222-333344445555)
"""


def test_gpus_are_listed_with_their_mig_devices():
    listed = parse_gpu_list(0, LIST)
    first, second = listed.gpus
    assert [(d.profile, d.device) for d in first.devices] == [("3g.40gb", 0), ("1c.3g.40gb", 1), ("1g.10gb+me", 2)]
    assert (second.index, second.name, second.devices) == (1, "GRID A100D-80C", ())
    assert second.uuid == "GPU-6d0ba5f3-0000-1111-2222-333344445555"
    assert (listed.lost, listed.unread) == ((), ())


@pytest.mark.parametrize(
    "line",
    [
        "Unable to determine the device handle for GPU2: 0000:4B:00.0: Unknown Error",
        "Unable to determine the device handle for gpu 0000:4B:00.0: GPU is lost.  Reboot the system",
    ],
)
def test_a_lost_gpu_is_named_beside_the_others(line):
    listed = parse_gpu_list(15, LIST + line + "\n")
    assert (len(listed.gpus), listed.lost) == (2, ("0000:4b:00.0",))


def test_a_line_of_another_form_is_counted_and_a_warning_is_not():
    listed = parse_gpu_list(0, "WARNING: infoROM is corrupted at gpu 0000:4B:00.0\n" + LIST + "  vDEV 1: something\n")
    assert (len(listed.gpus), listed.unread) == (2, ("vDEV 1: something",))


def test_no_gpu_is_no_fault():
    assert parse_gpu_list(6, "No devices were found\n").gpus == ()


@pytest.mark.parametrize("text", ["", "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."])
def test_a_list_that_is_none_is_refused(text):
    with pytest.raises(UnreadableOutput):
        parse_gpu_list(9, text)
