"""Report of a certificate: gates, every measurement, the facts they rest on, and the files they are judged by."""

from __future__ import annotations

from dataclasses import replace

from vsphere_ai.health.certificate import Certificate, Gate, Measurement
from vsphere_ai.health.certificate_document import digest_of
from vsphere_ai.model.finding import Finding
from vsphere_ai.model.text import duration
from vsphere_ai.report.layout import grouped
from vsphere_ai.report.pages.pictures.matrix import STATUS
from vsphere_ai.report.pages.tables import kept
from vsphere_ai.report.pages.values import JunitCase, Report, ReportFigure, ReportSection, Row, SarifResult

_HEADS = ("status", "test", "parts", "value", "limit", "finding", "measured (UTC)")


def certificate_report(certificate: Certificate) -> Report:
    """Return the report of a certificate."""
    gates = certificate.gates
    rows = tuple((g.name, g.status, str(len(g.measurements)), duration(g.seconds), ", ".join(g.needs)) for g in gates)
    rows += tuple((name, "unknown", "0", "", "not carried out") for name in certificate.left_out)
    reasons = tuple((g.name, _reason(f)) for g in gates for f in g.findings if f.verdict != "pass")
    reasons += tuple((name, "not carried out") for name in certificate.left_out)
    heads = ("gate", "status", "measurements", "took", "needs")
    same = grouped(((name, value), part) for part, own in certificate.facts.items() for name, value in own.items())
    sections = kept(
        ReportSection("Gates", heads, rows),
        ReportSection("Failures and warnings", ("gate", "reason"), reasons, wrong=certificate.status != "pass"),
        *(ReportSection(f"Gate {g.name}", _HEADS, tuple(map(_row, g.measurements))) for g in gates),
        ReportSection(
            "Facts",
            ("fact", "value", "parts"),
            tuple((n, v, ", ".join(parts)) for (n, v), parts in same.items()),
            folded=True,
        ),
        ReportSection("Guests not asked", ("VM", "reason"), tuple(certificate.not_asked.items())),
        ReportSection("Inputs", ("file", "SHA-256"), tuple(sorted(certificate.inputs.items())), folded=True),
    )
    facts = (
        ("set", certificate.set),
        ("vCenter", certificate.vcenter),
        ("issued", f"{certificate.issued:%Y-%m-%d %H:%M:%S} UTC"),
        ("by", certificate.tool),
        ("SHA-256", digest_of(certificate)),
    )
    status = STATUS[certificate.status]
    passed = sum(g.passed for g in gates)
    total = len(gates) + len(certificate.left_out)
    verdict = f"{certificate.status}: {passed} of {total} gates passed or only warn"
    verdict += f"; not carried out: {', '.join(certificate.left_out)}" if certificate.left_out else ""
    cases = tuple(case for gate in gates for case in _cases(gate))
    results = tuple(
        SarifResult(f"{g.name}.{m.name}", STATUS[m.status], m.text, m.parts)
        for g in gates
        for m in g.measurements
        if m.status != "pass"
    ) + tuple(
        SarifResult(g.name, "fail", reason)
        for g in gates
        for reason in ((g.error,) if g.error else ()) + tuple(f"no measurement of {n}" for n in g.missing)
    )
    title = f"Acceptance of {certificate.set}"
    numbers = (ReportFigure(f"{passed} of {total}", "gates passed", status),)
    made = Report(title, verdict, status, facts, sections, cases, results, numbers)
    return replace(made, suites=tuple((g.name, g.seconds) for g in gates), ended=certificate.issued.timestamp())


def _reason(finding: Finding) -> str:
    return f"{finding.message}; {finding.remedy}" if finding.remedy else finding.message


def _row(found: Measurement) -> Row:
    value, limit = ("" if n is None else f"{n:g} {found.unit}".strip() for n in (found.value, found.limit))
    taken = f"{found.taken:%Y-%m-%d %H:%M:%S}" if found.taken else ""
    name = found.name if found.test in ("", found.name) else f"{found.name} (of {found.test})"
    return found.status, name, ", ".join(found.parts), value, limit, found.text, taken


def _cases(gate: Gate) -> list[JunitCase]:
    found = [
        JunitCase(gate.name, f"{m.name} [{', '.join(m.parts)}]" if m.parts else m.name, STATUS[m.status], m.text)
        for m in gate.measurements
    ]
    absent = gate.missing or (() if gate.measurements and not gate.error else (gate.name,))
    why = f"{gate.error}; " if gate.error else ""
    return [*found, *(JunitCase(gate.name, n, "fail", f"{why}no measurement of {n}") for n in absent)]
