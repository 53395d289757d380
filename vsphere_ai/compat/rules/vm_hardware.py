"""Rules about a VM's virtual hardware version: what its devices need, and what its hosts can run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from vsphere_ai.compat.base import Case, Evidence, Finding, Meanings, Paths, Rule, Unreadable, why_absent
from vsphere_ai.compat.devices import wanted_adapters, wanted_vgpus
from vsphere_ai.compat.hosts import PRODUCT, host_version
from vsphere_ai.compat.releases import first_esxi_with, hardware_limit
from vsphere_ai.state import Target

PVRDMA, NAMESPACES, PROTOCOLS = 13, 17, range(14, 20)
VGPU, SEVERAL_VGPUS = 17, 15
UPGRADE = "add hardware: {version: 19} to the play"


class VmHardwareVersion(Rule):
    """The virtual hardware version has to carry the VM's devices.

    That is 13 for PVRDMA (17 for its namespaces, 14 to 19 for a chosen RoCE version), 15 for several vGPUs; 17 or
    later is advised for vGPUs. An upgrade in this plan counts.
    """

    id = "vm.hardware-version"
    title = "Virtual hardware version"
    target = "vm"
    source = "vSphere Networking 7.0, PVRDMA Support; Broadcom KB 315655 (virtual hardware versions)"
    verdicts: ClassVar[Meanings] = {
        "pass": "carries the devices, now or after the upgrade this plan makes",
        "warn": "below 17: PVRDMA namespaces or advised version for vGPUs missing",
        "fail": "too old for PVRDMA or for several vGPUs, or without the RoCE version this plan chooses",
        "unknown": "the version is not `vmx-` with a number",
    }
    properties: ClassVar[Paths] = {"VirtualMachine": ("config.version", "config.hardware.device")}
    needed_by = frozenset({"hardware", "vgpu", "pvrdma"})
    blocks_unknown = True

    def judge(self, case: Case) -> Iterator[Finding]:
        """Compare the version with what each device needs."""
        version, seen = hardware_version(case)
        if version is None:
            yield case.unknown(f"{seen[1]!r} is no hardware version", seen)
            return
        vgpus, adapters = wanted_vgpus(case), wanted_adapters(case)
        after = f"after this plan: hardware version {version}" if seen[0].startswith("plan.") else f"vmx-{version}"
        faults = list(_faults(case, version, vgpus, adapters))
        advice = list(_advice(version, vgpus, adapters))
        if faults:
            yield case.failed(f"{after}: {'; '.join(f[0] for f in faults)}", seen, help=faults[0][1])
        elif advice:
            yield case.warned(f"{after}: {'; '.join(advice)}", seen, help=UPGRADE)
        else:
            yield case.passed(f"{after}: carries all devices", seen)


class VmHardwareHosts(Rule):
    """Every host the VM may run on has to run its hardware version; the oldest host decides."""

    id = "vm.hardware-hosts"
    title = "Hardware version the hosts run"
    target = "vm"
    source = "Broadcom KB 315655, Virtual machine hardware versions"
    verdicts: ClassVar[Meanings] = {
        "pass": "every host runs it",
        "fail": "a host is too old for it",
        "unknown": "the version of a host is not known, or the VM has no host",
    }
    properties: ClassVar[Paths] = {"VirtualMachine": ("config.version",), "HostSystem": PRODUCT}

    def judge(self, case: Case) -> Iterator[Finding]:
        """Compare with the lowest limit among the hosts."""
        version, seen = hardware_version(case)
        if version is None:
            yield case.unknown(f"{seen[1]!r} is no hardware version", seen)
            return
        if case.view.estate.get(case.ref) is None:
            raise Unreadable("runtime.host", why_absent(None, "runtime.host"))
        hosts = case.view.candidates(case.ref) or case.view.estate.hosts_for(case.ref)
        limits = {h.name: _limit(case, h) for h in hosts}
        lowest = min((limit for limit in limits.values() if limit), default=None)
        hidden = [name for name, limit in limits.items() if not limit]
        if lowest is None:
            yield case.unknown(f"host versions not known: {', '.join(hidden) or 'the VM has no host'}", seen)
            return
        most, name, esxi = lowest
        where = (f"{name}: config.product.version", esxi)
        if version > most:
            yield case.failed(
                f"hardware version {version} is above {most}, the most {name} (ESXi {esxi}) runs", seen, where,
                help=f"stay at {most} or lower, or upgrade the hosts to ESXi {first_esxi_with(version)}",
            )  # fmt: skip
        elif hidden:
            yield case.unknown(f"host versions not known: {', '.join(hidden)}", seen, where)
        else:
            yield case.passed(f"hardware version {version} runs on all {len(limits)} hosts", seen, where)


def hardware_version(case: Case) -> tuple[int | None, Evidence]:
    """Return the VM's hardware version, planned or present, with where it was seen; None when it is no number."""
    planned = case.planned("hardware", "version")
    if planned is not None:
        return planned, ("plan.hardware.version", planned)
    text = str(case.need("config.version"))
    digits = text.removeprefix("vmx-")
    return (int(digits) if digits.isdigit() else None), ("config.version", text)


def _faults(
    case: Case, version: int, vgpus: int, adapters: tuple[tuple[str, str | None], ...]
) -> Iterator[tuple[str, str]]:
    if adapters and version < PVRDMA:
        yield f"PVRDMA needs {PVRDMA}", UPGRADE
    if vgpus > 1 and version < SEVERAL_VGPUS:
        yield f"{vgpus} vGPUs need {SEVERAL_VGPUS}", UPGRADE
    # what an existing adapter shows is the server's own choice; only a protocol this plan sends can be refused
    chosen = any(protocol for _, protocol in adapters) and case.view.is_planned(case.ref, "pvrdma")
    if chosen and version >= PVRDMA and version not in PROTOCOLS:
        yield f"the RoCE version can be chosen for {PROTOCOLS[0]} to {PROTOCOLS[-1]} only", "leave protocol out"


def _advice(version: int, vgpus: int, adapters: tuple[tuple[str, str | None], ...]) -> Iterator[str]:
    if adapters and version < NAMESPACES:
        yield f"PVRDMA namespaces need {NAMESPACES}"
    if vgpus and version < VGPU:
        yield f"{VGPU} or later is advised for vGPUs"


def _limit(case: Case, host: Target) -> tuple[int, str, str] | None:
    """Return a host's highest hardware version, its name and its ESXi version."""
    stated = host_version(case.view, host.ref)
    limit = hardware_limit(stated[0]) if stated else None
    return (limit, host.name, stated[1]) if stated and limit else None
