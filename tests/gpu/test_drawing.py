import pytest

from vsphere_ai.gpu.catalog import board, boards
from vsphere_ai.gpu.mig.drawing import draw
from vsphere_ai.gpu.mig.search import Instance, full_layouts, plain_profiles


def test_picture_of_a_layout_with_a_hole():
    instances = [Instance("3g.20gb", 4), Instance("2g.10gb", 0), Instance("1g.5gb+me", 2)]
    assert draw(board("a100-40gb"), instances) == (
        " 0       1       2       3       4       5       6       7",
        "+---------------+-------+-------+-------------------------------+",
        "|2g.10gb        |1g+me  |       |3g.20gb                        |",
        "+---------------+-------+-------+-------------------------------+",
    )


@pytest.mark.parametrize("b", [b for b in boards() if b.profiles], ids=lambda b: b.key)
def test_every_picture_fits_in_80_columns_and_is_aligned(b):
    for places in full_layouts(b, plain_profiles(b)):
        ruler, top, names, bottom = draw(b, [s.instance for s in places])
        assert len(top) == len(names) == len(bottom) <= 70
        assert len(ruler) <= len(top)
        assert names.count("|") == top.count("+")
        assert all(names[i] == "|" for i, c in enumerate(top) if c == "+")
        assert f"{ruler}{top}{names}".isascii()


@pytest.mark.parametrize("key", ["t4-16gb", "rtx-pro-5000-blackwell"])
def test_without_known_slices_there_is_no_picture(key):
    assert draw(board(key), ()) == ()
