"""Host settings that PVRDMA needs beside the path to its RDMA NIC: a VMkernel adapter, the firewall, one MTU.

Source: vSphere Networking 7.0, "Assign a VMkernel Adapter for PVRDMA", "Enable the Firewall Rule for PVRDMA".
"""

from __future__ import annotations

from collections.abc import Iterator

from vsphere_ai.fabric import dvs, networks, vmk
from vsphere_ai.fabric import route as fabric_route
from vsphere_ai.fabric.api_types import Vnic
from vsphere_ai.fabric.corrections import HostForPvrdma, KernelAdapter, SwitchMtu
from vsphere_ai.fabric.links import HOST_PART, Link, LinkPlace, why
from vsphere_ai.model.deferred import is_deferred
from vsphere_ai.model.estate.correction import Correction
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.state import Target

RULESET = "pvrdma"
RDMA_MTUS = (4096, 2048, 1024, 512, 256)
LARGEST_RDMA_MTU = RDMA_MTUS[0]
HEADERS = 96  # what Linux keeps free of a frame for the headers of RoCE (iboe_get_mtu); for ESXi unverified
MTU_LINK = "MTU"
FIREWALL = LinkPlace("firewall", HOST_PART, "host.pvrdma-firewall")
VMKNIC = LinkPlace("PVRDMA vmknic", HOST_PART, "host.pvrdma-vmknic")
MTU, RDMA_MTU = (LinkPlace(MTU_LINK, HOST_PART, rule) for rule in ("host.pvrdma-mtu", "host.rdma-mtu"))


def host_links(estate: Estate, host: Target, group: Facts | None) -> Iterator[Link]:
    """Yield the links of a host besides the path: the VMkernel adapter of PVRDMA, and the firewall."""
    facts = estate[host.ref]
    yield _vmknic(estate, host, group)
    rulesets = {r["key"]: r["enabled"] for r in facts.get("config.firewall.ruleset", ())}
    if "config.firewall.ruleset" not in facts.properties:
        yield FIREWALL.link("unknown", why(facts, "config.firewall.ruleset"))
    elif rulesets.get(RULESET):
        yield FIREWALL.link("pass", f"ruleset {RULESET} is open")
    elif RULESET not in rulesets:
        yield FIREWALL.link("fail", f"there is no ruleset {RULESET}", "PVRDMA needs ESXi 6.5 or later")
    else:
        yield FIREWALL.link("fail", f"ruleset {RULESET} is closed", fix=HostForPvrdma(host))


def _vmknic(estate: Estate, host: Target, group: Facts | None) -> Link:
    facts = estate[host.ref]
    chosen = facts.get(vmk.OPTION_FACT)
    if chosen is None:
        return VMKNIC.link("unknown", f"{vmk.OPTION}: {why(facts, vmk.OPTION_FACT)}")
    vnic = _named_vnic(facts)
    fix, help = _naming(estate, host, group)
    if not chosen:
        return VMKNIC.link("fail", f"{vmk.OPTION} is not set", help, fix)
    if vnic is None and vmk.VNICS in facts.properties:
        return VMKNIC.link("fail", f"{chosen} is named, and the host has none of that name", help, fix)
    if vnic is None or not _is_elsewhere(estate, vnic, group):
        return VMKNIC.link("pass", _device(chosen))
    uuid, switch = vmk.switch_uuid(vnic), dvs.switch_of(estate, group)
    other = dvs.proxies(facts).get(uuid, {}).get("dvsName", "another switch")
    seen = f"{_device(chosen)} is on {other}, not on {switch.name if switch else 'its switch'}"
    if uuid in dvs.with_rdma(facts):
        one = f"a host has one such adapter, and {other} has an RDMA NIC too"
        return VMKNIC.link("unknown", seen, f"{one}; what PVRDMA makes of the other switch is not documented")
    should = "it should be on the switch of the RDMA NIC, with its MTU"
    return VMKNIC.link("unknown", seen, help or f"{should}; what PVRDMA makes of this one is not documented", fix)


def _naming(estate: Estate, host: Target, group: Facts | None) -> tuple[Correction | None, str]:
    """Return the fix that selects an adapter on the switch of a port group, and the help where there is none yet."""
    near = next(iter(_near(estate, host, group)), None)
    if near is not None:
        return KernelAdapter(host, near, for_pvrdma=True), ""
    help = "no VMkernel adapter is on that switch: write an address, and the play creates one"
    name = networks.label(estate, group) if group else ""
    return (KernelAdapter(host, name, for_pvrdma=True, is_new=True) if group else None), help


