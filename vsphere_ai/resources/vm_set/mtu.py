"""MTU of a NIC beside that of its switch, and of the VMkernel adapters of its host that it shares a network with."""

from __future__ import annotations

from collections.abc import Iterator

from vsphere_ai.fabric import dvs, vmk
from vsphere_ai.fabric.api_types import Vnic
from vsphere_ai.fabric.host import used_vnic
from vsphere_ai.model.state import Target
from vsphere_ai.model.view import View
from vsphere_ai.model.vm_sets import Member, MemberFault
from vsphere_ai.resources._helpers import ethernet
from vsphere_ai.resources.vm_set.settings import SetNic


def mtu_problems(nic: SetNic, network: str, member: Member, view: View) -> Iterator[MemberFault]:
    """Yield an MTU that the distributed switch of a NIC, or a VMkernel adapter it talks to, does not let through."""
    switch = dvs.switch_of(view.estate, view.estate.get(network)) if ethernet.is_distributed(network) else None
    if nic.mtu is None:
        return
    most = switch.get("config.maxMtu") if switch else None
    if switch is not None and most is not None and nic.mtu > int(most):
        message = f"{nic.name}: an MTU of {nic.mtu} is more than the {most} of its switch {switch.name}"
        yield MemberFault("mtu", message, f"write mtu: {most}, or set the MTU of the switch in a play: switches")
        return
    host = view.estate.get(member.place.host)
    if host is None:
        return
    for why, vnic in _shared(nic, network, Target("host", host.name, host.ref), view):
        own = (vnic.get("spec") or {}).get("mtu")
        if own and own < nic.mtu:
            of = f"of the VMkernel adapter of {host.name} {why}"
            message = f"{nic.name}: an MTU of {nic.mtu} is more than the {own} {of}"
            help = f"write mtu: {own}, or set the MTU of the adapter in a play: vmkernel"
            yield MemberFault("vmknic-mtu", message, help)


def _shared(nic: SetNic, network: str, host: Target, view: View) -> Iterator[tuple[str, Vnic]]:
    """Yield the adapters whose frames a NIC gets: that of PVRDMA, and of a storage NIC those on its port group."""
    group = view.estate.get(network)
    if nic.type == "pvrdma" and group is not None:
        used = used_vnic(view.estate, host, group)
        yield from [("that PVRDMA uses", used)] if used else []
    elif nic.role == "storage":
        name = ethernet.named(view.estate, network)
        yield from ((f"on {name}", vnic) for vnic in vmk.by_group(host.ref, view.estate).get(name, ()))
