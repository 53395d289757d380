"""The documentation page is what the rules say."""

import runpy
from pathlib import Path

import pytest

from tools.docgen import compatibility
from vsphere_ai.compat import gate

ROOT = Path(__file__).parents[2]


def test_the_page_is_up_to_date():
    written = (ROOT / "docs" / "compatibility.md").read_text("utf-8")
    assert written == compatibility.page(), "run: python -m tools.docgen.compatibility > docs/compatibility.md"


def test_every_rule_has_its_section():
    text = compatibility.page()
    for rule in gate.rules():
        assert f"\n### {rule.id}\n" in text
        assert rule.source in text
        for verdict, when in rule.verdicts.items():
            assert f"| {verdict} | {when}" in text


@pytest.mark.filterwarnings("ignore:.*found in sys.modules")
def test_the_command_prints_the_page(capsys):
    runpy.run_module("tools.docgen.compatibility", run_name="__main__")
    assert capsys.readouterr().out == compatibility.page()
