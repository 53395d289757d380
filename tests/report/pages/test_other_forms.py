"""Markdown, JUnit and SARIF of a report."""

import json
from xml.etree import ElementTree as Xml

from vsphere_ai.report.pages.formats.junit import junit
from vsphere_ai.report.pages.formats.markdown import MOST, markdown
from vsphere_ai.report.pages.formats.sarif import sarif
from vsphere_ai.report.pages.values import JunitCase, Report, ReportSection, SarifResult

HOSTILE = "a|b <img> [x](http://e) `c` @all\x1b\n"
CASES = (
    JunitCase("steps", "s001 esx01: reboot", "pass", "done", 61.5),
    JunitCase("steps", f"s002 {HOSTILE}", "fail", HOSTILE),
    JunitCase("findings", "vm.x [vm1]", "warn", "old"),
    JunitCase("findings", "vm.y [vm1]", "unknown", "not known"),
)
RESULTS = (
    SarifResult("vm.y", "unknown", "not known", ("vm1",)),
    SarifResult("vgpu.capacity", "fail", HOSTILE, (HOSTILE,), "play books/farm.yml", 7),
)


def report(rows=((HOSTILE, "b"),), **more):
    sections = (
        ReportSection("Problems", ("target", "message"), tuple(rows)),
        ReportSection("Steps", ("step", "x"), (("s1", "y"),)),
    )
    return Report("Plan farm.yml", "refused: 1 problem", "fail", (("vCenter", "vc01"),), sections, **more)


def test_markdown_has_every_row_and_no_markup_from_outside():
    text = markdown(report())
    assert "| s1 | y |" in text
    row = next(line for line in text.splitlines() if "img" in line)
    assert row == r"| a\\|b &lt;img> \[x\](http\://e) \`c\` \@all�� | b |".replace(r"\\|", "\\|")


def test_markdown_that_is_too_long_is_a_summary_that_says_so():
    rows = [(f"esx{n:05}", "message " * 5) for n in range(5000)]
    text = markdown(report(rows))
    assert len(text) <= MOST
    assert "This is a summary" in text
    shown = sum(f"| esx{n:05} |" in text for n in range(5000))
    assert shown > 500
    assert f"{5000 - shown} more of 5000 rows are left out" in text
    assert "| s1 | y |" in text


def test_junit_has_a_case_per_check_and_step():
    root = Xml.fromstring(junit(report(cases=CASES)))
    suites = [tuple(s.get(k) for k in ("name", "tests", "failures", "errors")) for s in root]
    assert suites == [("steps", "2", "1", "0"), ("findings", "2", "0", "1")]
    assert root[0].get("time") == "61.500"
    assert "\x1b" not in root.find(".//failure").get("message")
    assert root.find(".//system-out").text == "done"


def test_sarif_has_the_worst_first_with_file_line_and_target():
    document = json.loads(sarif(report(results=RESULTS)))
    assert document["version"] == "2.1.0"
    run = document["runs"][0]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert [(r["ruleId"], r["level"], rules[r["ruleIndex"]]) for r in run["results"]] == [
        ("vgpu.capacity", "error", "vgpu.capacity"),
        ("vm.y", "note", "vm.y"),
    ]
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "play%20books/farm.yml"}, "region": {"startLine": 7}}
    assert run["results"][1]["locations"][0] == {"logicalLocations": [{"fullyQualifiedName": "vm1"}]}


def test_sarif_says_what_it_leaves_out():
    run = json.loads(sarif(report(results=RESULTS * 3000)))["runs"][0]
    assert len(run["results"]) == 5000
    assert run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"] == "1000 more results are left out"
