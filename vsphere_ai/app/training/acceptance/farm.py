"""Acceptance of a set: gates carried out one after the other, and the certificate that comes of them.

The certificate is written after each gate, so that an acceptance that was cut off goes on where it was. What holds is
not measured again: a gate of the certificate counts as long as it passed and the facts it rests on are the same.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from vsphere_ai import __version__
from vsphere_ai.app.estate.read_estate import read_for
from vsphere_ai.app.estate.references import load
from vsphere_ai.app.estate.session import open_session
from vsphere_ai.app.events import Emit, Remark, Status, ignore
from vsphere_ai.app.training.acceptance.answers import unanswered_questions
from vsphere_ai.app.training.acceptance.gates import ALWAYS, GATES
from vsphere_ai.app.training.acceptance.values import ORDER, Acceptance, AcceptRequest, GateName
from vsphere_ai.app.training.nodes.listed import NodesRequest, guest_settings, read_nodes
from vsphere_ai.compat import assessment
from vsphere_ai.compat.certified_facts import PATHS, certified_facts
from vsphere_ai.errors import InputError, UsageError, VsphereAiError
from vsphere_ai.health.certificate import (
    INPUT,
    MOST_NAMES,
    SET,
    Certificate,
    FactChange,
    Gate,
    Measurement,
    changes_since,
    is_unknown,
    of_not_asked,
    renewed,
    void,
    with_open_failures,
    without_void,
)
from vsphere_ai.health.certificate_document import certificate_document, open_certificate
from vsphere_ai.health.guest_probes import CERTIFIED
from vsphere_ai.language.inventories.inventory import Inventory
from vsphere_ai.language.yaml_files.document import content_of
from vsphere_ai.model.facts import Estate
from vsphere_ai.model.finding import Finding, Subject
from vsphere_ai.model.nodes import Node
from vsphere_ai.model.records.assessment import Records
from vsphere_ai.model.text import counted
from vsphere_ai.model.view import View
from vsphere_ai.planning.observing import evaluate_with, observe
from vsphere_ai.resources import kinds
from vsphere_ai.security.files import DOCUMENT, read_bytes, write_output

Facts = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class AcceptResult:
    """The certificate; `kept` are the gates of which an earlier one counted as a whole."""

    certificate: Certificate
    kept: tuple[str, ...] = ()

    @property
    def findings(self) -> tuple[Finding[Subject], ...]:
        """The failures and warnings of each gate, or that it passed."""
        return self.certificate.findings


@dataclass(frozen=True)
class CertificateState:
    """A certificate, the facts that changed since, and the tests that have to be taken again, with their gates."""

    certificate: Certificate
    changes: tuple[FactChange, ...]
    tests: tuple[tuple[str, Measurement], ...]
    not_asked: Mapping[str, str] = field(default_factory=dict)
    """VMs whose guests could not be asked now, with the reason: whether their facts changed is not known."""

    @property
    def findings(self) -> tuple[Finding[Subject], ...]:
        """A failure for each fact that changed, what is not known of guests, and the findings of the certificate."""
        text = "the guest cannot be asked: whether its driver, CUDA and packages are as certified is not known"
        unknown = (of_not_asked(vm, "unknown", f"{text}: {why}") for vm, why in self.not_asked.items())
        return (*(change.finding for change in self.changes), *unknown, *self.certificate.findings)


def accept(request: AcceptRequest, emit: Emit = ignore) -> AcceptResult:
    """Carry out the gates of an acceptance and write the certificate. Changes nothing in vCenter or on hosts.

    `UsageError` for a set that is not there, or a file that is no certificate; `InputError` for a wrong playbook.
    """
    before = read_certificate(request.certificate) if request.certificate.exists() else None
    found, is_same = _with_request(_acceptance(request, emit)), True
    if before:
        changes = changes_since(before, found.facts)
        known = {gate.name: gate for gate in before.gates}
        valid = {gate.name: gate for gate in without_void(before, changes).gates if not request.again}
        found = replace(found, before=known, valid=valid)
        # a VM that is new has no measurement that could be void
        is_same = not any(change.part.startswith(f"{SET}:") for change in changes)
    checksums = {f"{part.partition(':')[2]} {f['file']}": f["SHA-256"] for part, f in _inputs(request).items()}
    tool, not_asked = f"vsphere-ai {__version__}", found.not_asked
    made = Certificate(found.vcenter, found.set, tool, _now(), (), found.facts, checksums, not_asked=not_asked)
    kept = []
    _report_unanswered(request, emit)
    for name in request.gates:
        old = found.valid.get(name)
        if before and is_same and old and old == found.before[name] and old.passed and name not in ALWAYS:
            kept.append(name)
            gate = old
        else:
            gate = _carried_out(name, found, before.facts if before else {}, emit)
        gates = (*made.gates, gate)
        left_out = tuple(n for n in ORDER if n not in {g.name for g in gates})
        made = replace(made, gates=gates, left_out=left_out, issued=_now())
        _write(made, request.certificate)
    return AcceptResult(made, tuple(kept))


def _report_unanswered(request: AcceptRequest, emit: Emit) -> None:
    """Report before anything is measured which rules of the assessment have no answer of an operator."""
    left = unanswered_questions(request.attestations) if "assess" in request.gates else {}
    if left:
        more = f" and {len(left) - MOST_NAMES} more" if len(left) > MOST_NAMES else ""
        text = f"{counted(len(left), 'manual check')} without an answer: {', '.join([*left][:MOST_NAMES])}{more}"
        emit(
            Remark("accept.unanswered", f"{text}; vsphere-ai assess --questions writes them, --attest FILE counts them")
        )


def verify_certificate(request: AcceptRequest, emit: Emit = ignore) -> CertificateState:
    """Compare a certificate with the farm as it is: which facts changed, and which tests that takes away."""
    made = read_certificate(request.certificate)
    found = _with_request(_acceptance(request, emit))
    # of a guest that was not asked when it was certified there is nothing to compare
    not_asked = {vm: why for vm, why in found.not_asked.items() if vm not in made.not_asked}
    changes = tuple(c for c in changes_since(made, found.facts) if not is_unknown(c, not_asked))
    tests = tuple((gate.name, m) for gate in made.gates for m in void(gate, changes))
    return CertificateState(made, changes, tests, not_asked)


def read_certificate(path: Path) -> Certificate:
    """Return the certificate of a file; `UsageError` when there is none, or when it was edited."""
    try:
        return open_certificate(content_of(path, "certificate", DOCUMENT), str(path))
    except ValueError as error:
        raise UsageError(f"{error}", "take the acceptance again with another file", rule="usage.certificate") from None


def _acceptance(request: AcceptRequest, emit: Emit) -> Acceptance:
    """Read the nodes of the set and the facts that a certificate rests on."""
    playbook = load(request.playbook, request.estate, emit)
    with open_session(request.estate, playbook, emit) as session:
        names = [p.wanted.name for p in session.scope.set_plays(playbook)]
        if not request.set and len(names) > 1:
            raise UsageError(
                f"the playbook makes {', '.join(names)}", "name one of them with --set", rule="usage.no-set"
            )
        chosen = request.set or next(iter(names), "")
        found = read_nodes(
            session, NodesRequest(playbook=request.playbook, set=chosen, estate=request.estate), playbook
        )
        estate = read_for(session.reading_also(PATHS), playbook)

        def certified(estate: Estate) -> Facts:
            view = View(estate, observe(estate, kinds()))
            farm = assessment.farm_of(view, Records(_now().date()), frozenset())
            return certified_facts(farm, found.nodes)

        facts = dict(evaluate_with(kinds(), estate, certified)[0])
        asked = _asked(found.nodes, session.scope.inventory)
        not_asked = {vm: answer for vm, answer in asked.items() if isinstance(answer, str)}
        for vm, more in asked.items():
            if not isinstance(more, str):
                facts[f"vm:{vm}"] = {**facts.get(f"vm:{vm}", {}), **more}
        return Acceptance(request, session.connection.vcenter.about.name, chosen, found.nodes, facts, not_asked)


def _asked(nodes: Sequence[Node], inventory: Inventory) -> Mapping[str, Mapping[str, str] | str]:
    """Return the facts of each guest by its VM, or why it cannot be asked."""
    from vsphere_ai.connect.secure_shell.guest_survey import survey

    if inventory.guests is None:
        return {node.vm: "the inventory has no section 'guests'" for node in nodes}
    answers = survey(nodes, guest_settings(inventory), CERTIFIED)
    return {vm: answer.message if isinstance(answer, VsphereAiError) else answer for vm, answer in answers.items()}


def _with_request(found: Acceptance) -> Acceptance:
    """Add to the facts which VMs there are, and the files that gates read."""
    vms = ", ".join(sorted(node.vm for node in found.nodes))
    return replace(found, facts={**found.facts, f"{SET}:{found.set}": {"VMs": vms}, **_inputs(found.request)})


def _carried_out(name: GateName, found: Acceptance, before: Facts, emit: Emit) -> Gate:
    """Carry out a gate; one that ends with an error has failed, with its message. `before` are the earlier facts."""
    emit(Status(f"acceptance: {name}"))
    began = time.monotonic()
    try:
        gate = GATES[name](found, emit)
    except InputError:
        raise
    except VsphereAiError as error:
        emit(Remark("accept.gate", f"{name}: {error.message}"))
        gate = Gate(name, error=error.message)
    newer = tuple(replace(m, taken=_now()) for m in gate.measurements)
    gate = replace(gate, measurements=newer, seconds=time.monotonic() - began)
    if name in found.valid and name not in ALWAYS:
        gate = renewed(found.valid[name], gate)
    if name not in found.before:
        return gate
    used = {part for node in found.nodes for part in found.parts(node.vm)}
    return with_open_failures(gate, newer, found.before[name], (before, found.facts), used)


def _inputs(request: AcceptRequest) -> Facts:
    """Return the files that an acceptance reads as facts: with another one, what is judged by it does not hold."""
    files = {name: path for name, path in request.inputs.items() if path.is_file()}
    return {
        f"{INPUT}:{name}": {"file": path.name, "SHA-256": hashlib.sha256(read_bytes(path, DOCUMENT)).hexdigest()}
        for name, path in files.items()
    }


def _write(made: Certificate, path: Path) -> None:
    """Write the certificate whole or not at all; only its owner can read it."""
    write_output(path, json.dumps(certificate_document(made).as_json(), indent=2))


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)
