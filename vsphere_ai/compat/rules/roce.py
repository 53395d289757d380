"""Rules about RoCE: lossless Ethernet and MTU on the host, and who a VM's PVRDMA adapters can talk to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from vsphere_ai.compat.base import Evidence, RuleCase, host_rule, vm_rule
from vsphere_ai.compat.devices import wanted_adapters
from vsphere_ai.compat.rules.vm_hardware import hardware_version
from vsphere_ai.fabric import nic_settings
from vsphere_ai.fabric.api_types import HostRdmaDevice
from vsphere_ai.fabric.corrections import LosslessRoce, NicPause
from vsphere_ai.fabric.dvs import proxies, with_uuid
from vsphere_ai.fabric.host import LARGEST_RDMA_MTU, rdma_mtu_over
from vsphere_ai.fabric.nic_settings import Pause
from vsphere_ai.fabric.route import is_up, uplink_key
from vsphere_ai.model.estate.correction import Correction
from vsphere_ai.model.estate.host_version import PRODUCT, host_version
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.finding import Finding
from vsphere_ai.model.names.module_options import pfc_priorities
from vsphere_ai.model.names.versions import dotted
from vsphere_ai.model.state import Target
from vsphere_ai.resources.host_settings import HasSwitches, Pauses
from vsphere_ai.resources.mixins import kinds_with, offered, stated
from vsphere_ai.resources.topics import Topic

DEVICES, NICS = "config.network.rdmaDevice", "config.network.pnic"
DRIVER = "nmlx5_core"
OPTIONS = f"query:{DRIVER}"
ENDPOINTS_HARDWARE, ENDPOINTS_ESXI = 18, (7, 0, 1)


@host_rule(
    "host.roce-lossless",
    "Lossless Ethernet for RoCE",
    source="vSphere Storage 7.0, Configuring Lossless Ethernet for RDMA (GUID-B764140D)",
    verdicts={
        "pass": "every active RoCE NIC has PFC, or global pause on, now or by this plan",
        "warn": "no PFC, and global pause is off on a RoCE NIC",
        "unknown": "no PFC is seen on a RoCE NIC, and whether global pause is on was not asked over SSH",
    },
    reads=(DEVICES, NICS),
    also_reads={"HostSystem": (OPTIONS,)},
    about=Topic.PVRDMA | Topic.ROCE | Topic.NIC_SETTINGS,
)
def host_roce_lossless(case: RuleCase) -> Finding | None:
    """RoCE needs an Ethernet that loses no frames: flow control on one priority (PFC), or global pause.

    The options of `nmlx5_core` say it of the NICs of that driver; others are asked themselves. Whether the physical
    switch is set up alike cannot be seen from here. PFC that was agreed with the switch by DCBX is not seen either.
    """
    nics = _roce_nics(case)
    if not nics:
        return None
    facts = case.facts
    configured, seen = _configured(case, nics)
    rest = [n for n in nics if n not in configured]
    shown = {n: dcb for n in rest if nics[n] != DRIVER and (dcb := nic_settings.dcb(facts, n)) and dcb.priorities}
    pauses = {n: p for n, p in _pauses(case).items() if n in rest and n not in shown}
    found = [
        *(seen if configured or not pauses else ()),
        *((f"{n}: DCB", str(dcb)) for n, dcb in shown.items()),
        *((f"{n}: global pause", str(pause)) for n, pause in pauses.items()),
    ]
    unsafe = [n for n, pause in pauses.items() if not (pause.rx and pause.tx)]
    silent = [n for n in rest if n not in shown and n not in pauses]
    if unsafe:
        if all(nics[n] == DRIVER for n in unsafe):
            fixes: tuple[Correction, ...] = (LosslessRoce(case.own),)
            help = case.play(*fixes)
        else:
            fixes = tuple(NicPause(case.own, name, is_on=True) for name in unsafe)
            help = f"{case.play(*fixes)}, or set up PFC with the tools of its driver"
        message = f"neither PFC nor global pause on {', '.join(unsafe)}: RoCE loses frames under load"
        return case.warned(message, *found, help=help, fixes=fixes)
    if silent:
        words = "no PFC is configured, and whether global pause is on is not known"
        others = [n for n in silent if nics[n] != DRIVER]
        said = f"whether {', '.join(others)} has PFC or global pause is not known"
        return case.unknown("; ".join([words] * (others != silent) + [said] * bool(others)), *(found or seen))
    parts = [f"{how} {', '.join(configured)}" for how in configured.values()][:1]
    parts += [f"PFC is at work on {', '.join(shown)}"] * bool(shown)
    parts += [f"global pause is on for {', '.join(pauses)}"] * bool(pauses)
    return case.passed("; ".join(parts), *found)


@host_rule(
    "host.roce-dcb",
    "PFC at work on the RDMA NICs",
    source="vSphere Storage 7.0, Configuring Lossless Ethernet for RDMA (GUID-B764140D)",
    verdicts={
        "pass": "every RoCE NIC of that driver says that PFC is on for those priorities, and global pause is off",
        "warn": "a NIC says something else, or has PFC and global pause",
        "unknown": "PFC is configured, and a NIC was not asked over SSH or does not show it",
    },
    reads=(DEVICES, NICS),
    also_reads={"HostSystem": (OPTIONS,)},
    about=Topic.PVRDMA | Topic.ROCE | Topic.NIC_SETTINGS,
)
def host_dcb(case: RuleCase) -> Iterator[Finding]:
    """Flow control per priority that is configured has to be at work on the NIC, and global pause beside it cannot be.

    The options of `nmlx5_core` are about the NICs of that driver only, and count from a boot on; the physical switch
    may agree on something else with the NIC (DCBX).
    """
    nics = _roce_nics(case)
    if not nics or case.planned(OPTIONS) is not None:
        return
    facts = case.facts
    wanted = pfc_priorities(str(facts.get(OPTIONS) or ""))
    shown = {name: nic_settings.dcb(facts, name) for name in nics}
    own = [name for name, driver in nics.items() if driver == DRIVER]
    pauses = _pauses(case)
    seen = [(f"{name}: {' '.join(nic_settings.DCB.argv[3:6])}", str(dcb)) for name, dcb in shown.items() if dcb]
    other = [n for n in own if wanted and (dcb := shown[n]) and dcb.priorities != wanted]
    both = [n for n, dcb in shown.items() if dcb and dcb.priorities and (p := pauses.get(n)) and (p.rx or p.tx)]
    if other:
        priority, said = ", ".join(map(str, wanted)), "; ".join(f"{name}: {shown[name]}" for name in other)
        help = "restart the host if it has not been since; look at DCBX on the ports of the physical switch"
        yield case.warned(f"PFC is configured on priority {priority}, and is not so at work: {said}", *seen, help=help)
    if both:
        message = f"{', '.join(both)}: PFC and global pause are both on; only one of them can be at work"
        help = case.play(NicPause(case.own, both[0]))
        yield case.warned(message, *seen, help=help)
    if other or both or not wanted or not own:
        return
    silent = [name for name in own if shown[name] is None]
    if silent:
        yield case.unknown(f"whether PFC is at work on {', '.join(silent)} was not asked, or is not shown", *seen)
    else:
        yield case.passed(f"PFC is at work on {', '.join(own)}", *seen)


@host_rule(
    "host.rdma-mtu",
    "RDMA MTU",
    source="vSphere Storage 7.0, RoCE; the sizes themselves are unverified",
    verdicts={
        "pass": f"every active RoCE device has {LARGEST_RDMA_MTU}, now or by this plan",
        "warn": "one has less, or will have less by this plan; or less than fits into the frames of its switch",
        "unknown": "no device shows one",
    },
    reads=(DEVICES, "config.network.proxySwitch"),
    about=Topic.PVRDMA | Topic.ROCE,
)
def host_rdma_mtu(case: RuleCase) -> Iterator[Finding]:
    """An RDMA device takes the largest of 256, 512, 1024, 2048 and 4096 bytes that fits the MTU of its switch.

    9000 gives 4096, 1500 gives 1024, which costs throughput. It has to be alike on both ends and on the way.
    """
    devices = {str(d["device"]): d for d in case.need(DEVICES) if is_up(d)}
    stated = {name: (d.get("connectionInfo") or {}).get("mtu") for name, d in devices.items()}
    mtus = {name: mtu for name, mtu in stated.items() if mtu}
    seen = [(f"{DEVICES}[{name}].connectionInfo.mtu", mtu) for name, mtu in mtus.items()]
    switches = {n: switch for n in mtus if (switch := _switch(case, devices[n])) and switch.get("config.maxMtu")}
    room = {n: rdma_mtu_over(switch.get("config.maxMtu")) for n, switch in switches.items()}
    planned = {n: room[n] for n, switch in switches.items() if _has_planned_mtu(case, switch)}
    seen += [(f"plan.switches.{switches[n].name}.mtu", switches[n].get("config.maxMtu")) for n in planned]
    after = mtus | planned
    wasted = [n for n, mtu in after.items() if mtu < room.get(n, 0)]
    low = [n for n, mtu in after.items() if n not in wasted and mtu < LARGEST_RDMA_MTU]
    if wasted:
        sizes = ", ".join(f"{name} uses {mtus[name]}, its switch has room for {room[name]}" for name in wasted)
        help = "look at the MTU of its NIC on the host (esxcli network nic list) and at the physical switch"
        yield case.warned(f"RDMA MTU below what fits: {sizes}", *seen, help=help)
    if low:
        later = {n: f", {mtus[n]} before this plan" for n in planned if mtus[n] != after[n]}
        sizes = ", ".join(f"{name} {after[name]}{later.get(name, '')}" for name in low)
        help = "give its distributed switch, its VMkernel adapter and the physical switch MTU 9000"
        yield case.warned(f"RDMA MTU below {LARGEST_RDMA_MTU}: {sizes}", *seen, help=help)
    elif mtus and not wasted:
        yield case.passed(f"RDMA MTU {LARGEST_RDMA_MTU} on {', '.join(mtus)}, now or after this plan", *seen)
    elif devices and not mtus:
        yield case.unknown(f"the MTU of {', '.join(devices)} is not shown")


@vm_rule(
    "vm.pvrdma-endpoints",
    "PVRDMA native endpoints",
    source="vSphere Networking 7.0, PVRDMA Support",
    verdicts={
        "pass": "hardware version 18 or later, and ESXi 7.0 U1 or later on every host",
        "warn": "earlier: peers have to be PVRDMA VMs on the same switch",
        "unknown": "the hardware version or a host's release is not known",
    },
    reads=("config.version", "config.hardware.device"),
    also_reads={"HostSystem": PRODUCT},
    about=Topic.PVRDMA,
)
def vm_pvrdma_endpoints(case: RuleCase) -> Finding | None:
    """PVRDMA adapters talk to each other; to RDMA devices outside of vSphere they need native endpoints.

    Those take hardware version 18 and ESXi 7.0 U1 on every host in question. Without them all peers have to be VMs
    with PVRDMA adapters on the same distributed switch.
    """
    if not wanted_adapters(case):
        return None
    version, seen = hardware_version(case)
    unread, old = case.view.places.of_hosts(case.view.candidates(case.ref), _without_endpoints)
    if version is None or unread:
        return case.unknown(f"not known: {', '.join(unread) or seen[1]}", seen)
    short = [f"hardware version {version} is below {ENDPOINTS_HARDWARE}"] if version < ENDPOINTS_HARDWARE else []
    if short or old:
        help = case.upgrade(ENDPOINTS_HARDWARE) if short else f"they take ESXi {dotted(ENDPOINTS_ESXI)} on every host"
        peers = "its peers have to be PVRDMA VMs on the same switch"
        return case.warned(f"no native endpoints: {'; '.join((*short, *old))}; {peers}", seen, help=help)
    return case.passed(f"hardware version {version}: native endpoints where the NIC has them", seen)


def _without_endpoints(estate: Estate, hosts: Sequence[Target]) -> tuple[list[str], list[str]]:
    """Return the names of the hosts whose version is not known, and what those run that have no native endpoints."""
    stated = {h.name: host_version(estate, h.ref) for h in hosts}
    early = ((name, version[0]) for name, version in stated.items() if version and version[0] < ENDPOINTS_ESXI)
    return [n for n, version in stated.items() if version is None], [f"{n} runs {dotted(v)}" for n, v in early]


def _roce_nics(case: RuleCase) -> dict[str, str]:
    """Return the NICs of the active RoCE devices, with their drivers."""
    uplinks = {uplink_key(d) for d in case.need(DEVICES) if is_up(d)}
    return {str(n["device"]): str(n.get("driver", "")) for n in case.need(NICS) if n.get("key") in uplinks}


def _configured(case: RuleCase, nics: Mapping[str, str]) -> tuple[dict[str, str], Sequence[Evidence]]:
    """Return the NICs that the options of their driver give PFC, with how it gets there; and what was seen of that."""
    given = case.planned(OPTIONS)
    planned = given.value if given else None
    options = str(case.facts.get(OPTIONS) or "")
    seen: Evidence = (OPTIONS, options) if options else (DEVICES, ", ".join(nics))
    own = [n for n, driver in nics.items() if driver == DRIVER]
    if given and isinstance(planned, int):
        how = f"this plan puts PFC on priority {planned} of"
        return dict.fromkeys(own, how), (given.evidence,)
    if planned is None and pfc_priorities(options):
        return dict.fromkeys(own, "PFC is configured on"), (seen,)
    return {}, (seen,)


def _pauses(case: RuleCase) -> dict[str, Pause]:
    """Return global pause as it was read, with what is planned of it; drivers lose theirs when the host restarts."""
    read = {} if case.ref in case.view.rebooting else nic_settings.pauses(case.facts)
    planned = {nic: pause for state in offered(case.view, case.ref, Pauses) for nic, pause in state.pauses().items()}
    return read | planned


def _switch(case: RuleCase, device: HostRdmaDevice) -> Facts | None:
    """Return its distributed switch, as it will be."""
    nic = uplink_key(device)
    return with_uuid(case.view.estate, [u for u, p in proxies(case.facts).items() if nic in p.get("pnic", ())])


def _has_planned_mtu(case: RuleCase, switch: Facts) -> bool:
    """Return whether this plan says which MTU a switch has; what a playbook leaves out of a switch stays as it is."""
    at = case.view.estate.datacenter_of(case.ref)
    if at is None or not any(case.view.is_planned(at.ref, kind) for kind in kinds_with(HasSwitches)):
        return False
    said = [*stated(case.view, at.ref, HasSwitches)] or offered(case.view, at.ref, HasSwitches)
    return any(one.mtu is not None for state in said if (one := state.switch(switch.name)) is not None)
