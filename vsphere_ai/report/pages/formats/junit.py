"""JUnit XML of a report: a test case per check, measurement or step, for CI systems that show such files."""

from __future__ import annotations

from xml.etree import ElementTree as Xml

from vsphere_ai.model.text import safe
from vsphere_ai.report.layout import grouped
from vsphere_ai.report.pages.values import JunitCase, Report


def junit(report: Report) -> str:
    """Return a report as JUnit XML: fail is a failure, unknown an error, and warn has its message as output."""
    root = Xml.Element("testsuites", name=_printable(report.title))
    times = dict(report.suites)
    for name, cases in grouped((case.suite, case) for case in report.cases).items():
        suite = Xml.SubElement(root, "testsuite", name=_printable(name))
        suite.set("tests", str(len(cases)))
        suite.set("failures", str(sum(c.status == "fail" for c in cases)))
        suite.set("errors", str(sum(c.status == "unknown" for c in cases)))
        suite.set("time", f"{times.get(name, sum(c.seconds for c in cases if c.seconds is not None)):.3f}")
        for case in cases:
            _add(suite, case)
    Xml.indent(root)
    return Xml.tostring(root, encoding="unicode", xml_declaration=True)


def _add(suite: Xml.Element, case: JunitCase) -> None:
    made = Xml.SubElement(suite, "testcase", name=_printable(case.name), classname=_printable(case.suite))
    if case.seconds is not None:
        made.set("time", f"{case.seconds:.3f}")
    said = _printable(case.message)
    if case.status == "fail":
        Xml.SubElement(made, "failure", message=said)
    elif case.status == "unknown":
        Xml.SubElement(made, "error", message=said)
    elif case.message:
        Xml.SubElement(made, "system-out").text = said


def _printable(text: str) -> str:
    """Return a text that XML may hold: control characters are not allowed in it."""
    return safe(text).encode("utf-8", "backslashreplace").decode()
