import pytest

from vsphere_ai.gpu.catalog import UnknownBoard, UnknownProfile, board, board_of_device, boards

MIG = [b for b in boards() if b.mig_capable]


def test_keys_device_ids_and_vgpu_names_are_unique():
    for values in (
        [b.key for b in boards()],
        [d for b in boards() for d in b.device_ids],
        [n for b in boards() for n in b.vgpu_boards],
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


@pytest.mark.parametrize("b", MIG, ids=lambda b: b.key)
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
    with pytest.raises(UnknownProfile, match="no profile 9"):
        board("t4-16gb").profile("9")


def test_time_sliced_counts():
    sizes = {t.fb_gb: (t.max_equal, t.max_mixed) for t in board("a100-40gb").time_sliced}
    assert sizes[8] == (5, 4)
    assert {t.max_equal for t in board("h200-141gb").time_sliced} == {None}
    for b in boards():
        assert all(t.max_equal * t.fb_gb <= b.memory_gb for t in b.time_sliced if t.max_equal)
