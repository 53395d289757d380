import pytest

from vsphere_ai.errors import UsageError
from vsphere_ai.gpu.catalog import board
from vsphere_ai.gpu.mig.search import Instance
from vsphere_ai.gpu.mig.standing import standing

A100, A30 = board("a100-40gb"), board("a30-24gb")


def test_names_ids_and_users():
    found = standing(A100, "3g.20gb:4, 19:0,MIG 2g.10gb:2", ["1g.5gb:0=train-03", "9:4"])
    assert found == (
        Instance("1g.5gb", 0, in_use=True, used_by="train-03"),
        Instance("2g.10gb", 2),
        Instance("3g.20gb", 4, in_use=True),
    )


@pytest.mark.parametrize("text", ["", "  "])
def test_an_empty_gpu(text):
    assert standing(A100, text) == ()


@pytest.mark.parametrize(
    ("text", "in_use", "said"),
    [
        ("3g.20gb", (), "its start is missing"),
        ("3g.20gb:2", (), "cannot stand there"),
        ("7g.80gb:0", (), "no profile 7g.80gb"),
        ("3g.20gb:x", (), "not a MIG profile"),
        ("4g.20gb:0,2g.10gb:2", (), "4g.20gb at 0 and 2g.10gb at 2 overlap at memory slice 2"),
        ("1g.5gb:0,1g.5gb:0", (), "twice"),
        ("1g.5gb:0", ("1g.5gb:1",), "1g.5gb at 1 is in use, but not on the GPU"),
        ("", ("1g.5gb:1",), "not on the GPU"),
        ("1g.5gb:0", ("1g.5gb",), "start is missing"),
    ],
)
def test_what_cannot_stand_there_is_refused(text, in_use, said):
    with pytest.raises(UsageError, match=said):
        standing(A100, text, in_use)


def test_the_last_slice_and_the_first_are_neighbours_of_nobody():
    assert len(standing(A30, ",".join(f"1g.6gb:{s}" for s in range(4)))) == 4
