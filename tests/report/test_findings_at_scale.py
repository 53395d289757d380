"""Findings of many objects fit on two screens, the worst first; nothing that is wrong is left out unsaid."""

from __future__ import annotations

import re

import pytest
from support import large_reports

from vsphere_ai.documents.findings import FindingDocument
from vsphere_ai.model.finding import Finding
from vsphere_ai.model.state import Target
from vsphere_ai.report.findings_text import findings_text

SIZES = ((2, 2), (8, 24), (64, 192), (250, 750))
HEIGHT, WIDTH = 40, 120
ORDER = ("fail", "unknown", "warn", "info", "pass")


def findings(hosts, vms):
    return [FindingDocument.model_validate(each).finding for each in large_reports.check(hosts, vms)["findings"]]


@pytest.mark.parametrize(("hosts", "vms"), SIZES)
def test_two_screens_hold_the_findings_of_any_number_of_objects(hosts, vms):
    lines = findings_text(findings(hosts, vms), "all", passes=True, full=False, width=WIDTH).splitlines()
    assert len(lines) <= 2 * HEIGHT
    assert max(map(len, lines)) <= WIDTH


@pytest.mark.parametrize(("hosts", "vms"), SIZES)
@pytest.mark.parametrize("full", [False, True])
def test_the_worst_come_first(hosts, vms, full):
    text = findings_text(findings(hosts, vms), "all", passes=False, full=full, width=WIDTH)
    blocks = re.split(r"^(?=\S)", text, flags=re.MULTILINE)
    verdicts = [found[0] for block in blocks if (found := re.findall(r"^  (\w+) +\w+\.", block, re.MULTILINE))]
    assert verdicts == sorted(verdicts, key=ORDER.index)


def of(number, verdict="fail"):
    host = Target("host", f"esx{number:04}", f"HostSystem:host-{number}")
    return Finding(host, f"rule.of-{number}", verdict, f"{'x' * number} is wrong", "repair it")


def test_more_kinds_of_findings_than_fit_are_counted_by_verdict():
    every = [of(n, "warn" if n % 2 else "fail") for n in range(1, 101)]
    lines = findings_text(every, "all", full=False, width=WIDTH).splitlines()
    assert len(lines) <= 2 * HEIGHT
    shown = [line.split()[0] for line in lines if re.match(r"  (fail|warn) ", line)]
    hidden = {word: int(n) for n, word in re.findall(r"(\d+) (\w+)", next(li for li in lines if "not shown: " in li))}
    assert shown.count("fail") + hidden.get("fail", 0) == 50
    assert shown.count("warn") + hidden.get("warn", 0) == 50
    assert shown == sorted(shown, key=ORDER.index)
    assert "--full shows each object by itself" in lines[-2]
    assert lines[-1] == "50 fail, 50 warn"


def test_a_command_without_the_option_does_not_name_it():
    every = [of(n) for n in range(1, 101)]
    assert "--full" not in findings_text(every, "all", width=WIDTH)
    assert "-o json has each object" in findings_text(every, "all", width=WIDTH)


def test_full_has_each_object_with_its_evidence():
    text = findings_text(findings(250, 750), "all", passes=False, full=True, width=WIDTH)
    wrong = {f.target.name for f in findings(250, 750) if f.verdict != "pass" and f.target.name.isascii()}
    assert len(wrong) > 40
    assert all(re.search(rf"^{re.escape(name)}$", text, re.MULTILINE) for name in wrong if "<" not in name)
    assert "evidence: config.product.build" in text
