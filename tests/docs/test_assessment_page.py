"""The rules on the page of the assessment are those of the code."""

from pathlib import Path

from tools.docgen import assessment

PAGE = Path(__file__).parents[2] / "docs" / "assessment.md"


def test_the_page_is_up_to_date():
    text = PAGE.read_text("utf-8")
    assert text == assessment.with_rules(text), "make docs"
