"""Network files of guests: the files as YAML documents, what was found about them as text, all of it as a document."""

from __future__ import annotations

from collections.abc import Sequence

from vsphere_ai.documents.findings import FindingDocument
from vsphere_ai.documents.network.netplan import GuestNetworkDocument, GuestNetworksDocument
from vsphere_ai.guests.observed import ObservedNetwork
from vsphere_ai.model.facts import Estate
from vsphere_ai.model.text import safe


def networks_text(networks: Sequence[ObservedNetwork]) -> str:
    """Return the files, a YAML document for each VM that has one, under its name and a line per NIC."""
    documents = []
    for each in (found for found in networks if found.text):
        heading = [f"# {safe(each.vm.name)}", *(f"#   {safe(line)}" for line in each.lines)]
        documents.append("".join(f"{line}\n" for line in heading) + each.text)
    return "---\n".join(documents)


def remarks_text(networks: Sequence[ObservedNetwork]) -> str:
    """Return why a VM has no file, what blocks one, and which were not written by this tool."""
    lines = []
    for each in networks:
        name = safe(each.vm.name)
        if each.reason:
            lines.append(f"{name}: {safe(each.reason)}")
        for problem in each.problems:
            lines += [
                f"{name}: {problem.rule}: {safe(problem.message)}",
                *([f"  {problem.remedy}"] if problem.remedy else []),
            ]
    return "".join(f"{line}\n" for line in lines)


def networks_document(estate: Estate, networks: Sequence[ObservedNetwork]) -> GuestNetworksDocument:
    """Return the same as it is printed."""
    return GuestNetworksDocument(vcenter=estate.about, vms=tuple(map(_network, networks)))


def _network(found: ObservedNetwork) -> GuestNetworkDocument:
    return GuestNetworkDocument(
        vm=found.vm.name,
        network=found.text or None,
        reason=found.reason,
        nics=tuple(found.lines),
        problems=tuple(map(FindingDocument.of, found.problems)),
    )
