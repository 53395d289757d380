import pytest

from vsphere_ai.gpu.catalog import board, boards
from vsphere_ai.gpu.vgpus import vgpu


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("grid_a100-3-20c", ("grid", "a100", 3, 20, "c", "")),
        ("grid_a100-1-5cme", ("grid", "a100", 1, 5, "c", "me")),
        ("grid_a100-40c", ("grid", "a100", None, 40, "c", "")),
        ("nvidia_a40-48q", ("nvidia", "a40", None, 48, "q", "")),
        ("nvidia_h100xm-7-80c", ("nvidia", "h100xm", 7, 80, "c", "")),
        ("nvidia_rtx_pro_6000_blackwell_dc-4-96q", ("nvidia", "rtx_pro_6000_blackwell_dc", 4, 96, "q", "")),
        ("nvidia_rtx_pro_6000_blackwell_dc-2-48qgfx", ("nvidia", "rtx_pro_6000_blackwell_dc", 2, 48, "q", "gfx")),
        ("grid_m60-2b4", ("grid", "m60", None, 2, "b", "4")),
        ("nvidia_rtx_pro_6000_blackwell_dc-1-3q", ("nvidia", "rtx_pro_6000_blackwell_dc", 1, 3, "q", "")),
        ("nvidia_rtx_pro_6000_blackwell_dc-1-24cmeall", ("nvidia", "rtx_pro_6000_blackwell_dc", 1, 24, "c", "meall")),
        ("nvidia_rtx_pro_6000_blackwell_dc-1-24qnome", ("nvidia", "rtx_pro_6000_blackwell_dc", 1, 24, "q", "nome")),
        ("nvidia_rtx6000-ada-48q", ("nvidia", "rtx6000-ada", None, 48, "q", "")),
    ],
)
def test_names(name, fields):
    found = vgpu.parse(name)
    assert (found.brand, found.board, found.slices, found.fb_gb, found.series, found.suffix) == fields
    assert found.name == name
    assert found.is_mig == (fields[2] is not None)


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("GRID A100-3-20C", "write grid_a100-3-20c"),
        ("Grid_A100-40C", "write grid_a100-40c"),
        ("a100-3-20c", "look like"),
        ("grid_a100-8-20c", "look like"),
        ("grid_a100-3-20z", "look like"),
        ("", "look like"),
    ],
)
def test_what_is_no_name(name, remedy):
    with pytest.raises(vgpu.VgpuNameError) as error:
        vgpu.parse(name)
    assert remedy in error.value.remedy


@pytest.mark.parametrize(
    ("key", "name", "profile"),
    [
        ("a100-40gb", "grid_a100-3-20c", "3g.20gb"),
        ("a100-40gb", "grid_a100x-1-5cme", "1g.5gb+me"),
        ("a100-40gb", "grid_a100-1-10c", "1g.10gb"),
        ("a100-80gb", "grid_a100d-1-10c", "1g.10gb"),
        ("h100-94gb", "nvidia_h100l-4-47c", "4g.47gb"),
        ("a30-24gb", "nvidia_a30-2-12cme", "2g.12gb+me"),
        ("a100-40gb", "grid_a100-20c", None),
        ("a100-40gb", "grid_a100d-3-40c", None),
        ("a100-40gb", "grid_a100-3-40c", None),
        # every published type is named like its profile
        ("rtx-pro-6000-blackwell", "nvidia_rtx_pro_6000_blackwell_dc-4-96q", "4g.96gb"),
        ("rtx-pro-6000-blackwell", "nvidia_rtx_pro_6000_blackwell_dc-1-24qme", "1g.24gb+me"),
        ("rtx-pro-6000-blackwell", "nvidia_rtx_pro_6000_blackwell_dc-1-24cmeall", "1g.24gb+me.all"),
        ("rtx-pro-6000-blackwell", "nvidia_rtx_pro_6000_blackwell_dc-2-48qnome", "2g.48gb-me"),
        # time-sliced in a GPU instance
        ("rtx-pro-6000-blackwell", "nvidia_rtx_pro_6000_blackwell_dc-1-12q", "1g.24gb"),
        ("rtx-pro-6000-blackwell", "nvidia_rtx_pro_6000_blackwell_dc-2-8q", None),
        ("rtx-pro-4500-blackwell", "nvidia_rtx_pro_4500_blackwell_dc-2-8q", "2g.32gb"),
        ("gb200-186gb", "nvidia_gb200-3-95c", "3g.93gb"),
        ("rtx-pro-6000-blackwell", "nvidia_rtx_pro_6000_blackwell_dc-96q", None),
    ],
)
def test_the_gpu_instance_behind_a_vgpu(key, name, profile):
    found = vgpu.mig_profile(board(key), vgpu.parse(name))
    assert (found.name if found else None) == profile


def test_every_vgpu_suffix_of_the_catalogue_leads_back_to_its_profile():
    for b in boards():
        for name in b.vgpu_names:
            for p in b.profiles:
                if p.vgpu_suffix:
                    parsed = vgpu.parse(f"{name}-{p.vgpu_suffix.lower()}")
                    assert vgpu.mig_profile(b, parsed) is p
                    assert vgpu.board_of(parsed) is b


def test_an_unknown_board_name():
    assert vgpu.board_of(vgpu.parse("grid_m10-8q")) is None


@pytest.mark.parametrize(
    ("total", "size"),
    [(16, 64), (24, 64), (32, 128), (40, 128), (80, 256), (94, 256), (141, 512), (160, 512), (282, 1024)],
)
def test_mmio_window(total, size):
    assert vgpu.mmio_size_gb(total) == size


@pytest.mark.parametrize("total", [0, -40])
def test_no_framebuffer_needs_no_window(total):
    with pytest.raises(ValueError, match="no framebuffer"):
        vgpu.mmio_size_gb(total)
