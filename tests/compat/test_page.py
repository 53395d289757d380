"""The documentation page is what the rules say."""

import runpy
from pathlib import Path

import pytest

from vsphere_ai.compat import gate, page

ROOT = Path(__file__).parents[2]


def test_the_page_is_up_to_date():
    written = (ROOT / "docs" / "compatibility.md").read_text("utf-8")
    assert written == page.page(), "run: python -m vsphere_ai.compat.page > docs/compatibility.md"


def test_every_rule_has_its_section():
    text = page.page()
    for rule in gate.rules():
        assert f"\n### {rule.id}\n" in text
        assert rule.source in text
        for verdict, when in rule.verdicts.items():
            assert f"| {verdict} | {when}" in text


@pytest.mark.filterwarnings("ignore:.*found in sys.modules")
def test_the_command_prints_the_page(capsys):
    runpy.run_module("vsphere_ai.compat.page", run_name="__main__")
    assert capsys.readouterr().out == page.page()
