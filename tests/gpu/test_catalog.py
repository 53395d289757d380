import pytest
from support.raising import refused

from vsphere_ai.gpu.catalog import UnknownBoard, UnknownProfile, board, board_of_device, boards

MIG = [b for b in boards() if b.mig_capable]


def test_keys_device_ids_and_vgpu_names_are_unique():
    for values in (
        [b.key for b in boards()],
        [d for b in boards() for d in b.device_ids],
        [n for b in boards() for n in b.vgpu_names],
    ):
        assert len(values) == len(set(values))


@pytest.mark.parametrize("b", MIG, ids=lambda b: b.key)
def test_profiles_are_sound(b):
    assert len({p.id for p in b.profiles}) == len({p.name for p in b.profiles}) == len(b.profiles)
    for p in b.profiles:
        assert all(s >= 0 and s + p.memory_slices <= b.memory_slices for s in p.starts)
        assert p.compute_slices <= b.compute_slices
        assert p.name.startswith(f"{p.compute_slices}g.")
        # starts of one profile never overlap, which `search.room` counts on
        assert all(two - one >= p.memory_slices for one, two in zip(p.starts, p.starts[1:], strict=False))
        assert p.max_instances == 1 if p.media else p.max_instances <= len(p.starts)


@pytest.mark.parametrize("b", [b for b in MIG if b.profiles], ids=lambda b: b.key)
def test_whole_gpu_profile_takes_everything(b):
    whole = b.profile(0)
    assert (whole.compute_slices, whole.memory_slices, whole.starts) == (b.compute_slices, b.memory_slices, (0,))


def test_reboot_rule_follows_the_architecture():
    for b in MIG:
        assert b.mig_needs_reboot_on_esxi == b.mig_mode_persists == (b.architecture == "ampere")


def test_the_same_id_means_different_things():
    assert board("a100-40gb").profile(14).name == "2g.10gb"
    assert board("a30-24gb").profile("14").name == "1g.6gb"
    assert board("A100-40GB").profile("MIG 3g.20gb").id == 9


@pytest.mark.parametrize(
    ("device", "key"),
    [
        (0x20F1, "a100-40gb"),
        (0x20B2, "a100-80gb"),
        (0x2330, "h100-80gb-sxm"),
        (0x20B7, "a30-24gb"),
        (0x1EB8, "t4-16gb"),
    ],
)
def test_device_ids(device, key):
    assert board_of_device(device).key == key
    assert board_of_device(device - 0x10000).key == key


def test_unknown_device():
    assert board_of_device(0x1234) is None


@pytest.mark.parametrize("text", ["20b3", "0x20B3", "10de:20b3", "0x20B310DE"])
def test_a_board_is_found_by_its_device_id_in_any_spelling(text):
    assert board(text).key == "a100-64gb"
    assert board(text.lower().replace("20b3", "230e")).key == "h20-96gb"
    with pytest.raises(UnknownBoard):
        board(text.lower().replace("20b3", "ffff"))


def test_unknown_board_suggests():
    with pytest.raises(UnknownBoard) as error:
        board("a100-40")
    assert "did you mean a100-40gb" in error.value.remedy
    with pytest.raises(UnknownBoard) as error:
        board("zzz")
    assert error.value.remedy.startswith("known boards: a30-24gb")


def test_unknown_profile_suggests():
    with pytest.raises(UnknownProfile) as error:
        board("a100-40gb").profile("3g.24gb")
    assert "did you mean 3g.20gb?" in error.value.remedy
    with pytest.raises(UnknownProfile) as error:
        board("a100-40gb").profile(2)
    assert error.value.message == "no profile 2 on a100-40gb"
    assert error.value.remedy.startswith("a100-40gb has 1g.5gb (19)")
    with refused(UnknownProfile, "usage", "9"):
        board("t4-16gb").profile("9")


def test_time_sliced_counts():
    sizes = {t.fb_gb: (t.max_equal, t.max_mixed) for t in board("a100-40gb").time_sliced}
    assert sizes[8] == (5, 4)
    assert {t.fb_gb: t.max_equal for t in board("h200-141gb").time_sliced}[8] == 16
    for b in boards():
        whole = max([b.memory_gb, *(t.fb_gb for t in b.time_sliced)])  # GB200 has a 189C on 186 GB
        assert all(t.max_equal * t.fb_gb <= whole for t in b.time_sliced if t.max_equal)


# PCI device ids and number of profiles of every group of boards with MIG that NVIDIA documents (MIG User Guide,
# "Supported GPUs"; mig-parted's device lists).
GROUPS = {
    "a30-24gb": ([0x20B7, 0x20B9], 5),
    "a100-40gb": ([0x20B0, 0x20B1, 0x20BD, 0x20F1, 0x20F6], 7),
    "a100-64gb": ([0x20B3], 7),
    "a100-80gb": ([0x20B2, 0x20B5, 0x20B8, 0x20F3, 0x20F5, 0x20FD], 7),
    "h100-80gb-sxm": ([0x2324, 0x2330], 7),
    "h100-80gb-pcie": ([0x2322, 0x2331], 7),
    "h100-94gb": ([0x2321, 0x2339, 0x233A], 7),
    "h100-64gb": ([0x2337], 7),
    "h100-96gb": ([0x20B6, 0x2338, 0x233D, 0x2342], 7),
    "h20-96gb": ([0x230E, 0x2329], 7),
    "h200-141gb": ([0x2335, 0x233B], 7),
    "h20-141gb": ([0x232C], 7),
    "gh200-144gb": ([0x2348], 7),
    "b200-180gb": ([0x2901], 7),
    "gb200-186gb": ([0x2941], 7),
    "b300-269gb": ([0x3182], 7),
    "gb300-278gb": ([0x31C2], 7),
    "rtx-pro-6000-blackwell": ([0x2BB1, 0x2BB4, 0x2BB5], 11),
    "rtx-pro-6000d-blackwell": ([0x2BB2, 0x2BB9, 0x2BBC], 4),
    "rtx-pro-4500-blackwell": ([0x2C31, 0x2C3A], 2),
    "rtx-pro-5000-blackwell": ([0x2BB3], 7),
}


def test_all_groups_of_boards_with_mig_are_there():
    assert {b.key: (sorted(b.device_ids), len(b.profile_names)) for b in MIG} == GROUPS


def test_a_board_of_which_only_the_names_of_profiles_are_published():
    b = board_of_device(0x2BB3)
    assert (b.mig_capable, b.profiles, b.memory_slices, b.min_driver) == (True, (), 0, 575)
    assert b.profile_names[:2] == ("1g.12gb", "1g.12gb+me")
    assert b.find_profile("1g.12gb") is None
    with pytest.raises(UnknownProfile) as error:
        b.profile("1g.12gb")
    assert error.value.message == "1g.12gb cannot be placed on rtx-pro-5000-blackwell"
    assert "placements of this board are not published" in error.value.remedy
    assert [b.key for b in MIG if b.named_profiles] == ["rtx-pro-5000-blackwell"]
