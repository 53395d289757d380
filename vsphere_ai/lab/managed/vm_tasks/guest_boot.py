"""Boot of a guest: its network from ``guestinfo.metadata`` or a customization, and what its user data make it say.

The guest finds its NICs by MAC address, as netplan does; a NIC that is not connected, or that no entry matches, has no
address but a link-local one. What is given is read by the lab's own code: it shares none with the tool.
"""

from __future__ import annotations

import base64
import gzip
import threading
import zlib
from collections.abc import Iterable, Mapping
from ipaddress import ip_interface, ip_network
from typing import Any

import yaml
from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed.guests import guest_faults, guest_image, guest_ready
from vsphere_ai.lab.managed.networks import mac_addresses
from vsphere_ai.lab.managed.vm_tasks import customization
from vsphere_ai.lab.store import ManagedObject

CARD = vim.vm.device.VirtualEthernetCard
METADATA, USERDATA = "guestinfo.metadata", "guestinfo.userdata"
REDACTED = "---"
FILES, INSTANCE, SAID = "guest files", "guest instance", "guest said"
"""Among what the lab keeps of a VM: files that cloud-init has written, for which instance, and keys that it wrote."""
SAYS = "vmware-rpctool"
"""The program by which a guest writes a key: ``vmware-rpctool "info-set KEY VALUE"``."""


def booted(farm: Farm, mo: ManagedObject) -> None:
    """Let a guest that was given metadata, or is customized, come up some time after its VM was powered on."""
    faults = guest_faults.begin(mo)
    if "guestinfo-lost" in faults:
        _lose(mo)
        farm.store.touch(mo, "config")
    given = _settings(mo).get(METADATA) or customization.concerns(mo)
    if mo["runtime"].powerState != "poweredOn" or mo.extra["tools"] == "none" or not given or not guest_image.boots(mo):
        return
    boot, stuck = mo["runtime"].bootTime, faults.get("guest-never-ready")
    customization.begin(farm, mo)
    _show(mo, None, None)

    def later() -> None:
        if stuck is not None:
            stuck.released.wait()
        with farm.store.lock:
            on = mo["runtime"].powerState == "poweredOn" and mo["runtime"].bootTime == boot
            if on and mo.moid in farm.store.objects:
                _come_up(farm, mo)

    timer = threading.Timer(farm.scenario.timing.guest_seconds, later)
    timer.daemon = True
    timer.start()


def _come_up(farm: Farm, mo: ManagedObject) -> None:
    settings = _settings(mo) if guest_image.reads_guestinfo(mo) else {}
    metadata = _document(settings, METADATA)
    guest = mo["guest"]
    name, customized = customization.carry_out(farm, mo)
    ethernets = guest_image.rendered(mo, _ethernets(metadata)) or customized
    clashes = mo.extra.get(mac_addresses.CLASHES, {})
    cards = [card for card in mo["config"].hardware.device if isinstance(card, CARD)]
    guest.net = [_nic(farm, c, {} if c.macAddress.lower() in clashes else ethernets) for c in cards]
    _take_other(mo, guest.net)
    routed = [n for n in guest.net if any(e.get("routes") for e in ethernets.values() if _is_of(e, n.macAddress))]
    first = next((a.ipAddress for n in (*routed, *guest.net) for a in n.ipConfig.ipAddress if not _is_local(a)), None)
    _show(mo, str(metadata.get("local-hostname") or name or mo["config"].name), first)
    userdata = _document(settings, USERDATA)
    commands = _begin_instance(mo, str(metadata.get("instance-id") or ""), userdata)
    for command in (*guest_ready.at_each_boot(mo.extra.get(FILES, {})), *commands):
        if guest_ready.is_asked_for(command):
            by_mac = {str((e.get("match") or {}).get("macaddress", "")): e for e in ethernets.values()}
            _says(mo, guest_ready.KEY, guest_ready.reported(farm, mo, mo.extra.get(FILES, {}), by_mac))
        elif isinstance(command, list) and command[:1] == [SAYS] and len(command) == 2:
            key, _, value = str(command[1]).removeprefix("info-set ").partition(" ")
            _says(mo, key, value)
    if "userdata" in (metadata.get("redact") or ()):
        _says(mo, USERDATA, REDACTED)
        _says(mo, f"{USERDATA}.encoding", "")
    farm.store.touch(mo, "guest", "summary", "config")


def _begin_instance(mo: ManagedObject, instance: str, userdata: Mapping[str, Any]) -> tuple[object, ...]:
    """Write the files of the user data, and return its commands; both are for the first boot of an instance only."""
    if instance and mo.extra.get(INSTANCE) == instance:
        return ()
    mo.extra[INSTANCE] = instance
    for file in userdata.get("write_files") or ():
        executable = bool(int(str(file.get("permissions", "0644")), 8) & 0o100)
        mo.extra.setdefault(FILES, {})[str(file.get("path", ""))] = (str(file.get("content", "")), executable)
    return tuple(userdata.get("runcmd") or ())


