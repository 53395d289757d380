"""`esxcli network` and `esxcli rdma`: NICs and their settings, firewall rulesets, RDMA devices."""

from __future__ import annotations

from collections.abc import Mapping

from vsphere_ai.lab.hardware import drivers
from vsphere_ai.lab.hardware.host import LabHost
from vsphere_ai.lab.hardware.parts import Pnic
from vsphere_ai.lab.shell.columns import block, table
from vsphere_ai.lab.shell.esxcli_command import EsxcliCommand, EsxcliError, Options, boolean, number


def _nics(host: LabHost, options: Options) -> str:
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


def _nic_info(host: LabHost, options: Options) -> str:
    """Labels of the public ESXCLI reference and of outputs that users published; constructed, not recorded."""
    nic = _nic(host, options["nic-name"])
    received, sent = drivers.pause_of(host, nic)
    up = nic.link_up
    address, _, function = nic.pci.rpartition(".")
    words = {
        "Advertised Auto Negotiation": not nic.forced_mb,
        "Advertised Link Modes": ", ".join(["Auto", *(f"{speed}None/Full" for speed in nic.speeds)]),
        "Auto Negotiation": not nic.forced_mb,
        "Cable Type": "DA" if up else "",
        "Current Message Level": -1,
        "Driver Info": "",
        "      Bus Info": f"{address}:{function}",
        "      Driver": nic.driver,
        "      Firmware Version": nic.firmware,
        "      Version": drivers.VERSIONS.get(nic.driver, ""),
        "Link Detected": up,
        "Link Status": "Up" if up else "Down",
        "Name": nic.name,
        "PHYAddress": 0,
        "Pause Autonegotiate": False,
        "Pause RX": received,
        "Pause TX": sent,
        "Supported Ports": "DA",
        "Supports Auto Negotiation": True,
        "Supports Pause": True,
        "Supports Wakeon": False,
        "Transceiver": "",
        "Virtual Address": nic.mac,
        "Wakeon": "None",
    }
    return block((label, str(v).lower() if isinstance(v, bool) else v) for label, v in words.items())


def _rulesets(host: LabHost, options: Options) -> str:
    wanted = options.get("ruleset-id")
    if wanted is not None and wanted not in host.firewall:
        raise EsxcliError(f"Invalid ruleset id '{wanted}'")
    rows = [(name, str(on).lower()) for name, on in sorted(host.firewall.items()) if wanted in (None, name)]
    return table(("Name", "Enabled"), rows, right=("Enabled",))


def _set_ruleset(host: LabHost, options: Options) -> str:
    name, enabled = options["ruleset-id"], boolean(options["enabled"])
    if name not in host.firewall:
        raise EsxcliError(f"Invalid ruleset id '{name}'")
    if host.set_firewall(name, enabled):
        detail = {"ruleset": name, "enabled": enabled}
        host.ledger.record(host.name, "esxcli network firewall ruleset set", detail, channel="ssh")
    return ""


def _rdma_devices(host: LabHost, options: Options) -> str:
    titles = ("Name", "Driver", "State", "MTU", "Speed", "Paired Uplink", "Description")
    rows = [
        (r.name, r.driver, r.state, r.mtu, f"{r.speed_gb} Gbps", nic.name, r.description)
        for nic in host.pnics
        if (r := nic.rdma)
    ]
    return table(titles, rows, right=("MTU",))


def _rdma_vmknics(host: LabHost, options: Options) -> str:
    rows = [(r.name, r.vmknic, "defaultTcpipStack") for r in host.rdma_devices if r.vmknic]
    return table(("Device", "Vmknic", "NetStack"), rows)


def _rdma_protocols(host: LabHost, options: Options) -> str:
    rows = [(r.name, str(r.rocev1).lower(), str(r.rocev2).lower(), "false") for r in host.rdma_devices]
    return table(("Device", "RoCE v1", "RoCE v2", "iWARP"), rows)


def _pause_list(host: LabHost, options: Options) -> str:
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


def _pause_set(host: LabHost, options: Options) -> str:
    nic = _nic(host, options["nic-name"])
    rx, tx = (boolean(options[name]) if name in options else None for name in ("rx", "tx"))
    if drivers.set_pause(host, nic, rx, tx):
        detail = {"nic": nic.name, "rx": nic.pause_rx, "tx": nic.pause_tx}
        host.ledger.record(host.name, "esxcli network nic pauseParams set", detail, channel="ssh")
    return ""


def _dcb_status(host: LabHost, options: Options) -> str:
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


