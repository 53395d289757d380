"""`esxcli network` and `esxcli rdma`: NICs and their flow control, firewall rulesets, RDMA devices."""

from __future__ import annotations

from collections.abc import Mapping

from vsphere_ai.lab.hardware import drivers
from vsphere_ai.lab.hardware.host import Host
from vsphere_ai.lab.hardware.parts import Pnic
from vsphere_ai.lab.shell.columns import block, table
from vsphere_ai.lab.shell.esxcli_command import EsxcliCommand, EsxcliError, Options, boolean


def _nics(host: Host, options: Options) -> str:
    titles = (
        "Name", "PCI Device", "Driver", "Admin Status", "Link Status", "Speed", "Duplex", "MAC Address", "MTU",
        "Description",
    )  # fmt: skip
    rows = [
        (
            n.name, n.pci, n.driver, "Up", "Up" if n.link_up else "Down", n.speed_mb if n.link_up else 0,
            "Full" if n.link_up else "Half", n.mac, n.mtu, n.description,
        )
        for n in host.pnics
    ]  # fmt: skip
    return table(titles, rows, right=("Speed", "MTU"))


def _rulesets(host: Host, options: Options) -> str:
    wanted = options.get("ruleset-id")
    if wanted is not None and wanted not in host.firewall:
        raise EsxcliError(f"Invalid ruleset id '{wanted}'")
    rows = [(name, str(on).lower()) for name, on in sorted(host.firewall.items()) if wanted in (None, name)]
    return table(("Name", "Enabled"), rows, right=("Enabled",))


def _set_ruleset(host: Host, options: Options) -> str:
    name, enabled = options["ruleset-id"], boolean(options["enabled"])
    if name not in host.firewall:
        raise EsxcliError(f"Invalid ruleset id '{name}'")
    if host.set_firewall(name, enabled):
        detail = {"ruleset": name, "enabled": enabled}
        host.ledger.record(host.name, "esxcli network firewall ruleset set", detail, channel="ssh")
    return ""


def _rdma_devices(host: Host, options: Options) -> str:
    titles = ("Name", "Driver", "State", "MTU", "Speed", "Paired Uplink", "Description")
    rows = [
        (r.name, r.driver, r.state, r.mtu, f"{r.speed_gb} Gbps", nic.name, r.description)
        for nic in host.pnics
        if (r := nic.rdma)
    ]
    return table(titles, rows, right=("MTU",))


def _rdma_vmknics(host: Host, options: Options) -> str:
    rows = [(r.name, r.vmknic, "defaultTcpipStack") for r in host.rdma_devices if r.vmknic]
    return table(("Device", "Vmknic", "NetStack"), rows)


def _rdma_protocols(host: Host, options: Options) -> str:
    rows = [(r.name, str(r.rocev1).lower(), str(r.rocev2).lower(), "false") for r in host.rdma_devices]
    return table(("Device", "RoCE v1", "RoCE v2", "iWARP"), rows)


def _pause_list(host: Host, options: Options) -> str:
    """Columns as ESXi 7.0 and 8.0 print them; what is negotiated is not simulated."""
    titles = (
        "NIC", "Pause Params Supported", "Pause RX", "Pause TX", "Auto Negotiation",
        "Auto Negotiation Resolution Avail", "RX Auto Negotiation Resolution", "TX Auto Negotiation Resolution",
    )  # fmt: skip
    rows = []
    for nic in host.pnics:
        received, sent = drivers.pause_of(host, nic)
        words = (True, received, sent, False, False, False, False)
        rows.append((nic.name, *(str(word).lower() for word in words)))
    return table(titles, rows, right=titles[1:])


def _pause_set(host: Host, options: Options) -> str:
    nic = _nic(host, options["nic-name"])
    rx, tx = (boolean(options[name]) if name in options else None for name in ("rx", "tx"))
    if drivers.set_pause(host, nic, rx, tx):
        detail = {"nic": nic.name, "rx": nic.pause_rx, "tx": nic.pause_tx}
        host.ledger.record(host.name, "esxcli network nic pauseParams set", detail, channel="ssh")
    return ""


def _dcb_status(host: Host, options: Options) -> str:
    nic = _nic(host, options["nic-name"])
    mask = drivers.pfc_mask(host, nic)
    rows = (
        ("Nic Name", nic.name),
        ("Mode", "3 - IEEE Mode"),
        ("Enabled", "true"),
        ("PFC Enabled", str(bool(mask)).lower()),
        ("PFC Configuration", " ".join(str(mask >> priority & 1) for priority in range(8))),
    )
    return block(rows)


def _nic(host: Host, name: str) -> Pnic:
    found = next((nic for nic in host.pnics if nic.name == name), None)
    if found is None:
        raise EsxcliError(f"Invalid NIC name: {name}")
    return found


COMMANDS: Mapping[str, EsxcliCommand] = {
    "network nic list": EsxcliCommand(_nics),
    "network nic pauseParams list": EsxcliCommand(_pause_list),
    "network nic pauseParams set": EsxcliCommand(
        _pause_set, {"n": "nic-name", "r": "rx", "t": "tx", "a": "auto"}, ("nic-name",)
    ),
    "network nic dcb status get": EsxcliCommand(_dcb_status, {"n": "nic-name"}, ("nic-name",)),
    "network firewall ruleset list": EsxcliCommand(_rulesets, {"r": "ruleset-id"}),
    "network firewall ruleset set": EsxcliCommand(
        _set_ruleset, {"r": "ruleset-id", "e": "enabled"}, ("ruleset-id", "enabled")
    ),
    "rdma device list": EsxcliCommand(_rdma_devices),
    "rdma device vmknic list": EsxcliCommand(_rdma_vmknics),
    "rdma device protocol list": EsxcliCommand(_rdma_protocols),
}
