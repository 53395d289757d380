"""Export of manifests for pods on VMs: objects, what blocks them, and the same checks as of any other file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from vsphere_ai.kubernetes.check import MAX_VALUES, check_documents
from vsphere_ai.kubernetes.export_network_operator import (
    NetworkOperatorOptions,
    network_operator_findings,
    network_operator_objects,
)
from vsphere_ai.kubernetes.export_spiderpool import SpiderpoolOptions, spiderpool_findings, spiderpool_objects
from vsphere_ai.kubernetes.manifest import WrittenObject, manifest_text
from vsphere_ai.kubernetes.pod_networks import Pods
from vsphere_ai.language.yaml_files.document import FaultCollector, parse_stream
from vsphere_ai.model.finding import Finding, seriousness

Options = SpiderpoolOptions | NetworkOperatorOptions
TITLES = {"spiderpool": "Spiderpool", "network-operator": "the NVIDIA Network Operator"}

NEVER_WRITTEN = frozenset({"nv-ipam.pools-overlap"})
"""Rules that an operator admits against, in a file that may mean it so; nothing that is written here does."""


@dataclass(frozen=True)
class ManifestExport:
    """A manifest, empty where a failure blocks it; and the findings, failures first."""

    text: str
    objects: tuple[WrittenObject, ...]
    findings: tuple[Finding, ...]

    @property
    def is_refused(self) -> bool:
        """Return whether a failure blocks it."""
        return any(finding.verdict == "fail" for finding in self.findings)


def export(pods: Pods, options: Options, origin: str) -> ManifestExport:
    """Return the manifest for pods on VMs; `origin` says in a sentence which vCenter and inventory it rests on.

    What is written is read again and checked as ``--check`` does; an object that breaks a rule is not handed out.
    """
    own, family = _findings(pods, options)
    findings = tuple(dict.fromkeys((*pods.findings, *own)))
    if any(finding.verdict == "fail" for finding in findings):
        return ManifestExport("", (), _sorted(findings))
    objects = tuple(_objects(pods, options))
    text = manifest_text(_head(pods, family, findings, origin), objects)
    faults = FaultCollector()
    checked = check_documents(parse_stream(text, family, faults, MAX_VALUES), (family,))
    faults.raise_any()
    refused = [each for each in checked.findings if each.verdict == "fail" or each.rule in NEVER_WRITTEN]
    wrong = [replace(each, verdict="fail") for each in refused]
    return ManifestExport("" if wrong else text, () if wrong else objects, _sorted((*findings, *wrong)))


def _findings(pods: Pods, options: Options) -> tuple[list[Finding], str]:
    if isinstance(options, SpiderpoolOptions):
        return list(spiderpool_findings(pods, options)), "spiderpool"
    return list(network_operator_findings(pods, options)), "network-operator"


def _objects(pods: Pods, options: Options) -> Sequence[WrittenObject]:
    if isinstance(options, SpiderpoolOptions):
        return list(spiderpool_objects(pods, options))
    return list(network_operator_objects(pods, options))


def _sorted(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    return tuple(sorted(findings, key=lambda finding: -seriousness(finding)))


def _head(pods: Pods, family: str, findings: Sequence[Finding], origin: str) -> list[str]:
    names = ", ".join(node.vm.name for node in pods.nodes)
    return [
        f"Objects of {TITLES[family]} for Kubernetes on these VMs: {names}.",
        f"Written by vsphere-ai from {origin}. Addresses that other VMs hold are not in them.",
        *(f"{f.verdict} {f.rule}: {f.target}: {f.message}; {f.remedy}." for f in findings),
        *(f"Not for pods: {line}." for line in pods.left_out),
    ]
