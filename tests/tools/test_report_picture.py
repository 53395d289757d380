"""A picture of a report as a file of its own: valid XML with its style and patterns, and nothing that is loaded."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest
from support import large_reports

from tools.docgen.report_picture import main, picture_of
from vsphere_ai.report.pages.formats.html import html
from vsphere_ai.report.pages.plan_page import plan_report
from vsphere_ai.report.pages.run_page import run_report
from vsphere_ai.report.pages.trace_page import trace_report

PAGES = {
    "gpus": html(plan_report(large_reports.plan(2, 4))),
    "time": html(run_report(large_reports.run(2, 4))),
    "paths": html(trace_report(large_reports.trace(2, 8))),
}
DOCS = Path(__file__).parents[2] / "docs" / "pictures"
NAME = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("kind", PAGES)
def test_a_picture_stands_by_itself(kind, tmp_path):
    report, file = tmp_path / "report.html", tmp_path / "picture.svg"
    report.write_text(PAGES[kind], "utf-8")
    assert main([str(report), kind, str(file)]) == 0
    root = Xml.parse(file).getroot()
    patterns = {each.get("id") for each in root.iter(f"{NAME}pattern")}
    used = {each.get("fill")[5:-1] for each in root.iter() if (each.get("fill") or "").startswith("url(#")}
    assert used <= patterns
    assert root.find(f"{NAME}title").text
    assert "--fg" in root.find(f"{NAME}style").text
    assert "href" not in file.read_text("utf-8")


def test_a_page_without_the_picture_is_refused():
    with pytest.raises(ValueError, match="paths"):
        picture_of(PAGES["gpus"], "paths")


@pytest.mark.parametrize("name", ["report-gpus.svg", "report-paths.svg"])
def test_the_pictures_of_the_documentation_are_small_and_well_formed(name):
    text = (DOCS / name).read_text("utf-8")
    assert len(text) < 12_000
    assert Xml.fromstring(text).find(f"{NAME}title").text
