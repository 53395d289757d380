"""Names that are near to one that is not known."""

import pytest

from vsphere_ai.model.names.suggestion import did_you_mean, suggest

KINDS = ["graphics", "mig", "vgpu", "pvrdma", "pvrdma_host"]


@pytest.mark.parametrize(
    ("word", "known", "text"),
    [
        ("grafics", KINDS, "did you mean 'graphics'?"),
        ("VGPU", KINDS, "did you mean 'vgpu'?"),
        ("gra", KINDS, "did you mean 'graphics'?"),
        ("zzz", KINDS, ""),
        ("zzz", [], ""),
        ("x", ["", "x1"], "did you mean 'x1'?"),
    ],
)
def test_names_that_are_near(word, known, text):
    assert did_you_mean(word, known) == text


def test_where_none_is_near_all_are_named():
    assert suggest("zzz", KINDS) == "possible here: graphics, mig, pvrdma, pvrdma_host, vgpu"
    assert suggest("zzz", map(str, range(20)), "there are").endswith(", ... (20 in all)")
    assert suggest("zzz", []) == ""
