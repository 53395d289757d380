"""SearchIndex: finding an object by path, UUID, DNS name or IP address."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.managed import Call, reads
from vsphere_ai.lab.store import ManagedObject


@reads(vim.SearchIndex, "FindByInventoryPath")
def find_by_path(call: Call, inventoryPath: str) -> Any:
    """Return the object at a path such as ``DC0/vm/ai/train-01``."""
    at: ManagedObject | None = call.farm.named["rootFolder"]
    for part in filter(None, inventoryPath.split("/")):
        at = next((c for c in call.farm.store.children(at) if c["name"] == part), None) if at else None
    return at.ref if at else None


@reads(vim.SearchIndex, "FindChild")
def find_child(call: Call, entity: Any, name: str) -> Any:
    """Return the child of this name."""
    children = call.farm.store.children(call.farm.store.get(entity))
    return next((c.ref for c in children if c["name"] == name), None)


@reads(vim.SearchIndex, "FindByUuid")
def find_by_uuid(call: Call, uuid: str, vmSearch: bool, datacenter: Any = None, instanceUuid: bool = False) -> Any:
    """Return the VM (by BIOS or instance UUID) or host with this UUID."""
    return next(iter(find_all_by_uuid(call, uuid, vmSearch, datacenter, instanceUuid)), None)


@reads(vim.SearchIndex, "FindAllByUuid")
def find_all_by_uuid(
    call: Call, uuid: str, vmSearch: bool, datacenter: Any = None, instanceUuid: bool = False
) -> list[Any]:
    """Return every VM or host with this UUID."""
    wanted = uuid.lower()
    if not vmSearch:
        return [h.ref for h in _hosts(call) if h["summary"].hardware.uuid == wanted]
    name = "instanceUuid" if instanceUuid else "uuid"
    return [vm.ref for vm in _vms(call) if getattr(vm["config"], name) == wanted]


@reads(vim.SearchIndex, "FindByDnsName")
def find_by_dns_name(call: Call, dnsName: str, vmSearch: bool, datacenter: Any = None) -> Any:
    """Return the VM whose guest has this host name, or the host with this name."""
    return next(iter(find_all_by_dns_name(call, dnsName, vmSearch, datacenter)), None)


@reads(vim.SearchIndex, "FindAllByDnsName")
def find_all_by_dns_name(call: Call, dnsName: str, vmSearch: bool, datacenter: Any = None) -> list[Any]:
    """Return every VM whose guest has this host name, or every host with this name."""
    wanted = dnsName.lower()
    if not vmSearch:
        return [h.ref for h in _hosts(call) if str(h["name"]).lower() == wanted]
    return [vm.ref for vm in _vms(call) if (vm["guest"].hostName or "").lower() == wanted]


@reads(vim.SearchIndex, "FindByIp")
def find_by_ip(call: Call, ip: str, vmSearch: bool, datacenter: Any = None) -> Any:
    """Return the VM whose guest, or the host whose VMkernel adapter, has this address."""
    return next(iter(find_all_by_ip(call, ip, vmSearch, datacenter)), None)


@reads(vim.SearchIndex, "FindAllByIp")
def find_all_by_ip(call: Call, ip: str, vmSearch: bool, datacenter: Any = None) -> list[Any]:
    """Return every VM whose guest, or every host whose VMkernel adapter, has this address."""
    if vmSearch:
        return [vm.ref for vm in _vms(call) if vm["guest"].ipAddress == ip]
    shown = [h for h in _hosts(call) if h["config"] is not None]
    return [h.ref for h in shown if any(v.spec.ip.ipAddress == ip for v in h["config"].network.vnic)]


@reads(vim.SearchIndex, "FindByDatastorePath")
def find_by_datastore_path(call: Call, datacenter: Any, path: str) -> Any:
    """Return the VM whose configuration file this is, e.g. ``[vsan-gpu] train-01/train-01.vmx``."""
    call.farm.store.get(datacenter)
    return next((vm.ref for vm in _vms(call) if vm["config"].files.vmPathName == path), None)


def _vms(call: Call) -> list[ManagedObject]:
    return call.farm.store.of(vim.VirtualMachine)


def _hosts(call: Call) -> list[ManagedObject]:
    return call.farm.store.of(vim.HostSystem)
