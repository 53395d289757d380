"""Values of the VMs of sets by the names that outputs give them: as they are planned, and as they are observed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address, ip_interface

from vsphere_ai.fabric import dvs, networks, pci
from vsphere_ai.fabric.api_types import VirtualDevice
from vsphere_ai.fabric.trace import key_of
from vsphere_ai.gpu.devices import is_vgpu
from vsphere_ai.guests.cloud_init import given_network
from vsphere_ai.guests.netplan import GuestNic, file_text, read_network
from vsphere_ai.guests.ready import is_ready
from vsphere_ai.guests.reported import reported
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.state import Target
from vsphere_ai.model.view import View
from vsphere_ai.model.vm_sets import MOID, Member, MemberNic, is_new, mark_of, settings_of
from vsphere_ai.resources.makes_vms import WantedNic
from vsphere_ai.resources.mixins import device_states, vgpus_of
from vsphere_ai.sets.guest_pci import guest_address, rdma_device, slot_of

DEVICES = "config.hardware.device"
OF_IPV6 = "6"


@dataclass(frozen=True)
class Unknown:
    """A value that is not known, and why."""

    reason: str


@dataclass(frozen=True)
class Refusal:
    """Problem of the values of a VM: a rule id, a sentence about the VM, and what would work."""

    rule: str
    message: str
    help: str = ""


AFTER_APPLY = Unknown("known after apply")
NO_VALUE = Unknown("the playbook does not say it")
Value = str | int | Unknown


@dataclass(frozen=True)
class VmOfSet:
    """A member of a set, its place in the order of indexes (from 0), and the NICs that the play gives it."""

    member: Member
    rank: int
    nics: Mapping[str, WantedNic]

    @property
    def target(self) -> Target:
        """The VM as a target."""
        return Target("vm", self.member.name, self.member.ref)


def planned_value(vm: VmOfSet, path: Sequence[str], view: View) -> Value:
    """Return a value as it will be once the plan is carried out."""
    if path[0] == "nics":
        return _planned_nic(vm, path[1], path[2], view)
    new = is_new(view.estate, vm.member.ref)
    if path[0] in ("moid", "gpu_pci") and new:
        return AFTER_APPLY
    if path[0] == "host":
        host = view.estate.get(vm.member.place.host) if new else _host(vm, view.estate)
        return host.name if host else AFTER_APPLY
    return _of_vm(vm, path[0], view)


def observed_value(vm: VmOfSet, path: Sequence[str], view: View) -> Value:
    """Return a value as vCenter and the guest show it now; `refusal_of` has to be asked first."""
    if path[0] == "nics":
        return _observed_nic(vm, path[1], path[2], view.estate)
    if path[0] == "host":
        host = _host(vm, view.estate)
        return host.name if host else Unknown("vCenter does not show its host")
    return _of_vm(vm, path[0], view)


def refusal_of(vm: VmOfSet, nics: Sequence[str], estate: Estate) -> Refusal | None:
    """Return why nothing of a VM, with these of its NICs, can be given out now; None where nothing is against it."""
    again = "apply the playbook first"
    if not vm.member.exists:
        return Refusal("output.no-vm", "it does not exist yet", again)
    facts = estate[vm.member.ref]
    mark = mark_of(facts)
    if mark is None:
        return Refusal("output.no-mark", "it has no mark of its set", "someone removed it; it is not used")
    if facts.get("runtime.powerState") != "poweredOn":
        return Refusal("output.off", "it is not powered on", again)
    if not (mark.customize or mark.adopted or is_ready(settings_of(facts), mark.generation)):
        return Refusal("output.not-ready", "its guest has not said that it is ready", "wait for it, or look into it")
    for name in nics:
        nic = next((n for n in mark.nics if n.name == name), None)
        if nic is None:
            return Refusal("output.stale", f"it was made without a NIC {name}", "destroy it, and apply again")
        if _card(facts, nic.mac) is None:
            return Refusal("output.no-nic", f"it has no adapter {nic.mac}, its NIC {name}", again)
        seen = _reported(facts, nic.mac)
        for text in nic.addresses:
            if ip_interface(text).ip not in {ip_interface(each).ip for each in seen}:
                shown = ", ".join(seen) or "no address"
                message = f"its guest reports {shown} on {name}, and not {text.partition('/')[0]}"
                return Refusal("output.address", message, "look at the network of the guest")
    return None


def _of_vm(vm: VmOfSet, field: str, view: View) -> Value:
    member = vm.member
    match field:
        case "name":
            return member.name
        case "index":
            return member.index
        case "rank":
            return vm.rank
        case "instance_uuid":
            return member.uuid
        case "moid":
            return str(view.facts(member.ref).get(MOID))
        case "profile":
            profiles = dict.fromkeys(vgpus_of(vm.target, view))
            return ",".join(profiles) or Unknown("it has no vGPU")
        case "gpus":
            return len(vgpus_of(vm.target, view)) + _whole_gpus(vm, view)
        case _:
            return _gpu_addresses(vm, view)


def _host(vm: VmOfSet, estate: Estate) -> Facts | None:
    return estate.get(estate[vm.member.ref].get("runtime.host"))


def _whole_gpus(vm: VmOfSet, view: View) -> int:
    """Return how many whole GPUs of its host a VM takes."""
    gpus = _gpus_of_host(vm, view)
    claims = (c for _, state in device_states(view, vm.member.ref) for c in state.whole_devices(vm.target, view))
    return sum(_is_gpu(claim, gpus) for claim in claims)


def _gpus_of_host(vm: VmOfSet, view: View) -> Mapping[str, pci.PciFunction]:
    host = view.estate.host_of(vm.member.ref)
    return {a: d for a, d in (pci.devices(view.facts(host.ref)) if host else {}).items() if d.is_gpu}


def _is_gpu(claim: pci.Claim, gpus: Mapping[str, pci.PciFunction]) -> bool:
    return claim.address in gpus or any((d.vendor, d.device) in claim.models for d in gpus.values())


def _gpu_addresses(vm: VmOfSet, view: View) -> Value:
    devices: Sequence[VirtualDevice] = view.facts(vm.member.ref).get(DEVICES) or ()
    gpus = _gpus_of_host(vm, view)
    found = [d for d in devices if is_vgpu(d) or ((claim := pci.claim_of(d)) is not None and _is_gpu(claim, gpus))]
    slots = [slot_of(d) for d in found]
    if not slots:
        return Unknown("it has no GPU")
    if None in slots:
        return Unknown("vCenter shows no PCI slot of a GPU")
    return ",".join(guest_address(slot) for slot in slots if slot is not None)


def _planned_nic(vm: VmOfSet, name: str, field: str, view: View) -> Value:
    nic = next((n for n in vm.member.nics if n.name == name), MemberNic(name, ""))
    wanted = vm.nics[name]
    if field == "mac":
        return nic.mac
    if field == "mtu":
        return wanted.mtu or NO_VALUE
    if field in ("rail", "role"):
        return _said(wanted, field)
    if field == "port_group":
        network = networks.for_vm(view.estate, vm.member.ref, wanted.port_group).network
        return networks.label(view.estate, network) if network else wanted.port_group
    if field in ("pci", "rdma_device"):
        new = is_new(view.estate, vm.member.ref)
        return AFTER_APPLY if new else _on_bus(wanted, nic.mac, field, view.facts(vm.member.ref))
    if not wanted.pools:
        return AFTER_APPLY
    return _address(field, nic.addresses, nic.gateways)


def _observed_nic(vm: VmOfSet, name: str, field: str, estate: Estate) -> Value:
    facts, wanted = estate[vm.member.ref], vm.nics[name]
    mark = mark_of(facts)
    nic = next(n for n in mark.nics if n.name == name) if mark else MemberNic(name, "")
    if field == "mac":
        return nic.mac
    if field in ("rail", "role"):
        return _said(wanted, field)
    if field == "port_group":
        return _port_group(nic.mac, facts, estate)
    if field in ("pci", "rdma_device"):
        return _on_bus(wanted, nic.mac, field, facts)
    given = _given(facts, nic.mac)
    if field == "mtu":
        return given if isinstance(given, Unknown) else given.mtu or NO_VALUE
    if field.startswith("gateway") and (isinstance(given, Unknown) or not nic.addresses):
        return given if isinstance(given, Unknown) else Unknown("the DHCP server gives it to the guest")
    gateways = () if isinstance(given, Unknown) else given.gateways
    return _address(field, nic.addresses or _reported(facts, nic.mac), gateways)


def _said(wanted: WantedNic, field: str) -> Value:
    value = {"rail": wanted.rail, "role": wanted.role}[field]
    return NO_VALUE if value is None else value


def _address(field: str, addresses: Sequence[str], gateways: Sequence[str]) -> Value:
    """Return an address, its prefix length, or the gateway, of the family that the field asks for."""
    families = {ip_interface(a).version for a in addresses}
    family = 6 if field.endswith(OF_IPV6) or 4 not in families else 4
    own = next((ip_interface(a) for a in addresses if ip_interface(a).version == family), None)
    if own is None:
        return Unknown(f"it has no IPv{family} address")
    if field.startswith("address"):
        return str(own.ip)
    if field.startswith("prefix"):
        return own.network.prefixlen
    return next((g for g in gateways if ip_address(g).version == family), Unknown(f"it has no IPv{family} gateway"))


def _given(facts: Facts, mac: str) -> GuestNic | Unknown:
    """Return a NIC in the network file that a VM carries for its guest."""
    try:
        config = given_network(settings_of(facts))
        nics = read_network(file_text(config)) if config is not None else ()
    except ValueError as error:
        return Unknown(str(error))
    found = (n for n in nics if n.mac == mac)
    return next(found, Unknown("the VM carries no network file with this NIC"))


def _card(facts: Facts, mac: str) -> VirtualDevice | None:
    devices: Sequence[VirtualDevice] = facts.get(DEVICES) or ()
    return next((d for d in devices if str(d.get("macAddress", "")).lower() == mac), None)


def _port_group(mac: str, facts: Facts, estate: Estate) -> Value:
    card = _card(facts, mac)
    key = key_of(card) if card is not None else ""
    group = estate.get(f"{dvs.PORT_GROUP}:{key}")
    backing = (card.get("backing") if card is not None else None) or {}
    name = networks.label(estate, group) if group else str(backing.get("deviceName") or "")
    return name or Unknown("vCenter does not show it")


def _on_bus(wanted: WantedNic, mac: str, field: str, facts: Facts) -> Value:
    if field == "rdma_device" and wanted.type != "pvrdma":
        return Unknown(f"which RDMA device a {wanted.type} adapter is, only its guest knows")
    card = _card(facts, mac)
    slot = slot_of(card) if card is not None else None
    if slot is None:
        return Unknown("vCenter shows no PCI slot of it")
    return guest_address(slot) if field == "pci" else rdma_device(slot)


def _reported(facts: Facts, mac: str) -> tuple[str, ...]:
    """Return the addresses, with their prefix length, that the guest reports for a MAC address; none of a link."""
    return tuple(map(str, reported(facts.get("guest.net"), mac)))
