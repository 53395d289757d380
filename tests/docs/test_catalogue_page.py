from pathlib import Path

import pytest

from tools.docgen import catalogue
from vsphere_ai.gpu.catalog import boards

WRITTEN = Path(__file__).parents[2] / "docs" / "catalogue.md"


def test_the_page_is_up_to_date(capsys):
    catalogue.main()
    assert WRITTEN.read_text("utf-8") == capsys.readouterr().out, "run: make docs"


@pytest.mark.parametrize("board", boards(), ids=lambda b: b.key)
def test_every_board_is_on_it_with_every_profile(board):
    text = catalogue.page()
    assert all(f"{number:04x}" in text for number in board.device_ids)
    if not board.mig_capable:
        assert f"| `{board.key}` |" in text
        return
    section = text.split(f"\n## {board.key}\n")[1].split("\n## ")[0]
    assert all(f"`{name}`" in section for name in board.profile_names)
    assert ("placements of this board are not published" in section) == bool(board.named_profiles)
    for p in board.profiles:
        (row,) = (line for line in section.splitlines() if line.startswith(f"| `{p.name}`"))
        assert f"| {p.id} | {p.compute_slices}, {p.memory_slices} | {', '.join(map(str, p.starts))} |" in row
    assert ("by analogy" in section) == (not board.verified)
