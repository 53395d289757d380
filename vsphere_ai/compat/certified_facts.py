"""Facts that a certificate rests on: of hosts, their GPUs and NICs, and of the VMs of a set, as texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from vsphere_ai.compat.pillars.base import AssessedFarm
from vsphere_ai.compat.rules.driver import host_driver
from vsphere_ai.gpu.devices import found_gpus, is_vgpu
from vsphere_ai.gpu.smi import live
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.nodes import Node
from vsphere_ai.model.vm_sets import MOID

PATHS: Mapping[str, tuple[str, ...]] = {
    "HostSystem": ("config.product", "config.network.pnic", "config.powerSystemInfo", "hardware.pciDevice", "software"),
    "VirtualMachine": (
        "config.hardware.device",
        "config.hardware.memoryMB",
        "config.hardware.numCPU",
        "config.latencySensitivity",
        "config.version",
        "runtime.host",
    ),
}
"""Property paths that are read, by managed type."""


def certified_facts(farm: AssessedFarm, nodes: Iterable[Node]) -> dict[str, dict[str, str]]:
    """Return part -> fact -> value: of every VM of the set, of the hosts they run on, and of the GPUs there.

    Parts are ``vm:NAME``, ``host:NAME`` and ``gpu:HOST/PCI``. What cannot be read is no fact: it is another one, and
    voids what rests on it, once it can be read.
    """
    found: dict[str, dict[str, str]] = {}
    estate = farm.view.estate
    # the VMs of a set are known by their instance UUIDs; nodes have the references that vCenter gave
    known = {f"VirtualMachine:{estate[v.ref].get(MOID)}": v.ref for v in estate.vms}
    for node in nodes:
        ref = node.ref if estate.get(node.ref) else known[node.ref]
        found[f"vm:{node.vm}"] = _of_vm(estate[ref]) | _of_node(node)
        host = estate.host_of(ref)
        if host and f"host:{host.name}" not in found:
            own = estate[host.ref]
            found[f"host:{host.name}"] = _of_host(own)
            found |= _of_gpus(host.name, own)
    return found


def parts_of(node: Node) -> tuple[str, ...]:
    """Return the parts that a measurement on a node rests on: the VM, its host, and its GPUs where they are known."""
    gpus = (f"gpu:{node.host}/{g.host_pci}" for g in node.gpus if node.host and g.host_pci)
    return (f"vm:{node.vm}", *((f"host:{node.host}",) if node.host else ()), *dict.fromkeys(gpus))


def _of_vm(facts: Facts) -> dict[str, str]:
    devices = facts.get("config.hardware.device") or ()
    profiles = sorted(str((d.get("backing") or {}).get("vgpu")) for d in devices if is_vgpu(d))
    latency = (facts.get("config.latencySensitivity") or {}).get("level")
    values = {
        "hardware version": facts.get("config.version"),
        "vCPUs": facts.get("config.hardware.numCPU"),
        "memory MB": facts.get("config.hardware.memoryMB"),
        "latency sensitivity": latency,
        "vGPUs": ", ".join(profiles),
        "adapters": ", ".join(sorted(str(d.get("macAddress")) for d in devices if d.get("macAddress"))),
    }
    return {name: str(value) for name, value in values.items() if value not in (None, "")}


def _of_node(node: Node) -> dict[str, str]:
    found = {"host": node.host, "address": node.address}
    for rail in node.rails:
        found[f"{rail.interface} uplink"] = " ".join(filter(None, (rail.vmnic, rail.switch_port)))
        found[f"{rail.interface} MTU"] = str(rail.mtu or "")
    return {name: value for name, value in found.items() if value}


def _of_host(facts: Facts) -> dict[str, str]:
    product = facts.get("config.product") or {}
    drivers = sorted(d.version for vib in facts.get("software") or () if (d := host_driver(vib)))
    policy = (facts.get("config.powerSystemInfo") or {}).get("currentPolicy") or {}
    values = {
        "ESXi": " ".join(str(product[k]) for k in ("version", "build") if product.get(k)),
        "NVIDIA host driver": ", ".join(drivers),
        "power policy": str(policy.get("shortName") or ""),
    }
    for nic in facts.get("config.network.pnic") or ():
        speed = (nic.get("linkSpeed") or {}).get("speedMb")
        values[str(nic.get("device"))] = (
            f"{nic.get('driver') or ''} {f'{speed} Mbit/s' if speed else 'no link'}".strip()
        )
    return {name: value for name, value in values.items() if value}


def _of_gpus(host: str, facts: Facts) -> dict[str, dict[str, str]]:
    listed = {g.pci: g for g in live.readable(facts).gpus}
    found = {}
    for gpu in found_gpus(facts.get("hardware.pciDevice") or ()):
        status = listed.get(gpu.pci)
        values = {"model": gpu.board.title if gpu.board else gpu.name}
        if status:
            values |= {"UUID": status.uuid, "MIG": _mode(status.mig_current), "driver": status.driver}
        found[f"gpu:{host}/{gpu.pci}"] = {name: value for name, value in values.items() if value}
    return found


def _mode(enabled: bool | None) -> str:
    return {True: "enabled", False: "disabled", None: ""}[enabled]
