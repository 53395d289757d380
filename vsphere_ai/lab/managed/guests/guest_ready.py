"""Last command of a guest's boot: the lab's guests report what it would find, without carrying it out.

It is a command of the user data at the first boot, or of a script that cloud-init runs at each boot. The user data
bring its parameters as a file ``nics.json``: a generation, and per NIC its MAC address, table, addresses and gateways.
An address that a powered-on VM's guest reports on the same network is in conflict with it; the guest takes it off, as
the command does. Every gateway of a connected NIC answers, unless a fault says that it does not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from ipaddress import ip_address, ip_interface
from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed.guests import guest_faults, guest_image
from vsphere_ai.lab.store import ManagedObject

KEY = "guestinfo.vsphere-ai.ready"
PARAMETERS = "nics.json"
COMMAND = "ready.sh"
EACH_BOOT = "/var/lib/cloud/scripts/per-boot/"
ROUTER = "00:00:5e:00:01:01"
"""MAC address of gateways: that of a virtual router (RFC 5798)."""
NO_SENDER = "not probed: no address of its network is free"


def is_asked_for(command: object) -> bool:
    """Return whether a command is the last one."""
    return isinstance(command, list) and command[:1] == ["sh"] and str(command[-1]).endswith(f"/{COMMAND}")


def at_each_boot(files: Mapping[str, tuple[str, bool]]) -> Iterator[list[str]]:
    """Yield the commands of the scripts that cloud-init runs at each boot: of those that are executable."""
    scripts = (text for path, (text, executable) in sorted(files.items()) if path.startswith(EACH_BOOT) and executable)
    for line in (line for text in scripts for line in text.splitlines()):
        words = line.removeprefix("exec ").split()
        if words[:1] == ["sh"] and words[-1] in files:
            yield words


def reported(farm: Farm, mo: ManagedObject, files: Mapping[str, tuple[str, bool]], ethernets: Mapping[str, Any]) -> str:
    """Return what the guest writes into its key; empty where the parameters are missing.

    `files` are those of the guest, by path; `ethernets` are the entries of its network file by MAC address.
    """
    texts = [text for path, (text, _) in files.items() if path.endswith(f"/{PARAMETERS}")]
    if not texts:
        return ""
    given = json.loads(texts[0])
    cards = {nic.macAddress.lower(): nic for nic in mo["guest"].net}
    nics = {
        nic["mac"]: _result(farm, mo, nic, cards.get(nic["mac"])) | _rendered(nic, ethernets.get(nic["mac"], {}))
        for nic in given["nics"]
    }
    machine = guest_image.machine(mo)
    found = {"generation": given["generation"], "machine": machine, "host_keys": farm.guest_keys, "nics": nics}
    return json.dumps(found, separators=(",", ":"))


def _rendered(given: Mapping[str, Any], ethernet: Mapping[str, Any]) -> dict[str, Any]:
    """Return what netplan has made of the network file: the MTU, and whether the rules are there."""
    table, hosts = given["table"], [text.partition("/")[0] for text in given["addresses"]]
    rules = [(str(r.get("from", "")).partition("/")[0], r.get("table")) for r in ethernet.get("routing-policy") or ()]
    missing = next((host for host in hosts if table is not None and (host, table) not in rules), None)
    routing = "main" if table is None or not hosts else f"table {table}"
    return {
        "mtu": ethernet.get("mtu") or 1500,
        "routing": f"no rule from {missing} lookup {table}" if missing else routing,
    }


def _result(farm: Farm, mo: ManagedObject, given: Mapping[str, Any], card: Any) -> dict[str, Any]:
    reason = "no interface has this MAC address" if card is None else "" if card.connected else "the link is down"
    hosts = [ip_interface(text) for text in given["addresses"]]
    found = {
        str(host.ip): f"not probed: {reason}" if reason else _probe(farm, mo, card, str(host.ip)) for host in hosts
    }
    answer = "silent" if guest_faults.of(mo, "gateway-silent") else f"answered {ROUTER}"
    free = [host.network for host in hosts if found[str(host.ip)] == "free"]
    return {
        "name": "" if card is None else given["name"],
        "addresses": found,
        "gateways": {
            text: answer if any(ip_address(text) in each for each in free) else NO_SENDER for text in given["gateways"]
        },
    }


def _probe(farm: Farm, mo: ManagedObject, card: Any, host: str) -> str:
    """Return what an ARP or neighbour probe for an address finds."""
    own = [a for a in card.ipConfig.ipAddress if ip_address(a.ipAddress) == ip_address(host)]
    if not own:
        return "absent"
    taken = guest_faults.of(mo, "address-taken") is not None
    holders = (n.macAddress for n in _others(farm, mo, card.network) if _has(n, host))
    holder = guest_faults.STRANGER if taken else next(holders, None)
    if holder is None:
        return "free"
    card.ipConfig.ipAddress = [a for a in card.ipConfig.ipAddress if a not in own]
    card.ipAddress = [text for text in card.ipAddress if ip_address(text) != ip_address(host)]
    return f"conflict {holder.lower()}"


def _others(farm: Farm, mo: ManagedObject, network: str) -> Iterator[Any]:
    for other in farm.store.of(vim.VirtualMachine):
        if other is not mo and other["runtime"].powerState == "poweredOn":
            yield from (nic for nic in other["guest"].net or () if nic.connected and nic.network == network)


def _has(nic: Any, host: str) -> bool:
    shown = nic.ipConfig.ipAddress if nic.ipConfig else ()
    return any(ip_address(a.ipAddress) == ip_address(host) for a in shown)
