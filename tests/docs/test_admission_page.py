"""The documentation page is what the requirements say, and each says what it has to."""

import runpy
from pathlib import Path

import pytest

from tools.docgen import admission
from vsphere_ai.admission.admit import every_requirement
from vsphere_ai.app.project import explanations

ROOT = Path(__file__).parents[2]


def test_the_page_is_up_to_date():
    written = (ROOT / "docs" / "admission.md").read_text("utf-8")
    assert written == admission.page(), "run: python -m tools.docgen.admission > docs/admission.md"


def test_every_requirement_has_its_section_a_source_and_an_explanation():
    text = admission.page()
    for each in every_requirement():
        assert f"\n## {each.id}\n" in text
        assert each.source in text
        assert each.doc.partition("\n")[0].endswith(".")
        (explained,) = explanations.explain(each.id)
        assert explained.page == "docs/admission.md"


@pytest.mark.filterwarnings("ignore:.*found in sys.modules")
def test_the_command_prints_the_page(capsys):
    runpy.run_module("tools.docgen.admission", run_name="__main__")
    assert capsys.readouterr().out == admission.page()
