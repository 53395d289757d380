"""Report of the findings of any command: a matrix of rules and subjects, failures and warnings, and what passed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from vsphere_ai.model.finding import VERDICTS, Verdict
from vsphere_ai.report.pages.pictures.matrix import STATUS, matrix
from vsphere_ai.report.pages.plan_page import checked_findings
from vsphere_ai.report.pages.tables import FINDING, Entry, about_findings, kept, vcenter_facts
from vsphere_ai.report.pages.values import Report, ReportFigure, ReportSection

_WORDS: Mapping[Verdict, str] = {"unknown": "not known"}


def findings_report(document: Entry) -> Report:
    """Return the report of findings, given as the JSON values that a command prints."""
    findings = document["findings"]
    count = Counter(each["verdict"] for each in findings)
    bad = [each for each in findings if each["verdict"] != "pass"]
    passed = [each for each in findings if each["verdict"] == "pass"]
    drawn = matrix(findings)
    note = "Their evidence is in the JSON."
    sections = kept(
        ReportSection("Rules and targets", FINDING, about_findings(bad), "", (drawn,) if drawn else ()),
        ReportSection(
            "What passed",
            ("targets", "rule", "message"),
            about_findings(passed, ("rule", "message")),
            note,
            folded=True,
        ),
    )
    shown = [(v, _WORDS.get(v, v)) for v in reversed(VERDICTS) if count[v]]
    verdict = ", ".join(f"{count[v]} {words}" for v, words in shown) or "nothing to check"
    status = STATUS[shown[0][0]] if shown else "pass"
    numbers = tuple(ReportFigure(str(count[v]), words, STATUS[v]) for v, words in shown)
    cases, results = checked_findings(findings, lambda _: ("", 0, 0))
    vcenter = document.get("vcenter")
    facts = vcenter_facts(document) if isinstance(vcenter, Mapping) else (("vCenter", vcenter),) if vcenter else ()
    return Report("Findings", verdict, status, facts, sections, cases, results, numbers)
