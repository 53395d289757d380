"""Checks of a VM: what its guest, and what its host say, against a profile. Verdicts rank UNKNOWN above WARN."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from vsphere_ai.health import counters
from vsphere_ai.health.answers import (
    ADDRESSES,
    CUDA,
    KERNEL,
    LINKS,
    PROCESSES,
    REPLAYED,
    RULES,
    SMI,
    SYSFS,
    UPTIME,
    VERSIONS,
    GuestFacts,
    SmiGpu,
    link_of,
)
from vsphere_ai.health.counters import Reading, pcie_replays_allowed
from vsphere_ai.health.finding import ON_TRIAL, VmFinding, VmJudge, Witness
from vsphere_ai.health.kernel.kernel_log import KernelEvent, events
from vsphere_ai.health.kernel.xid_rules import GpuEvent, XidVerdict, is_over, judged, numbered
from vsphere_ai.health.listed import listed_findings, path_findings
from vsphere_ai.health.logs import CABLE, is_down, log_findings
from vsphere_ai.health.preflight import rail_part
from vsphere_ai.health.profile import MEASURES, HealthProfile, measured
from vsphere_ai.health.registry import with_next_step
from vsphere_ai.health.witness import HostFacts, gpu_findings, host_findings, is_other_branch
from vsphere_ai.model.finding import Verdict, seriousness, worst
from vsphere_ai.model.nodes import Node, NodeGpu, Rail

GPU_KINDS = ("xid", "off_the_bus", "init", "sxid")
STEPS = {
    "reset_gpu": "reset_gpu",
    "restart_vm": "restart_os",
    "restart_host": "restart_os",
    "isolate": "service_required",
    "inspect": "service_required",
}
"""The step on NVIDIA's ladder for the action of an XID."""
IN_WORDS = {
    SMI.name: "gpu-driver",
    PROCESSES.name: "gpu-driver",
    CUDA.name: "gpu-driver",
    VERSIONS.name: "versions",
    ADDRESSES.name: "mtu",
    RULES.name: "policy-route",
    KERNEL.name: "kernel-log",
    LINKS.name: "rdma-link",
    SYSFS.name: "counters",
    UPTIME.name: "kernel-log",
}
"""The check of a command that brought no answer."""


@dataclass(frozen=True)
class ObservedVm:
    """A VM as both witnesses see it. `error` is why its guest could not be asked at all; `hangs`: it runs no command.

    `before` and `after` are two readings of its counters; `passthrough`: its GPUs are its own. `at` is when it was
    looked at; without it, outages in logs are not judged.
    """

    node: Node
    guest: GuestFacts = field(default_factory=GuestFacts)
    host: HostFacts = field(default_factory=HostFacts)
    error: str = ""
    remedy: str = ""
    hangs: bool = False
    before: tuple[Reading, ...] = ()
    after: tuple[Reading, ...] = ()
    passthrough: bool = False
    at: datetime | None = None
    asked: Mapping[str, Mapping[str, int | bool]] = field(default_factory=dict)
    """Values of a profile that the playbook asks for, by the MAC address of the rail."""
    cards: Mapping[str, str] = field(default_factory=dict)
    """PCI addresses in the guest by RDMA device."""

    @property
    def owned(self) -> tuple[tuple[str, SmiGpu], ...]:
        """The GPUs as the side shows them that owns them, each with its part in words."""
        pairs: list[tuple[NodeGpu, SmiGpu | None]] = []
        for gpu in self.node.gpus:
            inside = next((seen for seen in self.guest.gpus if seen.index == gpu.index), None)
            pairs.append((gpu, inside if self.passthrough else self.host.gpus.get(gpu.host_pci)))
        return tuple((f"GPU {gpu.host_pci or seen.bus}", seen) for gpu, seen in pairs if seen is not None)


