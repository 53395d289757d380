"""Sections on a farm as it was read: hosts with their VMs, GPUs as slices, RDMA paths, and drift from playbooks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from vsphere_ai.gpu.devices import boards_of, is_vgpu, nvidia_gpus
from vsphere_ai.gpu.mig.fragmentation import Fragmentation, fragmentation
from vsphere_ai.model.names.name_ranges import listed
from vsphere_ai.model.text import counted
from vsphere_ai.planning.drift import differences
from vsphere_ai.report.folding import names
from vsphere_ai.report.gpus.capacity_document import room_by_profile
from vsphere_ai.report.layout import grouped
from vsphere_ai.report.network.trace_paths import line_of
from vsphere_ai.report.network.trace_text import path_document
from vsphere_ai.report.pages.pictures.gpu_pictures import gpus_now
from vsphere_ai.report.pages.pictures.path_graph import path_graph
from vsphere_ai.report.pages.tables import Entry, few
from vsphere_ai.report.pages.values import ReportSection, Row
from vsphere_ai.report.plans.drift_text import difference_text, drift_counts

if TYPE_CHECKING:
    from vsphere_ai.fabric.links import Link
    from vsphere_ai.fabric.trace import Trace
    from vsphere_ai.gpu.vgpus.slot import GpuSlot
    from vsphere_ai.model.facts import Estate, Facts
    from vsphere_ai.model.state import Target
    from vsphere_ai.planning.capacity_report import GpuUse
    from vsphere_ai.planning.planner import Plan

Uses = Mapping[str, Sequence["GpuUse"]]
_HOST = ("host", "state", "vSphere", "GPUs", "VMs on", "VMs and their vGPUs")
_GPU = ("hosts", "GPUs", "board", "mode", "runs", "slices", "used", "free", "unusable", "fits")
_PATH = ("VMs", "hosts", "port group", "protocol", "path", "what blocks it", "remedy")
_OTHER = ("hosts", "GPUs", "board", "graphics type")
_DRIFT = ("targets", "difference")
POWER = {"poweredOn": "", "poweredOff": "off", "suspended": "suspended"}


def host_state(host: Facts) -> str:
    """Return in a word or two how a host is: ``ready`` where it takes VMs."""
    connection = str(host.get("runtime.connectionState") or "unknown")
    if connection != "connected":
        return {"notResponding": "not responding"}.get(connection, connection)
    return "maintenance mode" if host.get("runtime.inMaintenanceMode") else "ready"


def estate_sections(estate: Estate, gpus: Uses) -> tuple[ReportSection, ...]:
    """Return a section per cluster: each host with its VMs, those that have the same vGPUs and power state together."""
    clusters = grouped((_cluster(estate, host), host) for host in estate.hosts)
    found = []
    for cluster, hosts in clusters.items():
        rows = tuple(_host_row(estate, host, gpus.get(host.name, ())) for host in hosts)
        on = sum(estate.is_on(vm.ref) for host in hosts for vm in estate.vms_on(host.ref))
        vms = sum(len(estate.vms_on(host.ref)) for host in hosts)
        note = f"{counted(len(hosts), 'host')}, {counted(vms, 'VM')}, {on} of them on."
        found.append(ReportSection(f"Cluster {cluster}" if cluster else "Hosts without a cluster", _HOST, rows, note))
    return tuple(found)


def _cluster(estate: Estate, host: Target) -> str:
    parent = estate.cluster_of(host.ref)
    return parent.name if parent and parent.ref.startswith("ClusterComputeResource:") else ""


def clusters_of(estate: Estate) -> dict[str, str]:
    """Return for each host by its name the name of its cluster; "" for one without."""
    return {host.name: _cluster(estate, host) for host in estate.hosts}


def _host_row(estate: Estate, host: Target, gpus: Sequence[GpuUse]) -> Row:
    facts, vms = estate[host.ref], estate.vms_on(host.ref)
    alike = grouped((_vm_words(estate[vm.ref]), vm) for vm in vms)
    said = [f"{_few(own, 'VM')}{f': {words}' if words else ''}" for words, own in alike.items()]
    boards = Counter(map(_board, gpus))
    on = sum(estate.is_on(vm.ref) for vm in vms)
    cards = ", ".join(f"{n} x {board}" for board, n in boards.items())
    without = sum(without_vgpus(facts, gpus).values())
    cards = ", ".join(
        filter(None, (cards, f"{without} that give{'s' if without == 1 else ''} no vGPUs" if without else ""))
    )
    return host.name, host_state(facts), _version(facts), cards, f"{on} of {len(vms)}", "; ".join(said)


def _board(use: GpuUse) -> str:
    return use.slot.board.title.partition(",")[0].partition(" (")[0]


def _vm_words(vm: Facts) -> str:
    devices = vm.get("config.hardware.device") or ()
    profiles = Counter(str((d.get("backing") or {}).get("vgpu")) for d in devices if is_vgpu(d))
    vgpus = [f"{n} x {name}" if n > 1 else name for name, n in profiles.items()]
    power = POWER.get(str(vm.get("runtime.powerState")), "power state not known")
    return ", ".join([*vgpus, *([power] if power else [])])


def _version(host: Facts) -> str:
    product = host.get("config.product") or {}
    known = product if isinstance(product, Mapping) else {}
    return " ".join(str(known[part]) for part in ("version", "build") if known.get(part)) or "not known"


def slices_of(slot: GpuSlot) -> Fragmentation | None:
    """Return how the slices of a GPU in MIG mode are used; None for any other one."""
    if slot.mode != "mig" or not slot.board.memory_slices:
        return None
    return fragmentation(slot.board, slot.present, driver_major=slot.driver_major)


def without_vgpus(host: Facts, gpus: Sequence[GpuUse]) -> Counter[tuple[str, str]]:
    """Return the NVIDIA GPUs of a host that give no vGPUs as they are: how many of each board and graphics type."""
    boards, used = boards_of(host), {use.slot.pci for use in gpus}
    found = Counter[tuple[str, str]]()
    for gpu in nvidia_gpus(host):
        pci = str(gpu.get("pciId"))
        if pci not in used:
            board = boards.get(pci)
            name = board.title.partition(",")[0].partition(" (")[0] if board else str(gpu.get("deviceName", ""))
            found[name, str(gpu.get("graphicsType") or "not known")] += 1
    return found


def other_gpu_sections(estate: Estate, gpus: Uses) -> tuple[ReportSection, ...]:
    """Return the GPUs that give no vGPUs, hosts that are alike in one row."""
    alike = grouped(
        ((board, mode, count), host.name)
        for host in estate.hosts
        for (board, mode), count in without_vgpus(estate[host.ref], gpus.get(host.name, ())).items()
    )
    rows = tuple(
        (few(listed(own), len(own), "host"), str(count * len(own)), board, mode)
        for (board, mode, count), own in alike.items()
    )
    note = "vGPUs need the graphics type sharedDirect, and NVIDIA's driver on the host: vsphere-ai check says more."
    return (ReportSection("GPUs that give no vGPUs", _OTHER, rows, note),) if rows else ()


def gpu_sections(hosts: Uses, *, asked: bool) -> tuple[ReportSection, ...]:
    """Return the GPUs of hosts, those that are alike in one row; `asked`: hosts were asked over SSH."""
    alike = grouped((_gpu_row(use), (host, use.slot.pci)) for host, own in hosts.items() for use in own)
    rows = []
    for row, places in alike.items():
        on = tuple(dict.fromkeys(host for host, _ in places))
        pcis = dict.fromkeys(pci for _, pci in places)
        where = ", ".join(pcis) if len(pcis) <= 4 else counted(len(pcis), "address")
        rows.append((few(listed(on), len(on), "host"), f"{len(places)}: {where}", *row))
    note = "Slices are memory slices. An unusable slice is free, and no profile can use it with the current layout."
    if not asked:
        note += " Hosts were not asked over SSH: MIG instances that no VM uses are not known."
    return (
        (ReportSection("GPUs", _GPU, tuple(rows), note, gpus_now(list(map(_divided, hosts.items())))),) if rows else ()
    )


def _divided(host: tuple[str, Sequence[GpuUse]]) -> Entry:
    """Return the GPUs of a host in MIG mode with their instances, as `capacity` prints them."""
    name, uses = host
    gpus = [
        {
            "pci": use.slot.pci,
            "slices": use.slot.board.memory_slices,
            "instances": [{"profile": i.profile_name, "start": i.start, "in_use": i.in_use} for i in use.slot.present],
        }
        for use in uses
        if use.slot.mode == "mig"
    ]
    return {"host": name, "gpus": gpus}


def _gpu_row(use: GpuUse) -> Row:
    slot, found = use.slot, slices_of(use.slot)
    profiles = Counter(one.profile for one in use.running)
    runs = ", ".join(f"{n} x {name}" for name, n in sorted(profiles.items())) or "nothing"
    room = ", ".join(f"{n} x {name}" for name, n in room_by_profile(slot).items() if n) or "nothing more"
    counts = ("", "", "", "")
    if found:
        whole, free = slot.board.memory_slices, len(found.free)
        guess = "?" if slot.guessed else ""
        counts = (str(whole), f"{whole - free}{guess}", f"{free}{guess}", f"{len(found.stranded)}{guess}")
    mode = "MIG" if slot.mode == "mig" else f"time-sliced, {'mixed' if slot.kind.mixed else 'equal'} sizes"
    return _board(use), mode, runs, *counts, room


def verdict_of(trace: Trace) -> str:
    """Return whether a path is ``healthy`` or ``broken``, or ``unknown``."""
    return {"fail": "broken", "unknown": "unknown"}.get(trace.verdict, "healthy")


def path_sections(traces: Iterable[Trace]) -> tuple[ReportSection, ...]:
    """Return the RDMA paths of VMs, the broken ones first, those that are alike in one row."""
    found = tuple(traces)
    alike = grouped((_path_row(trace), trace) for trace in found)
    rows = [
        (_few((t.vm for t in own), "VM"), _few((t.host for t in own if t.host), "host"), *row)
        for row, own in alike.items()
    ]
    order = ("broken", "unknown", "healthy")
    rows.sort(key=lambda row: order.index(row[4]))
    note = "From each PVRDMA adapter to the physical NIC. vsphere-ai rdma trace VM shows every link."
    drawn = path_graph([path_document(trace).as_json() for trace in found], (), "the fabric")
    return (ReportSection("RDMA paths", _PATH, tuple(rows), note, (drawn,)),) if drawn else ()


def _few(targets: Iterable[Target], noun: str) -> str:
    own = tuple(dict.fromkeys(targets))
    return few(names(own), len(own), noun)


def _path_row(trace: Trace) -> Row:
    bad = [*trace.having("fail"), *trace.having("unknown")]
    own = [name for name in (trace.vm.name, trace.host.name if trace.host else "") if name]

    def general(text: str) -> str:
        for name in own:
            text = text.replace(name, "VM" if name == trace.vm.name else "host")
        return text

    said = "; ".join(general(f"{link.name}: {link.seen}") for link in bad)
    remedies = "; ".join(dict.fromkeys(general(_remedy(link)) for link in bad if link.finding.remedy or link.fix))
    return trace.port_group, trace.protocol or "", verdict_of(trace), said, remedies


def _remedy(link: Link) -> str:
    fix = link.fix
    return f"in a play for {fix.target.name}: {line_of(fix)}" if fix else link.finding.remedy


def drift_section(playbook: str, plan: Plan | None, error: str = "") -> ReportSection:
    """Return what is not as a playbook wants it, equal differences of several targets in one row."""
    title = f"Drift from {playbook}"
    if plan is None:
        return ReportSection(title, ("why it is not known",), ((error,),), wrong=True)
    alike = grouped((difference_text(d), d.target) for d in differences(plan).values())
    rows = tuple((few(names(own), len(own), "target"), text) for text, own in alike.items())
    return ReportSection(title, _DRIFT, rows, f"{drift_counts(plan)}.", wrong=bool(rows))