def _take_other(mo: ManagedObject, nics: Iterable[Any]) -> None:
    """Let a guest have another address than it was given, where a fault says so."""
    fault = guest_faults.of(mo, "guest-address")
    own = [a for nic in nics for a in nic.ipConfig.ipAddress if not _is_local(a)] if fault is not None else []
    if fault is not None and own:
        for nic in nics:
            nic.ipAddress = [fault.value if text == own[0].ipAddress else text for text in nic.ipAddress]
        own[0].ipAddress = fault.value


def _show(mo: ManagedObject, name: str | None, address: str | None) -> None:
    """Show the guest's name and first address; none while it boots."""
    for shown in (mo["guest"], mo["summary"].guest):
        shown.hostName, shown.ipAddress = name, address


def _nic(farm: Farm, card: Any, ethernets: Mapping[str, Mapping[str, Any]]) -> Any:
    connected = bool(card.connectable and card.connectable.connected)
    mine = [e for e in ethernets.values() if _is_of(e, card.macAddress)]
    texts = [text for each in mine if isinstance(each.get("addresses"), list) for text in each["addresses"]]
    texts += [_leased(farm, card)] if any(e.get("dhcp4") is True for e in mine) else []
    found = [each for text in texts if (each := _address(str(text))) is not None] if connected else []
    return vim.vm.GuestInfo.NicInfo(
        network=card.deviceInfo.summary,
        macAddress=card.macAddress,
        connected=connected,
        deviceConfigId=card.key,
        ipAddress=[each.ipAddress for each in found],
        ipConfig=vim.net.IpConfigInfo(ipAddress=[*found, _link_local(card.macAddress)] if connected else []),
    )


def _leased(farm: Farm, card: Any) -> str:
    """Return the address that the DHCP server of the card's port group gives it, always the same one; or nothing."""
    port = getattr(card.backing, "port", None)
    group = farm.store.objects.get(port.portgroupKey) if port else None
    groups = [g for s in farm.scenario.switches for g in s.port_groups if group and g.name == group["name"]]
    subnet = next((g.dhcp for g in groups), "")
    if not subnet:
        return ""
    network = ip_network(subnet)
    number = int(card.macAddress.replace(":", ""), 16) % (network.num_addresses - 2)
    return f"{network.network_address + 1 + number}/{network.prefixlen}"


def _address(text: str) -> Any:
    """Return an address as the guest reports it; None for a text that is none, which netplan refuses."""
    try:
        found = ip_interface(text)
    except ValueError:
        return None
    length = found.network.prefixlen
    return vim.net.IpConfigInfo.IpAddress(
        ipAddress=str(found.ip), prefixLength=length, origin="manual", state="preferred"
    )


def _link_local(mac: str) -> Any:
    parts = [int(part, 16) for part in mac.split(":")]
    parts[0] ^= 2
    text = f"fe80::{parts[0]:x}{parts[1]:02x}:{parts[2]:x}ff:fe{parts[3]:02x}:{parts[4]:x}{parts[5]:02x}"
    return vim.net.IpConfigInfo.IpAddress(ipAddress=text, prefixLength=64, origin="linklayer", state="preferred")


def _is_local(address: Any) -> bool:
    return bool(address.origin == "linklayer")


def _is_of(ethernet: Mapping[str, Any], mac: str) -> bool:
    match = ethernet.get("match")
    return isinstance(match, dict) and str(match.get("macaddress", "")).lower() == mac.lower()


def _ethernets(metadata: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    # cloud-init takes the mapping as the network file itself (DataSourceVMware.process_metadata)
    network = metadata.get("network")
    found = network.get("ethernets") if isinstance(network, dict) else None
    return {name: each for name, each in found.items() if isinstance(each, dict)} if isinstance(found, dict) else {}


def _document(settings: Mapping[str, str], key: str) -> dict[str, Any]:
    """Return what a key holds; nothing where a guest could not read it."""
    value, encoding = settings.get(key, ""), settings.get(f"{key}.encoding", "")
    try:
        raw = base64.b64decode(value, validate=True) if encoding else value.encode()
        text = gzip.decompress(raw) if encoding in ("gzip+base64", "gz+b64") else raw
        found = yaml.safe_load(text)
    except (ValueError, OSError, EOFError, zlib.error, yaml.YAMLError):
        return {}
    return found if isinstance(found, dict) else {}


def _settings(mo: ManagedObject) -> dict[str, str]:
    return {option.key: str(option.value) for option in mo["config"].extraConfig or ()}


def _says(mo: ManagedObject, key: str, value: str) -> None:
    """Write a key as a guest does by VMware Tools; what it was before is known, for a boot at which that is lost."""
    said = mo.extra.setdefault(SAID, {})
    before, _ = said.get(key, (_settings(mo).get(key, ""), ""))
    said[key] = before, value
    _write(mo, key, value)


def _lose(mo: ManagedObject) -> None:
    """Put back what was in the keys that the guest has written, unless someone has changed them since."""
    for key, (before, said) in mo.extra.pop(SAID, {}).items():
        if _settings(mo).get(key, "") == said:
            _write(mo, key, before)


def _write(mo: ManagedObject, key: str, value: str) -> None:
    config = mo["config"]
    kept = [option for option in config.extraConfig or () if option.key != key]
    config.extraConfig = [*kept, vim.option.OptionValue(key=key, value=value)] if value else kept