@dataclass(frozen=True)
class VmHealth:
    """The verdict about a VM, and the findings of which it follows, the worst first."""

    node: Node
    findings: tuple[VmFinding, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of its findings."""
        return worst(self.findings)


def judge(observed: ObservedVm, profile: HealthProfile, more: Iterable[VmFinding] = ()) -> VmHealth:
    """Return the health of a VM; `more` are findings of it that came of looking at several VMs."""
    every = (f for f in (*_findings(observed, profile), *more) if f.rule not in profile.skip)
    found = (_on_trial(f) if f.rule in profile.shadow else with_next_step(f) for f in every)
    return VmHealth(observed.node, tuple(sorted(found, key=lambda f: -seriousness(f))))


def _on_trial(finding: VmFinding) -> VmFinding:
    """Return a finding of a check that does not count yet."""
    return replace(finding, verdict="info", evidence=(*finding.evidence, (ON_TRIAL, finding.verdict)))


def _findings(observed: ObservedVm, profile: HealthProfile) -> Iterator[VmFinding]:
    node, guest = observed.node, observed.guest
    inside: list[VmFinding] = []
    if observed.error:
        verdict: Verdict = "fail" if observed.hangs else "unknown"
        yield VmJudge(node)("ssh", verdict, observed.error, observed.remedy)
    else:
        yield from _answers(node, guest)
        inside += _gpus(observed, profile)
        yield from inside
        yield from _rails(observed, profile)
        logs = list(log_findings(node, guest, observed.host, profile, observed.at)) if observed.at else []
        yield from logs
        yield from _counters(observed, {f.target.part for f in logs if f.rule == "flapping"})
        yield from _replays(observed)
        yield from _versions(observed, profile)
    outside = list(host_findings(node, guest, observed.host, passthrough=observed.passthrough))
    yield from outside
    if not observed.error:
        yield from _numbers(observed, profile, {f.target.part for f in (*inside, *outside) if f.rule in CAUSES})


CAUSES = ("uplink-speed", "throttle")
"""What makes numbers differ: a rail whose uplink is slow, and a GPU that is too hot, are named once."""
OF_GPU = ("gpu-clock", "gpu-power", "gpu-temperature")


def _numbers(observed: ObservedVm, profile: HealthProfile, known: set[str]) -> Iterator[VmFinding]:
    """Yield the numbers that differ from the profile's, without parts of which the cause is `known`."""
    node = observed.node
    for name, values in measured(node, observed.guest, observed.owned).items():
        number, measure = profile.numbers.get(name), MEASURES[name]
        for part, value in values:
            if number is None or part in known:
                continue
            limit = measure.limit(number)
            if value > limit if measure.rises else value < limit:
                message = f"{value:g} {measure.unit}; healthy VMs have {number.typical:g}, and the limit is {limit:g}"
                side: Witness = "host" if measure.check in OF_GPU and not observed.passthrough else "guest"
                yield VmJudge(node, part, side)(measure.check, measure.verdict, message, measure.remedy)


REMEDIES = {
    "did not end in time": "look at the guest: its driver may hang",
    "wrote more than is read": "look in the guest at what fills it; for a log, stop what writes, and `dmesg --clear`",
    "is not as expected": "run it in the guest, and look at what it prints",
}
"""What to do about a command without an answer, by words of the reason."""


def _answers(node: Node, guest: GuestFacts) -> Iterator[VmFinding]:
    """Yield the commands without an answer: a time-out is a failure, for a driver that hangs does not answer."""
    said: set[str] = set()
    for name, why in guest.failures.items():
        late, id = "did not end in time" in why, IN_WORDS.get(name, name)
        if id in said or (name == LINKS.name and not node.rails):
            continue
        said.add(id)
        check: Verdict = "fail" if late or name == SMI.name else "unknown"
        remedy = next((said for text, said in REMEDIES.items() if text in why), "let the account run it, or install it")
        yield VmJudge(node)(id, check, why, remedy)


def _gpus(observed: ObservedVm, profile: HealthProfile) -> Iterator[VmFinding]:
    node, guest = observed.node, observed.guest
    if SMI.name in guest.failures:
        return
    want = profile.gpus if profile.gpus is not None else len(node.gpus)
    parts = ", ".join(dict.fromkeys(f"GPU {gpu.host_pci}" for gpu in node.gpus if gpu.host_pci))
    named = _parts(observed)
    listed = {gpu.index for gpu in guest.listed.gpus} if guest.listed is not None else set()
    there = len(listed.union(gpu.index for gpu in guest.gpus))
    if there < want:
        message = f"{there} of {want} GPUs are there"
        yield VmJudge(node, parts)("gpu-count", "fail", message, "look for the GPU on the host")
    for seen in guest.gpus:
        part = named[seen.index]
        if profile.gpu_name and seen.name and seen.name != profile.gpu_name:
            message = f"it is a {seen.name}, not a {profile.gpu_name}"
            yield VmJudge(node, part)("gpu-name", "fail", message, "look at the vGPU profile of the VM")
        if observed.passthrough or seen.fault:
            yield from gpu_findings(node, seen, part, "guest")
        corrected = seen.ecc_corrected if observed.passthrough else None
        if corrected is not None and corrected > profile.ecc_corrected:
            message = f"{corrected} corrected ECC errors"
            yield VmJudge(node, part)("ecc", "warn", message, "watch it; reset the GPU")
    yield from listed_findings(node, guest, named)
    yield from path_findings(node, observed.host, named)


def _parts(observed: ObservedVm) -> dict[int, str]:
    """Return the GPUs in words by their indexes in the guest: by the address on the host where that is known."""
    guest = {gpu.index: f"GPU {gpu.index} ({gpu.bus} in the guest)" for gpu in observed.guest.gpus}
    return guest | {gpu.index: f"GPU {gpu.host_pci}" for gpu in observed.node.gpus if gpu.host_pci}


def _rails(observed: ObservedVm, profile: HealthProfile) -> Iterator[VmFinding]:
    node, guest = observed.node, observed.guest
    if LINKS.name in guest.failures:
        return
    sources = {source for source, _ in guest.rules}
    linked = 0
    for rail in node.rails:
        wanted = profile.model_copy(update=observed.asked.get(rail.mac))
        for check, message, remedy in _rail(rail, guest, wanted, sources):
            yield VmJudge(node, rail_part(rail))(check, "fail", message, remedy)
        linked += link_of(rail, guest) is not None
    if profile.rails is not None and len(node.rails) < profile.rails:
        message = f"it has {len(node.rails)} rails, and should have {profile.rails}"
        yield VmJudge(node)("rails", "fail", message, "look at the adapters of the VM")
    yield from _uncabled(observed)


def _uncabled(observed: ObservedVm) -> Iterator[VmFinding]:
    """Yield the RDMA cards, by PCI address without function, that carry no rail and have fewer active ports."""
    node, active = observed.node, Counter[str]()
    rails = {link.device for rail in node.rails if (link := link_of(rail, observed.guest)) is not None}
    cards = {link.device: observed.cards.get(link.device, link.device) for link in observed.guest.links}
    for link in observed.guest.links:
        active[cards[link.device].partition(".")[0]] += link.is_active
    known = {cards[device].partition(".")[0] for device in rails}
    for card in (card for card in counters.uncabled(active) if card not in known):
        message = f"{active[card]} of its ports are active, fewer than of the VM's other RDMA NICs"
        yield VmJudge(node, f"RDMA NIC {card} in the guest")("uncabled", "warn", message, CABLE)


def _rail(rail: Rail, guest: GuestFacts, profile: HealthProfile, sources: set[str]) -> Iterator[tuple[str, str, str]]:
    link = link_of(rail, guest)
    if link is None:
        yield "rdma-link", "the guest has no RDMA device for this rail", "load the driver of the adapter"
        return
    if not link.is_active:
        yield "rdma-link", f"{link.device} is {link.state}", "look at the physical link, its cable and switch port"
        return
    interface = guest.interfaces.get(link.netdev or rail.interface)
    if interface is not None and profile.mtu is not None and interface.mtu != profile.mtu:
        remedy = f"set it in the guest (netplan: mtu: {profile.mtu})"
        yield "mtu", f"the interface has an MTU of {interface.mtu}, not {profile.mtu}", remedy
    types = guest.gid_types.get(f"{link.device}/{link.port}", ())
    if profile.roce_v2 and types and "RoCE v2" not in types:
        yield "gid", f"{link.device} has no GID of RoCE v2", "give the interface an address, and load rdma_cm"
    known = RULES.name not in guest.failures
    if known and profile.policy_routes and rail.address and rail.address not in sources:
        yield "policy-route", f"no rule is for {rail.address}", "use an image with netplan, and `netplan apply`"


def _counters(observed: ObservedVm, said: set[str]) -> Iterator[VmFinding]:
    """Yield counters that rise; of a rail that is down, or whose outages were found in a log, nothing more is said."""
    node = observed.node
    said = said | {rail_part(rail) for rail in node.rails if is_down(rail, observed.guest)}
    before = {(r.device, r.port): r for r in observed.before}
    rails = {name: rail for rail in node.rails for name in (rail.rdma_device, rail.interface) if name}
    for after in observed.after:
        earlier = before.get((after.device, after.port))
        if earlier is None or after.taken - earlier.taken < counters.SHORTEST:
            continue
        for each in counters.findings(earlier, after):
            rail = rails.get(each.device)
            part = rail_part(rail) if rail else each.device
            check = "flapping" if each.counter in ("link_downed", "carrier_changes") else "counters"
            if check == "flapping" and part in said:
                continue
            yield VmJudge(node, part)(check, each.limit.verdict, each.message, CABLE)


def _replays(observed: ObservedVm) -> Iterator[VmFinding]:
    """Yield the whole GPUs whose PCIe link repeats more packets than generation and lanes allow."""
    node, before = observed.node, {r.device: r for r in observed.before if REPLAYED in r.values}
    for part, gpu in observed.owned if observed.passthrough else ():
        generation, _, lanes, _ = gpu.pcie
        earlier, later = before.get(gpu.bus), next((r for r in observed.after if r.device == gpu.bus), None)
        if earlier is None or later is None or not lanes or generation is None or generation not in range(1, 7):
            continue
        minutes = max(1.0, (later.taken - earlier.taken).total_seconds() / 60)
        rise, most = later.values[REPLAYED] - earlier.values[REPLAYED], pcie_replays_allowed(generation, lanes)
        if rise > most * minutes:
            message = f"{rise / minutes:.0f} PCIe replays per minute, more than {most}"
            remedy = "reseat the board, look at riser and BIOS"
            yield VmJudge(node, part)("pcie-replay", "warn", message, remedy)


def gpu_events(observed: ObservedVm, now: datetime, hours: float) -> tuple[GpuEvent, ...]:
    """Return the errors in the logs of guest and host by physical GPU; one that both have counts once.

    The GPU is named by host and PCI address, where that is known; else by VM and the address in the guest. An error of
    the host's log is old where the restart that it asks for has taken place since. Times of the host are corrected by
    what its clock is wrong.
    """
    guest, host, since = observed.guest, observed.host, now - timedelta(hours=hours)
    boot = now - timedelta(seconds=guest.uptime) if guest.uptime is not None else None
    start = round(boot.timestamp()) if boot is not None else 0
    inside = [e for e in events(guest.kernel, boot=boot, since=since) if e.kind in GPU_KINDS]
    found = [_event_of(observed, e, start, virtual=True) for e in inside]
    known = {(found_event.gpu, found_event.event.number) for found_event in found}
    ahead = host.correction
    for event in events(host.log, since=since + ahead):
        event = replace(event, time=event.time - ahead) if event.time is not None else event
        made = _event_of(observed, event, start, virtual=False)
        if event.kind in GPU_KINDS and made.gpu and (made.gpu, event.number) not in known:
            found.append(replace(made, old=is_over(event, boot, host.booted)))
    return tuple(found)


def _event_of(observed: ObservedVm, event: KernelEvent, start: int, *, virtual: bool) -> GpuEvent:
    node = observed.node
    if event.kind == "sxid":  # of a switch between GPUs, and of none of them
        return GpuEvent(f"{node.vm if virtual else node.host} {event.device}", event, node.vm, start)
    gpu = _gpu_of(node, event.device, virtual=virtual)
    pci = gpu.rpartition(" ")[2]
    seen = observed.host.gpus.get(pci)
    own = next((g.uuid for g in node.gpus if g.host_pci == pci and not g.profile), "")
    return GpuEvent(gpu, event, node.vm, start, uuid=seen.uuid if seen else own, by_host=not virtual)


def xid_findings(found: Iterable[GpuEvent], nodes: Sequence[Node], now: datetime) -> Iterator[VmFinding]:
    """Yield what the errors of every physical GPU ask for, as a finding of each VM that is on it now."""
    every = numbered(found)
    for each in judged(every, now):
        gpu = each.gpu.rpartition(" ")[2]
        own = [n for n in nodes if any(f"{n.host} {g.host_pci}" == each.gpu for g in n.gpus)]
        own = own or [n for n in nodes if n.vm in each.vms]
        new = [e for e in every if e.gpu == each.gpu and not e.old]
        witness: Witness = "host" if new and all(e.by_host for e in new) else "guest"
        kind = "NVSwitch" if new and all(e.event.kind == "sxid" for e in new) else "GPU"
        for node in own:
            asked, step = each.finding, STEPS.get(each.action, "")
            message = f"{asked.message} (source: {asked.source}){_texts(every, each)}"
            yield VmJudge(node, f"{kind} {gpu}", witness)(asked.rule, asked.verdict, message, asked.remedy, step)


def _texts(every: Sequence[GpuEvent], verdict: XidVerdict) -> str:
    texts = dict.fromkeys(e.event.text for e in every if e.gpu == verdict.gpu and e.event.text)
    return f": {'; '.join(texts)[:200]}" if texts else ""


def _gpu_of(node: Node, device: str, *, virtual: bool) -> str:
    """Return the name of the physical GPU of a device in a log; empty for one of the host that is not the VM's."""
    for gpu in node.gpus:
        if gpu.host_pci and (gpu.guest_pci if virtual else gpu.host_pci).startswith(device):
            return f"{node.host} {gpu.host_pci}"
    known = [gpu.host_pci for gpu in node.gpus if gpu.host_pci]
    if virtual and len(known) == 1:
        return f"{node.host} {known[0]}"
    return f"{node.vm} {device}" if virtual else ""


def _versions(observed: ObservedVm, profile: HealthProfile) -> Iterator[VmFinding]:
    """Yield versions that are not the profile's; that the driver is not of the host's branch is another check."""
    node, guest = observed.node, observed.guest
    driver = next((gpu.driver for gpu in guest.gpus), "")
    pairs = [("driver", profile.driver, driver), ("CUDA", profile.cuda, guest.cuda)]
    pairs += [(name, version, guest.packages.get(name, "")) for name, version in profile.packages.items()]
    for name, want, have in pairs:
        if name == "driver" and not observed.passthrough and is_other_branch(have, observed.host.driver):
            continue
        if want and have != want and not (name == "CUDA" and profile.driver not in (None, driver)):
            message = f"it has {name} {have}, not {want}" if have else f"it has no {name}"
            if have or name not in ("driver", "CUDA"):
                yield VmJudge(node)("versions", "fail", message, "use the same image for every VM")
