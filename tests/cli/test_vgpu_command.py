import json

import pytest
from click.testing import CliRunner

from vsphere_ai.cli.reference.vgpu import command
from vsphere_ai.gpu.catalog import UnknownBoard, board, boards
from vsphere_ai.gpu.vgpus import vgpu


def run(*words):
    return CliRunner().invoke(command, ["list", *words])


def test_the_types_of_a_board_by_product_and_pci_device():
    result = run("a100-40gb")
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert lines[0] == "NVIDIA A100 40GB (SXM4, PCIe), A800 40GB, 40 GB"
    pcie, sxm = lines.index("A100 PCIe 40GB (10de:20b1, 10de:20f1)"), lines.index("A100 SXM4 40GB (10de:20b0)")
    assert lines.index("  grid_a100-8c       8       5            4") > pcie
    assert lines.index("  grid_a100-3-20c   20       2  3g.20gb") > pcie > sxm
    assert sxm < lines.index("  grid_a100x-3-20c   20       2  3g.20gb") < pcie
    assert "  names begin with grid_a800- or nvidia_a800-: the host's own list decides" in lines
    assert lines[-2:] == ["A800 SXM4 40GB (10de:20bd)", "  no vGPU types are published"]


def test_a_board_without_mig_and_counts():
    assert "MIG-backed" not in run("l4-24gb").output
    assert "  nvidia_h200-8c        8      16            -" in run("h200-141gb").output.splitlines()
    shown = run("rtx-pro-6000-blackwell").output
    assert "nvidia_rtx_pro_6000_blackwell_dc-1-3q       3      32  1g.24gb (8 each)" in shown


def test_a_board_without_vgpu_types():
    assert "No vGPU types are published" in run("gb300-278gb").output
    assert "gb300-278gb" not in run().output


def test_all_boards():
    result = run()
    assert result.exit_code == 0
    shown = [line.split()[0] for line in result.output.splitlines()[1:] if line and line[0] != " "][:-1]
    assert shown == [b.key for b in boards() if b.vgpu_names]


def test_an_unknown_board():
    assert isinstance(run("a999").exception, UnknownBoard)


@pytest.mark.parametrize("each", [b for b in boards() if b.vgpu_names], ids=lambda b: b.key)
def test_json_has_a_name_for_each_spelling_that_reads_back(each):
    (data,) = json.loads(run(each.key, "-o", "json").output)["boards"]
    assert data["board"] == each.key
    for kind in ("time_sliced", "mig"):
        for entry in data[kind]:
            assert len(entry["names"]) == len(each.vgpu_names)
            for name in entry["names"]:
                parsed = vgpu.parse(name)
                assert parsed.fb_gb == entry["framebuffer_gb"]
                if kind == "mig":
                    assert vgpu.mig_profile(board(each.key), parsed).name == entry["profile"]


def test_json_of_all_boards():
    data = json.loads(run("-o", "json").output)
    assert data["schema_version"] == 1
    assert len(data["boards"]) == sum(bool(b.vgpu_names) for b in boards())


@pytest.mark.parametrize("each", [b.key for b in boards()])
def test_eighty_columns(each):
    assert max(map(len, run(each).output.splitlines())) <= 80
