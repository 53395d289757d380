"""Report of `check --format json`: a matrix of rules and targets, what did not pass, and what passed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from vsphere_ai.report.pages.pictures.matrix import ORDER, matrix
from vsphere_ai.report.pages.plan_page import FINDING, FINDING_KEYS, checked_findings
from vsphere_ai.report.pages.tables import Entry, about, kept, vcenter_facts
from vsphere_ai.report.pages.values import Number, Report, Section, Status

_WORDS: Mapping[Status, str] = {"fail": "fail", "unknown": "not known", "warn": "warn", "pass": "pass"}


def check_report(check: Entry) -> Report:
    """Return the report of findings, given as the JSON values that `check` prints."""
    findings = check["findings"]
    count = Counter(each["verdict"] for each in findings)
    bad = [each for each in findings if each["verdict"] != "pass"]
    passed = [each for each in findings if each["verdict"] == "pass"]
    drawn = matrix(findings)
    note = "Their evidence is in the JSON."
    sections = kept(
        Section("Rules and targets", FINDING, about(bad, FINDING_KEYS), "", (drawn,) if drawn else ()),
        Section("What passed", ("targets", "rule", "message"), about(passed, ("rule", "message")), note, folded=True),
    )
    verdict = ", ".join(f"{count[v]} {words}" for v, words in _WORDS.items() if count[v]) or "nothing to check"
    status = next((each for each in reversed(ORDER) if count[each]), ORDER[0])
    numbers = tuple(Number(str(count[v]), words, v) for v, words in _WORDS.items() if count[v])
    cases, results = checked_findings(findings, lambda _: ("", 0, 0))
    return Report("Compatibility", verdict, status, vcenter_facts(check), sections, cases, results, numbers)
