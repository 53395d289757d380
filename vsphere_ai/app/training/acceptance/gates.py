"""Gates of an acceptance: each carries out one check of the tool, and returns its measurements."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from vsphere_ai.app.events import Emit
from vsphere_ai.app.training.acceptance import fabric as accept_fabric
from vsphere_ai.app.training.acceptance import training as accept_training
from vsphere_ai.app.training.acceptance.assess_farm import AssessRequest, assess
from vsphere_ai.app.training.acceptance.values import WORSE, Acceptance, GateName
from vsphere_ai.app.training.health.checked import HealthRequest, check_health
from vsphere_ai.compat import assessment
from vsphere_ai.health.certificate import Gate, Measurement
from vsphere_ai.health.finding import sentence
from vsphere_ai.model.finding import Finding

HEALTHY = "every check"
MEASURED_BY: Mapping[str, GateName] = {
    "operations.benchmark-recent": "nccl",
    "performance.bus-bandwidth": "nccl",
    "performance.gpu-errors": "health",
}
"""Rules of the assessment that a gate of the same acceptance measures itself."""
NO_PROFILE = "no profile"


def _assess(found: Acceptance, emit: Emit) -> Gate:
    """Judge the farm by the five pillars: a measurement per rule and object; what does not apply is none.

    What another gate of the same acceptance measures is left to it.
    """
    asked = found.request
    result = assess(AssessRequest(asked.playbook, asked.attestations, asked.estate), emit)
    about = {rule.id: rule.about for rule in assessment.rules()}
    others = {rule for rule, gate in MEASURED_BY.items() if gate in asked.gates}
    judged = [f for f in result.findings if f.verdict != "info" and f.rule not in others]
    return Gate("assess", tuple(_measured(f, about[f.rule]) for f in judged))


def _measured(finding: Finding, about: str) -> Measurement:
    own = (f"{about}:{finding.target.name}",) if finding.target else ()
    parts = (*own, "input:playbook", "input:attestations")
    return Measurement(finding.rule, finding.verdict, finding.message, parts, remedy=finding.remedy)


def _health(found: Acceptance, emit: Emit) -> Gate:
    """Check every node: a measurement per VM for each check that found something, and one of all checks."""
    result = check_health(HealthRequest(found.asked, found.request.profile), emit)
    measured = []
    if found.request.profile is None:
        text = "what a healthy VM is like is not known: its GPUs, NICs, driver and settings are compared with nothing"
        remedy = f"vsphere-ai health {found.nodes[0].vm if found.nodes else 'VM'} --learn FILE, then --profile FILE"
        measured.append(Measurement(NO_PROFILE, "warn", text, ("input:profile",), remedy=remedy))
    for vm in result.vms:
        parts = (*found.parts(vm.node.vm), "input:profile")
        bad = [f for f in vm.findings if f.verdict in WORSE]
        measured += [Measurement(f.rule, f.verdict, sentence(f), parts, test=HEALTHY) for f in bad]
        if all(f.verdict == "warn" for f in bad):
            text = f"{vm.node.vm}: no check failed" if bad else f"{vm.node.vm}: every check passed"
            measured.append(Measurement(HEALTHY, "pass", text, parts))
    return Gate("health", tuple(measured))


GATES: Mapping[GateName, Callable[[Acceptance, Emit], Gate]] = {
    "assess": _assess,
    "health": _health,
    "rdma": accept_fabric.rdma,
    "nccl": accept_fabric.nccl,
    "megatron": accept_training.megatron,
}
ALWAYS: frozenset[GateName] = frozenset(("assess",))
"""Gates that cost little, and judge more than the certified facts: they are carried out each time."""