def mtu_link(estate: Estate, host: Target, route: fabric_route.FabricRoute | None) -> Link:
    """Return the link that compares the MTU (bytes) of VMkernel adapter, switch and RDMA device; not of the guest."""
    switch = route.switch if route else None
    size = (switch.get("config.maxMtu") if switch else None) or ((route.proxy or {}).get("mtu") if route else None)
    if route is None or switch is None or not size:
        return MTU.link("unknown", "the MTU of the switch is not known")
    on_it = used_vnic(estate, host, route.group)
    own = _mtu(on_it) if on_it else None
    device = route.device
    rdma = (device.get("connectionInfo") or {}).get("mtu") if device else None
    parts = [f"{_device(str(on_it['device']))} {own or '?'}"] if on_it else []
    named = _named_vnic(estate[host.ref])
    away = named if named and _is_elsewhere(estate, named, route.group) else None
    if away is not None:  # frames go by its MTU as long as it is the one that is named
        parts = [f"{_device(str(away['device']))} {_mtu(away) or '?'} (not on {switch.name})", *parts]
    parts += [f"{switch.name} {size}", *([f"{device['device']} {rdma or '?'}"] if device else [])]
    seen = f"guest ?, {', '.join(parts)}"
    if on_it is not None and own and own != size:
        help = "frames that are too long for the smaller one are lost"
        return MTU.link("unknown" if away else "fail", seen, help, _mtu_fix(estate, host, on_it, switch))
    if away is not None and _mtu(away) != size:
        help = f"the adapter PVRDMA uses has not the MTU of {switch.name}, and is on another switch"
        return MTU.link("unknown", seen, help)
    if rdma and rdma < rdma_mtu_over(size):
        look = "look at the MTU of the NIC (esxcli network nic list) and at the physical switch"
        return RDMA_MTU.link("info", seen, f"MTU {size} has room for RDMA MTU {rdma_mtu_over(size)}: {look}")
    if rdma and rdma < LARGEST_RDMA_MTU:
        return RDMA_MTU.link("info", seen, f"MTU 9000 all the way gives RDMA MTU {LARGEST_RDMA_MTU}")
    return MTU.link("pass", seen)


def rdma_mtu_over(ethernet: int) -> int:
    """Return the largest RDMA MTU in bytes that fits into an Ethernet MTU; 9000 gives 4096, 1500 gives 1024."""
    return next((size for size in RDMA_MTUS if size + HEADERS <= ethernet), RDMA_MTUS[-1])


def used_vnic(estate: Estate, host: Target, group: Facts) -> Vnic | None:
    """Return the adapter that PVRDMA uses on the switch of a port group, or will use once one there is named."""
    vnic = _named_vnic(estate[host.ref])
    if vnic and not _is_elsewhere(estate, vnic, group):
        return vnic
    return next(iter(_near(estate, host, group).values()), None)


def _is_elsewhere(estate: Estate, vnic: Vnic, group: Facts | None) -> bool:
    switch = dvs.switch_of(estate, group)
    return switch is not None and vmk.switch_uuid(vnic) != switch.get("uuid")


def _mtu(vnic: Vnic) -> int | None:
    return (vnic.get("spec") or {}).get("mtu")


def _mtu_fix(estate: Estate, host: Target, vnic: Vnic, switch: Facts) -> Correction | None:
    """Return the fix that raises the smaller MTU: frames that fit now still fit."""
    own, size = vnic["spec"]["mtu"], switch.get("config.maxMtu")
    at = estate.datacenter_of(switch.ref)
    if own > size:
        return SwitchMtu(at, switch.name, own) if at else None
    group = next((n for n, vnics in vmk.by_group(host.ref, estate).items() if vnics == [vnic]), None)
    return KernelAdapter(host, group, size) if group else None


def _named_vnic(facts: Facts) -> Vnic | None:
    """Return the adapter that is named for PVRDMA, where the host has it."""
    device = facts.get(vmk.OPTION_FACT)
    return next((v for v in facts.get(vmk.VNICS, ()) if device and v["device"] == device), None)


def _near(estate: Estate, host: Target, group: Facts | None) -> dict[str, Vnic]:
    """Return the host's VMkernel adapters on the switch of a port group, by their port group, where it has only one."""
    switch = dvs.switch_of(estate, group)
    if switch is None:
        return {}
    single = {n: v[0] for n, v in vmk.by_group(host.ref, estate).items() if len(v) == 1}
    return {n: v for n, v in single.items() if vmk.switch_uuid(v) == switch.get("uuid")}


def _device(device: str) -> str:
    return "an adapter that this plan makes" if is_deferred(device) else device