NOT_SUPPORTED = (
    "Unable to complete Sysinfo operation.  Please see the VMkernel log file for more details.: "
    "Sysinfo error: Not supported"
)
"""What a driver without a setting lets esxcli say; constructed from what users report."""


def _rings(host: LabHost, options: Options) -> str:
    nic = _nic(host, options["nic-name"])
    return _ring_block(nic, *nic.rings)


def _most_rings(host: LabHost, options: Options) -> str:
    nic = _nic(host, options["nic-name"])
    return _ring_block(nic, nic.rings_most, nic.rings_most)


def _ring_block(nic: Pnic, rx: int, tx: int) -> str:
    if not nic.rings_most:
        raise EsxcliError(NOT_SUPPORTED)
    return block((("RX", rx), ("RX Mini", 0), ("RX Jumbo", 0), ("TX", tx)))


def _set_rings(host: LabHost, options: Options) -> str:
    nic = _nic(host, options["nic-name"])
    if not nic.rings_most:
        raise EsxcliError(NOT_SUPPORTED)
    rx, tx = (number(options[name]) if name in options else None for name in ("rx", "tx"))
    try:
        changed = drivers.set_rings(host, nic, rx, tx)
    except ValueError as error:
        raise EsxcliError(f"Invalid value: {error}") from None
    if changed:
        detail = {"nic": nic.name, "rx": nic.rings[0], "tx": nic.rings[1]}
        host.ledger.record(host.name, "esxcli network nic ring current set", detail, channel="ssh")
    return ""


ADAPTIVE = ("adaptive-rx", "adaptive-tx")


def _coalesce(host: LabHost, options: Options) -> str:
    """Columns as ESXi 6.7 and later print them."""
    titles = (
        "NIC", "RX microseconds", "RX maximum frames", "TX microseconds", "TX Maximum frames", "Adaptive RX",
        "Adaptive TX", "Sample interval seconds",
    )  # fmt: skip
    rows = []
    for nic in host.pnics:
        have = nic.coalesce
        numbers = [have[n] if have else "N/A" for n in ("rx-usecs", "rx-max-frames", "tx-usecs", "tx-max-frames")]
        adaptive = [("On" if have[n] else "Off") if have else "N/A" for n in ADAPTIVE]
        rows.append((nic.name, *numbers, *adaptive, 0 if have else "N/A"))
    return table(titles, rows)


def _set_coalesce(host: LabHost, options: Options) -> str:
    nic = _nic(host, options["vmnic"])
    wanted = {
        name: int(boolean(text)) if name in ADAPTIVE else number(text)
        for name, text in options.items()
        if name != "vmnic"
    }
    try:
        changed = drivers.set_coalesce(host, nic, wanted)
    except ValueError:
        raise EsxcliError(NOT_SUPPORTED) from None
    if changed:
        host.ledger.record(host.name, "esxcli network nic coalesce set", {"nic": nic.name, **wanted}, channel="ssh")
    return ""


def _nic(host: LabHost, name: str) -> Pnic:
    found = next((nic for nic in host.pnics if nic.name == name), None)
    if found is None:
        raise EsxcliError(f"Invalid NIC name: {name}")
    return found


COMMANDS: Mapping[str, EsxcliCommand] = {
    "network nic list": EsxcliCommand(_nics),
    "network nic get": EsxcliCommand(_nic_info, {"n": "nic-name"}, ("nic-name",)),
    "network nic pauseParams list": EsxcliCommand(_pause_list),
    "network nic pauseParams set": EsxcliCommand(
        _pause_set, {"n": "nic-name", "r": "rx", "t": "tx", "a": "auto"}, ("nic-name",)
    ),
    "network nic ring current get": EsxcliCommand(_rings, {"n": "nic-name"}, ("nic-name",)),
    "network nic ring preset get": EsxcliCommand(_most_rings, {"n": "nic-name"}, ("nic-name",)),
    "network nic ring current set": EsxcliCommand(_set_rings, {"n": "nic-name", "r": "rx", "t": "tx"}, ("nic-name",)),
    "network nic coalesce get": EsxcliCommand(_coalesce, {"n": "vmnic"}),
    "network nic coalesce set": EsxcliCommand(
        _set_coalesce,
        {
            "n": "vmnic",
            "r": "rx-usecs",
            "R": "rx-max-frames",
            "t": "tx-usecs",
            "T": "tx-max-frames",
            "a": "adaptive-rx",
            "A": "adaptive-tx",
        },
        ("vmnic",),
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
