"""Rules about a VM's virtual hardware version: what its devices need, and what its hosts can run."""

from __future__ import annotations

from collections.abc import Iterator

from vsphere_ai.compat.base import Evidence, RuleCase, Unreadable, vm_rule, why_absent
from vsphere_ai.compat.devices import planned_devices, wanted_adapters, wanted_vgpus
from vsphere_ai.model.estate.host_version import PRODUCT, VersionLimit, hardware_limits, hardware_number
from vsphere_ai.model.facts import Estate
from vsphere_ai.model.finding import Finding
from vsphere_ai.model.names.name_ranges import listed
from vsphere_ai.model.names.versions import first_esxi_with
from vsphere_ai.model.state import Target
from vsphere_ai.resources.topics import Topic

PVRDMA, NAMESPACES, PROTOCOLS = 13, 17, range(14, 20)
VGPU, SEVERAL_VGPUS = 17, 15
Adapters = tuple[tuple[str, str | None], ...]


@vm_rule(
    "vm.hardware-version",
    "Virtual hardware version",
    source="vSphere Networking 7.0, PVRDMA Support; Broadcom KB 315655 (virtual hardware versions)",
    verdicts={
        "pass": "carries the devices, now or after the upgrade this plan makes",
        "warn": "below 17: PVRDMA namespaces or advised version for vGPUs missing",
        "fail": "too old for PVRDMA or for several vGPUs, or without the RoCE version this plan chooses",
        "unknown": "the version is not `vmx-` with a number",
    },
    reads=("config.version", "config.hardware.device"),
    about=Topic.VIRTUAL_HARDWARE | Topic.VGPU | Topic.PVRDMA,
    blocks_unknown=True,
)
def vm_hardware_version(case: RuleCase) -> Finding:
    """The virtual hardware version has to carry the VM's devices.

    That is 13 for PVRDMA (17 for its namespaces, 14 to 19 for a chosen RoCE version), 15 for several vGPUs; 17 or
    later is advised for vGPUs. An upgrade in this plan counts.
    """
    version, seen = hardware_version(case)
    if version is None:
        return case.unknown(f"{seen[1]!r} is no hardware version", seen)
    vgpus, adapters = wanted_vgpus(case), wanted_adapters(case)
    after = f"after this plan: hardware version {version}" if seen[0].startswith("plan.") else f"vmx-{version}"
    short = dict(_short(version, vgpus, adapters))
    advice = dict(_advice(version, vgpus, adapters))
    # what an existing adapter shows is the server's own choice; only a protocol this plan sends can be refused
    chosen = any(a.chosen for state in planned_devices(case) for a in state.rdma_adapters() or ())
    faults = list(short)
    if chosen and version >= PVRDMA and version not in PROTOCOLS:
        faults.append(f"the RoCE version can be chosen for {PROTOCOLS[0]} to {PROTOCOLS[-1]} only")
    if faults:
        help = case.upgrade(max(short.values())) if short else "leave protocol out"
        return case.failed(f"{after}: {'; '.join(faults)}", seen, help=help)
    if advice:
        return case.warned(f"{after}: {'; '.join(advice)}", seen, help=case.upgrade(max(advice.values())))
    return case.passed(f"{after}: carries all devices", seen)


@vm_rule(
    "vm.hardware-hosts",
    "Hardware version the hosts run",
    source="Broadcom KB 315655, Virtual machine hardware versions",
    verdicts={
        "pass": "every host runs it",
        "fail": "a host is too old for it",
        "unknown": "the version of a host is not known, or the VM has no host",
    },
    reads=("config.version",),
    also_reads={"HostSystem": PRODUCT},
)
def vm_hardware_hosts(case: RuleCase) -> Finding:
    """Every host the VM may run on has to run its hardware version; the oldest host decides."""
    version, seen = hardware_version(case)
    if version is None:
        return case.unknown(f"{seen[1]!r} is no hardware version", seen)
    if case.view.estate.get(case.ref) is None:
        raise Unreadable("runtime.host", why_absent(None, "runtime.host"))
    hosts = case.view.candidates(case.ref) or case.view.estate.hosts_for(case.ref)
    known, hidden = case.view.places.of_hosts(hosts, hardware_limits)
    if not known:
        return case.unknown(f"host versions not known: {', '.join(hidden) or 'the VM has no host'}", seen)
    decides = case.view.places.of_hosts(hosts, _deciding, version)
    most, name, esxi, _ = decides
    where = (f"{name}: config.product.version", esxi)
    if decides.runs(version) is False:
        message = f"hardware version {version} is above {most}, the most {name} (ESXi {esxi}) runs"
        return case.failed(message, seen, where, help=_newer_hosts(case, version, hosts, most))
    if hidden:
        return case.unknown(f"host versions not known: {', '.join(hidden)}", seen, where)
    if decides.runs(version) is None:
        text = f"hardware version {version}: ESXi {esxi} is newer than the releases that are known here"
        return case.unknown(text, seen, where)
    return case.passed(f"hardware version {version} runs on all {len(known)} hosts", seen, where)


def hardware_version(case: RuleCase) -> tuple[int | None, Evidence]:
    """Return the VM's hardware version, planned or present, with where it was seen; None when it is no number."""
    planned = case.planned("config.version")
    if planned is not None:
        return planned.value, planned.evidence
    text = str(case.need("config.version"))
    return hardware_number(text), ("config.version", text)


def _short(version: int, vgpus: int, adapters: Adapters) -> Iterator[tuple[str, int]]:
    """Yield what the version is too low for, with the one that takes."""
    if adapters and version < PVRDMA:
        yield f"PVRDMA needs {PVRDMA}", PVRDMA
    if vgpus > 1 and version < SEVERAL_VGPUS:
        yield f"{vgpus} vGPUs need {SEVERAL_VGPUS}", SEVERAL_VGPUS


def _advice(version: int, vgpus: int, adapters: Adapters) -> Iterator[tuple[str, int]]:
    if adapters and version < NAMESPACES:
        yield f"PVRDMA namespaces need {NAMESPACES}", NAMESPACES
    if vgpus and version < VGPU:
        yield f"{VGPU} or later is advised for vGPUs", VGPU


def _newer_hosts(case: RuleCase, version: int, hosts: tuple[Target, ...], most: int) -> str:
    """Say which hosts are too old; staying below is a way only where the VM does not have that version already."""
    upgrade = f"upgrade {case.view.places.of_hosts(hosts, _older, version)} to {first_esxi_with(version)}"
    present = hardware_number(case.facts.get("config.version"))
    return f"stay at {most} or lower, or {upgrade}" if present is not None and present <= most else upgrade


def _deciding(estate: Estate, hosts: tuple[Target, ...], version: int) -> VersionLimit:
    """Return the limit of a host that does not run a hardware version; else of one that may not; else the lowest."""
    known, _ = hardware_limits(estate, hosts)
    answers = {limit.runs(version): limit for limit in reversed(known)}
    return next(answers[runs] for runs in (False, None, True) if runs in answers)


def _older(estate: Estate, hosts: tuple[Target, ...], version: int) -> str:
    """Return the names of the hosts that are too old for a hardware version."""
    return listed(limit.host for limit in hardware_limits(estate, hosts)[0] if limit.runs(version) is False)
