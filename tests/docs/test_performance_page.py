"""The figures on the page of performance are those that were measured, and so are the drawings."""

from pathlib import Path

import pytest

from tools.docgen import measured, performance

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "performance.md"
RESULTS = measured.read(ROOT / "bench" / "results" / "page.json")


def test_the_page_is_up_to_date():
    text = PAGE.read_text("utf-8")
    assert text == performance.with_results(text, RESULTS), "make docs"


def test_every_drawing_is_up_to_date_and_on_the_page():
    drawn = performance.drawings(RESULTS)
    assert drawn
    for name, text in drawn.items():
        assert (PAGE.parent / "pictures" / name).read_text("utf-8") == text, "make docs"
        assert f"(pictures/{name})" in PAGE.read_text("utf-8")


@pytest.mark.parametrize("subject", sorted({row.subject for row in RESULTS.rows}))
def test_a_figure_that_is_changed_by_hand_is_noticed(subject):
    changed = [row for row in RESULTS.rows if row.subject == subject]
    figure = f" {performance.columns(changed[-1:])[1][1]} "
    text = PAGE.read_text("utf-8")
    begin = text.index(f"<!-- results: {subject} -->")
    other = text[:begin] + text[begin:].replace(figure, " 12345 ", 1)
    assert other != text
    assert performance.with_results(other, RESULTS) == text
