"""Limits of network adapters of a VM: its cluster states them for each hardware version.

Source: vSphere Web Services API reference, EnvironmentBrowser.QueryConfigOptionEx and VirtualPCIControllerOption. What
real vCenters answer for PVRDMA adapters was not seen; where there is no answer, the general maximum counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from vsphere_ai.model.facts import Estate
from vsphere_ai.model.state import State, Target
from vsphere_ai.model.steps import Query
from vsphere_ai.model.view import View
from vsphere_ai.resources._helpers.maximums import MOST_ADAPTERS
from vsphere_ai.resources._helpers.vm_settings import hardware_version
from vsphere_ai.resources.vm_hardware import VmHardware

CARDS, PVRDMA = "numEthernetCards", "numVmxnet3VrdmaEthernetCards"
_GUEST = "otherGuest64"
_VERSION = re.compile(r"vmx-0*([0-9]{1,3})")


class AdapterLimits(NamedTuple):
    """The most adapters of a VM: of all types, and PVRDMA adapters. `source` says who sets the latter."""

    cards: int
    pvrdma: int
    source: str


def questions(kind: str, wanted: Mapping[Target, Sequence[State]], estate: Estate) -> Iterator[Query]:
    """Ask each cluster for the hardware versions of the VMs a kind is wanted of; one question for any number of VMs."""
    asked: dict[tuple[str, int], None] = {}
    for vm, states in wanted.items():
        if vm.kind != "vm" or not any(s.kind == kind for s in states):
            continue
        planned = next((s.version for s in states if isinstance(s, VmHardware)), None)
        version, cluster = planned or _version(vm, estate), _cluster(vm, estate)
        if version and cluster:
            asked[cluster, version] = None
    for cluster, version in asked:
        # descriptions of every guest system there is would make up most of the answer
        key = f"vmx-{version:02d}"
        spec = {"_typeName": "EnvironmentBrowserConfigOptionQuerySpec", "key": key, "guestId": (_GUEST,)}
        yield Query(
            _name(version), "environmentBrowser", "QueryConfigOptionEx", {"spec": spec}, on=cluster, keep=offered
        )


def offered(answer: Any) -> Mapping[str, int]:
    """Keep of a ConfigOption how many adapters its PCI controller takes."""
    hardware = (answer or {}).get("hardwareOptions") or {}
    controllers = [
        o for o in hardware.get("virtualDeviceOption") or () if o.get("_typeName") == "VirtualPCIControllerOption"
    ]
    ranges = {field: [c[field] for c in controllers if c.get(field)] for field in (CARDS, PVRDMA)}
    return {field: int(found[0]["max"]) for field, found in ranges.items() if found}


def limits(vm: Target, view: View) -> AdapterLimits:
    """Return what the VM's cluster takes in the hardware version that is planned."""
    estate = view.estate
    version = hardware_version(vm, view) or _version(vm, estate)
    cluster = estate.get(_cluster(vm, estate))
    answer = cluster.get(f"query:{_name(version)}") if cluster and version else None
    if cluster is None or not answer:
        return AdapterLimits(MOST_ADAPTERS, MOST_ADAPTERS, "vSphere")
    most = answer.get(CARDS, MOST_ADAPTERS)
    source = f"{cluster.name}, for hardware version {version}"
    return AdapterLimits(most, min(most, answer.get(PVRDMA, MOST_ADAPTERS)), source)


def _name(version: int) -> str:
    return f"config-option:vmx-{version:02d}"


def _version(vm: Target, estate: Estate) -> int | None:
    facts = estate.get(vm.ref)
    found = _VERSION.fullmatch(str(facts.get("config.version"))) if facts else None
    return int(found[1]) if found else None


def _cluster(vm: Target, estate: Estate) -> str:
    host = estate.host_of(vm.ref) if estate.get(vm.ref) else None
    return str(estate[host.ref].get("parent") or "") if host else ""
