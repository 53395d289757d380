"""Certificate of a hand-over as text and as JSON, and what has changed since."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType

from vsphere_ai.health.certificate import Certificate, FactChange, Gate, Measurement
from vsphere_ai.health.certificate_document import (
    CertificateStateDocument,
    RepeatedTestDocument,
    certificate_document,
    digest_of,
)
from vsphere_ai.model.finding import VERDICTS as VERDICT_SCALE
from vsphere_ai.model.finding import Finding, Subject, Verdict
from vsphere_ai.model.names.name_ranges import listed
from vsphere_ai.model.text import counted, duration, safe
from vsphere_ai.report.findings_text import TWO_SCREENS
from vsphere_ai.report.folding import alike, fitted, shape
from vsphere_ai.report.json_text import json_text
from vsphere_ai.report.layout import grouped

MOST_REASONS = 8
"""Reasons that a gate shows."""
FEWEST_REASONS = 3
"""The same where all gates together would be more than two screens."""
VERDICTS: Mapping[str, tuple[str, str]] = {"assess": ("verdict", " of rules"), "health": ("verdict", " of checks")}
"""Gates that judge: what each of their results is, and of what."""


def certificate_json(certificate: Certificate) -> str:
    """Return the content of the file of a certificate."""
    return json_text(certificate_document(certificate))


def changes_json(
    changes: Sequence[FactChange], tests: Sequence[tuple[str, Measurement]], findings: Sequence[Finding]
) -> str:
    """Return as JSON which facts of a certificate changed, and which tests of which gates have to be taken again."""
    again = tuple(RepeatedTestDocument(gate=gate, test=test.name, parts=test.parts) for gate, test in tests)
    return json_text(CertificateStateDocument.of(findings, changes=tuple(changes), tests=again))


def certificate_text(certificate: Certificate, width: int, kept: Collection[str] = (), *, full: bool = False) -> str:
    """Return a certificate as text: a line per gate, and why those that did not pass did not, the worst first.

    Reasons that differ in names and numbers only are shown by one of them; of a gate at most so many that all is on two
    screens. With `full` each reason is shown.
    """
    text = fitted("\n".join(_lines(certificate, kept, sys.maxsize if full else MOST_REASONS, full=full)), width)
    if len(text.splitlines()) > TWO_SCREENS and not full:
        text = fitted("\n".join(_lines(certificate, kept, FEWEST_REASONS, full=full)), width)
    return text


def _lines(certificate: Certificate, kept: Collection[str], most: int, *, full: bool) -> list[str]:
    lines = [
        f"Acceptance of {safe(certificate.set)}, vCenter {safe(certificate.vcenter)}: {certificate.status.upper()}",
        f"issued {certificate.issued:%Y-%m-%d %H:%M} UTC by {safe(certificate.tool)}, "
        f"on {_facts(certificate)}, digest {digest_of(certificate)[:12]}",
        "",
    ]
    for gate in certificate.gates:
        lines.append(f"  {gate.status:<8}{safe(gate.name):<8}  {_taken(gate, is_kept=gate.name in kept)}")
        reasons = _reasons(gate, full=full)
        for (_, message, remedy), number in reasons[:most]:
            alike_text = f" ({number} alike; this is one of them)" if number > 1 else ""
            lines += [f"          {safe(message)}{alike_text}", *([f"          -> {safe(remedy)}"] if remedy else [])]
        more = sum(number for _, number in reasons[most:])
        lines += [f"          and {more} more; --full shows all"] if more > 0 else []
    lines += [f"  {'unknown':<8}{safe(name):<8}  not carried out" for name in certificate.left_out]
    return [*lines, *_not_asked(certificate.not_asked, "not certified")]


def _reasons(gate: Gate, *, full: bool) -> list[tuple[tuple[Verdict, str, str], int]]:
    """Return why a gate did not pass, the worst first, each with how many others are alike but for their values."""
    of_gate = Subject("gate", gate.name)
    values = [((f.verdict, f.message, f.remedy), of_gate) for f in gate.findings if f.verdict != "pass"]
    rows = alike(values, lambda value, _: (value[0], shape(value[1], None), shape(value[2], None)), full=full)
    reasons = [(row.value, len(row.targets)) for row in rows]
    return sorted(reasons, key=lambda each: -VERDICT_SCALE.index(each[0][0]))


def _not_asked(vms: Mapping[str, str], what: str) -> list[str]:
    """Return which guests could not be asked, by reason; `what` says what follows for their drivers and packages."""
    lines = [f"Driver, CUDA and packages of guests that cannot be asked are {what}:"] if vms else []
    of = grouped((why, vm) for vm, why in vms.items())
    return [*lines, *(f"  {listed(names)}: {safe(why)}" for why, names in of.items())]


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
    certificate: Certificate,
    changes: Sequence[FactChange],
    tests: Sequence[tuple[str, Measurement]],
    width: int,
    not_asked: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Return which facts of a certificate changed, and which tests of which gates have to be taken again."""
    unknown = _not_asked(not_asked, "not compared")
    if not changes:
        bad = ", ".join(f"{safe(g.name)} ({g.status})" for g in certificate.gates if not g.passed)
        holds = f"The certificate holds: {_facts(certificate)} are as certified."
        if unknown:
            holds = "Whether the certificate holds is not known: no fact that could be read has changed."
        left = ", ".join(map(safe, certificate.left_out))
        more = [*([f"Not passed: {bad}"] if bad else []), *([f"Not carried out: {left}"] if left else [])]
        return fitted("\n".join([holds, *more, *unknown]), width)
    lines = [f"The certificate does not hold any more: {counted(len(changes), 'fact')} changed."]
    for change in changes:
        before, after = (safe(v) if v is not None else "not there" for v in (change.before, change.after))
        lines.append(f"  {safe(change.part)}  {safe(change.name)}: {before} → {after}")
    total = sum(len(g.measurements) for g in certificate.gates)
    lines.append(f"{len(tests)} of {counted(total, 'test')} have to be taken again:")
    for name in dict.fromkeys(gate for gate, _ in tests):
        own = [m.name for gate, m in tests if gate == name]
        lines.append(f"  {name}: {len(own)}, such as {safe(own[0])}")
    lines += unknown
    return fitted("\n".join(lines), width)


def _facts(certificate: Certificate) -> str:
    return f"{sum(map(len, certificate.facts.values()))} facts of {counted(len(certificate.facts), 'part')}"
