"""Kubernetes exports: objects of Spiderpool and of the NVIDIA Network Operator for pods on VMs of an estate."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from vsphere_ai.app.estate.read_estate import named, report_malformed
from vsphere_ai.app.estate.scope import EstateRequest
from vsphere_ai.app.estate.session import open_session
from vsphere_ai.app.events import Emit, ignore
from vsphere_ai.errors import UsageError
from vsphere_ai.kubernetes.export import ManifestExport, Options, export
from vsphere_ai.kubernetes.export_network_operator import NetworkOperatorOptions
from vsphere_ai.kubernetes.export_spiderpool import SpiderpoolOptions
from vsphere_ai.kubernetes.guest_network import INTERFACE
from vsphere_ai.kubernetes.pod_networks import pods_on
from vsphere_ai.kubernetes.vm_nodes import PATHS, nodes_of
from vsphere_ai.model.estate.malformed import evaluate
from vsphere_ai.model.facts import Estate

if TYPE_CHECKING:
    from vsphere_ai.reading.collector import Depth

_NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")

__all__ = ["ExportRequest", "ExportResult", "NetworkOperatorOptions", "SpiderpoolOptions", "export_manifests"]


@dataclass(frozen=True)
class ExportRequest:
    """VMs by names or patterns as in a play, and which objects to make of them.

    `interfaces` maps port groups to names of interfaces in the guests, where no network file of cloud-init names them.
    """

    vms: Sequence[str]
    options: Options
    interfaces: Mapping[str, str] = field(default_factory=dict)
    estate: EstateRequest = field(default_factory=EstateRequest)


@dataclass(frozen=True)
class ExportResult:
    """The estate that was read, and the manifest with its findings."""

    estate: Estate
    export: ManifestExport

    @property
    def exit_code(self) -> int:
        """Return 1 where a failure blocks the manifest, else 0."""
        return int(self.export.is_refused)


def export_manifests(request: ExportRequest, emit: Emit = ignore) -> ExportResult:
    """Return objects for pods on VMs, from the VMs' devices, guests and pools of the inventory. Changes nothing."""
    from vsphere_ai.reading.collector import Depth, collect

    _require_names(request)
    with open_session(request.estate, None, emit) as session:

        def choose(estate: Estate) -> Depth:
            vms = named(session.scope, estate, "vm", request.vms)
            hosts = {host.ref for vm in vms if (host := estate.host_of(vm.ref))}
            return Depth(frozenset(hosts), frozenset(vm.ref for vm in vms))

        reading = replace(session.request(choose), paths=PATHS, probes=(), queries=())
        estate = collect(session.connection.vcenter, None, reading)
        chosen = named(session.scope, estate, "vm", request.vms)
        inventory = session.scope.inventory
    origin = f"the vCenter {session.scope.settings.name} and the pools of {inventory.path.name}"

    def made(estate: Estate) -> ManifestExport:
        nodes = nodes_of(estate, chosen, request.interfaces)
        return export(pods_on(nodes, inventory.pools, inventory.reserved), request.options, origin)

    result, estate = evaluate(estate, made)
    report_malformed(estate, emit)
    return ExportResult(estate, result)


def _require_names(request: ExportRequest) -> None:
    for group, name in request.interfaces.items():
        if not INTERFACE.fullmatch(name):
            raise UsageError(f"'{name}' for {group} is no name of an interface", "at most 15 letters, digits, - _ .")
    if not _NAMESPACE.fullmatch(request.options.namespace):
        help = "at most 63 small letters and digits, '-' inside"
        raise UsageError(f"'{request.options.namespace}' is no namespace", help)
    release = request.options.release if isinstance(request.options, NetworkOperatorOptions) else ""
    if release and not _TAG.fullmatch(release):
        raise UsageError(f"'{release}' is no tag of an image", "write e.g. network-operator-v26.10.0")
