"""Certificate of a hand-over as text, Markdown, CTRF (JSON of test results) and JUnit (XML)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple
from xml.etree import ElementTree as Xml

from vsphere_ai.health.certificate import Certificate, FactChange, Gate, Measurement, Status, saved
from vsphere_ai.model.text import counted, duration, safe
from vsphere_ai.planning.document import dumps
from vsphere_ai.report.folding import fitted
from vsphere_ai.report.layout import cell

CTRF: Mapping[Status, str] = {"pass": "passed", "warn": "passed", "unknown": "other", "fail": "failed"}
MOST_REASONS = 8
VERDICTS: Mapping[str, tuple[str, str]] = {"assess": ("verdict", " of rules"), "health": ("verdict", " of checks")}
"""Gates that judge: what each of their results is, and of what."""


def certificate_in(certificate: Certificate, form: str, width: int, kept: Collection[str] = ()) -> str:
    """Return a certificate in a form: `text`, `markdown`, `json` (its file), `ctrf` or `junit`.

    `width` is in columns, for text; `kept` are gates that were not carried out now, since what they found holds.
    """
    if form == "text":
        return certificate_text(certificate, width, kept)
    if form in ("json", "ctrf"):
        return dumps(saved(certificate) if form == "json" else ctrf(certificate))
    forms = {"markdown": certificate_markdown, "junit": junit}
    return forms[form](certificate)


def certificate_text(certificate: Certificate, width: int, kept: Collection[str] = ()) -> str:
    """Return a certificate as text: a line per gate, and why those that did not pass did not, with remedies."""
    lines = [
        f"Acceptance of {safe(certificate.set)}, vCenter {safe(certificate.vcenter)}: {certificate.status.upper()}",
        f"issued {certificate.issued:%Y-%m-%d %H:%M} UTC by {safe(certificate.tool)}, "
        f"on {_facts(certificate)}, digest {certificate.digest[:12]}",
        "",
    ]
    for gate in certificate.gates:
        lines.append(f"  {gate.status:<8}{safe(gate.name):<8}  {_taken(gate, is_kept=gate.name in kept)}")
        for text, remedy in gate.findings[:MOST_REASONS]:
            lines += [f"          {safe(text)}", *([f"          -> {safe(remedy)}"] if remedy else [])]
        more = len(gate.findings) - MOST_REASONS
        lines += [f"          and {more} more; --format json has all of them"] if more > 0 else []
    return fitted("\n".join(lines), width)


def _taken(gate: Gate, *, is_kept: bool) -> str:
    """Return how much a gate measured or judged, and when or for how long."""
    one, of = VERDICTS.get(gate.name, ("measurement", ""))
    text = counted(len(gate.measurements), one) + of
    times = sorted(m.taken for m in gate.measurements if m.taken)
    if is_kept and times:
        return f"{text}, kept: measured {times[0]:%Y-%m-%d %H:%M} UTC"
    text += f" in {duration(gate.seconds)}" if gate.seconds >= 1 else ""
    is_mixed = bool(times) and times[-1] - times[0] > timedelta(minutes=1)
    return f"{text}, the oldest of {times[0]:%Y-%m-%d %H:%M} UTC" if is_mixed else text


def changes_text(
    certificate: Certificate, changes: Sequence[FactChange], tests: Sequence[tuple[str, Measurement]], width: int
) -> str:
    """Return which facts of a certificate changed, and which tests of which gates have to be taken again."""
    if not changes:
        bad = ", ".join(f"{safe(g.name)} ({g.status})" for g in certificate.gates if CTRF[g.status] != "passed")
        holds = f"The certificate holds: {_facts(certificate)} are as certified."
        return fitted(f"{holds}\nNot passed: {bad}" if bad else holds, width)
    lines = [f"The certificate does not hold any more: {counted(len(changes), 'fact')} changed."]
    for change in changes:
        before, after = (safe(v) if v is not None else "not there" for v in (change.before, change.after))
        lines.append(f"  {safe(change.part)}  {safe(change.name)}: {before} → {after}")
    total = sum(len(g.measurements) for g in certificate.gates)
    lines.append(f"{len(tests)} of {counted(total, 'test')} have to be taken again:")
    for name in dict.fromkeys(gate for gate, _ in tests):
        own = [m.name for gate, m in tests if gate == name]
        lines.append(f"  {name}: {len(own)}, such as {safe(own[0])}")
    return fitted("\n".join(lines), width)


def certificate_markdown(certificate: Certificate) -> str:
    """Return a certificate as Markdown: gates, their measurements, the facts and the checksums of its inputs."""
    lines = [f"# Acceptance of {cell(certificate.set)}: {certificate.status}", ""]
    lines += [
        f"vCenter {cell(certificate.vcenter)}, issued {certificate.issued:%Y-%m-%d %H:%M} UTC by {certificate.tool}."
    ]
    lines += [f"SHA-256 of the content: `{certificate.digest}`", "", "| gate | status | reasons |", "|---|---|---|"]
    lines += [
        f"| {cell(g.name)} | {g.status} | {cell('; '.join(g.reasons[:MOST_REASONS]))} |" for g in certificate.gates
    ]
    for gate in certificate.gates:
        lines += [
            "",
            f"## {cell(gate.name)}",
            "",
            "| status | test | parts | value | limit | finding |",
            "|---|---|---|---|---|---|",
        ]
        lines += [f"| {' | '.join(_row(m))} |" for m in gate.measurements]
    lines += ["", "## Facts", "", "| part | fact | value |", "|---|---|---|"]
    for part, facts in sorted(certificate.facts.items()):
        lines += [f"| {cell(part)} | {cell(name)} | {cell(value)} |" for name, value in sorted(facts.items())]
    lines += ["", "## Inputs", "", "| file | SHA-256 |", "|---|---|"]
    lines += [f"| {cell(name)} | `{checksum}` |" for name, checksum in sorted(certificate.inputs.items())]
    return "\n".join(lines)


def ctrf(certificate: Certificate) -> dict[str, object]:
    """Return a certificate in the Common Test Report Format (https://ctrf.io): a test per measurement.

    A gate without what it needs is a failed test of its own. Times are in milliseconds.
    """
    tests = [
        {"name": t.name, "status": t.status, "duration": 0, "suite": gate.name, "message": t.message}
        for gate in certificate.gates
        for t in _tests(gate)
    ]
    counts = {s: sum(t["status"] == s for t in tests) for s in ("passed", "failed", "pending", "skipped", "other")}
    stop = int(certificate.issued.timestamp() * 1000)
    start = stop - int(sum(g.seconds for g in certificate.gates) * 1000)
    summary = {"tests": len(tests), **counts, "start": start, "stop": stop}
    return {"results": {"tool": {"name": certificate.tool}, "summary": summary, "tests": tests}}


def junit(certificate: Certificate) -> str:
    """Return a certificate as JUnit XML: a suite per gate; unknown is an error, and a warning is system output."""
    root = Xml.Element("testsuites", name=_printable(f"acceptance of {certificate.set}"))
    for gate in certificate.gates:
        suite = Xml.SubElement(root, "testsuite", name=_printable(gate.name), time=f"{gate.seconds:.3f}")
        for test in _tests(gate):
            case = Xml.SubElement(suite, "testcase", name=_printable(test.name), classname=_printable(gate.name))
            said = _printable(test.message)
            if test.status == "failed":
                Xml.SubElement(case, "failure", message=said)
            elif test.status == "other":
                Xml.SubElement(case, "error", message=said)
            elif test.warns:
                Xml.SubElement(case, "system-out").text = said
        found = list(suite)
        suite.set("tests", str(len(found)))
        suite.set("failures", str(sum(c.find("failure") is not None for c in found)))
        suite.set("errors", str(sum(c.find("error") is not None for c in found)))
    Xml.indent(root)
    return Xml.tostring(root, encoding="unicode", xml_declaration=True)


class _Test(NamedTuple):
    name: str
    status: str
    message: str
    warns: bool = False


def _tests(gate: Gate) -> list[_Test]:
    found = [
        _Test(f"{m.name} [{', '.join(m.parts)}]" if m.parts else m.name, CTRF[m.status], m.text, m.status == "warn")
        for m in gate.measurements
    ]
    absent = gate.missing or (() if gate.measurements and not gate.error else (gate.name,))
    reasons = [gate.error] if gate.error else []
    return [*found, *(_Test(n, "failed", "; ".join([*reasons, f"no measurement of {n}"])) for n in absent)]


def _row(found: Measurement) -> Iterable[str]:
    yield found.status
    yield cell(found.name)
    yield cell(", ".join(found.parts))
    yield "" if found.value is None else f"{found.value:g} {found.unit}".strip()
    yield "" if found.limit is None else f"{found.limit:g} {found.unit}".strip()
    yield cell(found.text)


def _facts(certificate: Certificate) -> str:
    return f"{sum(map(len, certificate.facts.values()))} facts of {counted(len(certificate.facts), 'part')}"


def _printable(text: str) -> str:
    """Return a text that XML may hold: control characters are not allowed in it."""
    return safe(text).encode("utf-8", "backslashreplace").decode()
