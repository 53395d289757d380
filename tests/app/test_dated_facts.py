"""Tables of public facts have their sources and the day on which these were read."""

from __future__ import annotations

import re
from datetime import date, timedelta
from pathlib import Path

from vsphere_ai.app.project.dated_facts import OLD_DAYS, dated_facts, fact_ages

PACKAGE = Path(__file__).parents[2] / "vsphere_ai"


def test_each_table_that_names_a_source_has_its_day():
    named = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.yaml")
        if re.search(r"(?i)\bsources?\b[^\n]*:", path.read_text("utf-8"))
    }
    assert named == {table.file for table in dated_facts()} != set()


def test_an_old_table_is_named_and_is_no_failure():
    newest = max(table.read for table in dated_facts())
    assert {finding.verdict for finding in fact_ages(newest)} == {"pass"}
    later = list(fact_ages(newest + timedelta(days=OLD_DAYS + 1)))
    assert {finding.verdict for finding in later} == {"info"}
    assert all("update vsphere-ai" in finding.remedy for finding in later)
    before = list(fact_ages(date(2020, 1, 1)))
    assert all("0 days old" in finding.message for finding in before), "a clock that is behind makes no table newer"
