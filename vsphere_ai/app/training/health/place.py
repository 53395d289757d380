"""Place of a VM on its host, for health: what vCenter shows of it, and ATS, which only the shell of the host shows."""

from __future__ import annotations

from vsphere_ai.app.training.nodes.facts import NodeState
from vsphere_ai.fabric import pci
from vsphere_ai.health.placement import VmPlace
from vsphere_ai.model.facts import CommandOutput, Facts
from vsphere_ai.model.names.pci_address import read_pci
from vsphere_ai.model.nodes import Node
from vsphere_ai.model.steps import Probe

ATS = Probe("health.ats", ("esxcli", "system", "settings", "kernel", "list", "-o", "atsSupport"))


def place_of(node: Node, state: NodeState, host: Facts) -> VmPlace:
    """Return what is known of the place of a VM."""
    ats, unread = _ats(host)
    return VmPlace(state.functions, _near(host), bool(node.gpus and (state.functions or node.passed)), ats, unread)


def _near(host: Facts) -> dict[int, tuple[str, ...]]:
    devices = host.get("config.network.rdmaDevice") or ()
    found, rdma = pci.devices(host), {(each.get("backing") or {}).get("pairedUplink") for each in devices}
    near: dict[int, list[str]] = {}
    for nic in host.get("config.network.pnic") or ():
        device = found.get(read_pci(str(nic.get("pci"))))
        if nic.get("key") in rdma and device is not None and device.numa is not None:
            near.setdefault(device.numa, []).append(str(nic["device"]))
    return {number: tuple(names) for number, names in near.items()}


def _ats(host: Facts) -> tuple[bool | None, str]:
    """Return whether the kernel runs with ATS, as the table of esxcli says: name, type, configured, runtime."""
    answer = host.probes.get(ATS.name)
    if not isinstance(answer, CommandOutput):
        return None, answer.reason if answer is not None else ""
    rows = (line.split() for line in answer.stdout.splitlines())
    now = next((row[3] for row in rows if len(row) > 3 and row[0] == "atsSupport"), "")
    return {"TRUE": True, "FALSE": False}.get(now.upper()), "" if now else "the host does not list it"
