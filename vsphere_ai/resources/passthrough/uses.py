"""Uses of a PCI device: by its host, by vGPUs, and by VMs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from vsphere_ai.fabric import pci
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.finding import Problem
from vsphere_ai.model.names.pci_address import read_pci
from vsphere_ai.model.state import Target
from vsphere_ai.model.view import View
from vsphere_ai.resources._helpers import factories
from vsphere_ai.resources.device_groups import DeviceGroups
from vsphere_ai.resources.mig import Mig
from vsphere_ai.resources.mixins import vgpus_of
from vsphere_ai.resources.pci_devices import PciDevices
from vsphere_ai.resources.vgpu import Vgpu

problem = partial(factories.problem, "passthrough")
HBAS, REBIND = "config.storageDevice.hostBusAdapter", "capability.deviceRebindWithoutRebootSupported"
GRAPHICS, NICS = "config.graphicsInfo", "config.network.pnic"
SWITCHES = {"config.network.proxySwitch": "dvsName", "config.network.vswitch": "name"}
"""Property path of switches -> the field with their name."""


def use_problems(target: Target, view: View, address: str, state: pci.PassthroughState) -> Iterator[Problem]:
    """The host itself needs it, a vGPU or a GPU instance lives on it, or it is cut into virtual functions."""
    facts = view.facts(target.ref)
    for use in _of_host(facts, address):
        yield problem(target, "in-use", f"{address} is {use}", "take it out of use first, or leave it out")
    if state.functions:
        message = f"{address} has {state.functions} SR-IOV virtual functions"
        yield problem(target, "sriov", message, f"write sriov: {{{address}: 0}} in a play that is applied before")
    for shown in facts.get(GRAPHICS) or ():
        users = [r for r in shown.get("vm", ()) if shown["pciId"] == address and shown["graphicsType"] != "direct"]
        keeping = [r for r in users if _keeps_vgpus(r, view)]
        if keeping:
            names = ", ".join(f.name if (f := view.estate.get(r)) else r for r in keeping)
            where = "vgpu: [], or device_groups: [] where they are of a group"
            remedy = f"write {where}, for them in a play that is applied before"
            yield problem(target, "vgpu", f"GPU {address} carries vGPUs of {names}", remedy)
    gpu = ((view.get(Mig, target.ref) or Mig()).gpus or {}).get(address)
    if gpu is not None and (gpu.mode != "disabled" or gpu.layout):
        remedy = f"apply mig: {{gpus: {{{address}: {{mode: disabled}}}}}} to the host before"
        yield problem(target, "mig", f"GPU {address} has MIG mode {gpu.mode}", remedy)


def _of_host(facts: Facts, address: str) -> Iterator[str]:
    for nic in facts.get(NICS) or ():
        if read_pci(str(nic.get("pci"))) == address:
            switches = (name for name, nics in _switches(facts) if nic["key"] in nics)
            yield from (f"{nic['device']}, an uplink of {name}" for name in switches)
    for hba in facts.get(HBAS) or ():
        if read_pci(str(hba.get("pci", ""))) == address:
            yield f"{hba.get('device', 'a storage adapter')}, a storage adapter of the host"


def _switches(facts: Facts) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the switches of a host, distributed and standard, with the keys of their NICs."""
    for path, name in SWITCHES.items():
        yield from ((str(s.get(name)), s.get("pnic", ())) for s in facts.get(path) or ())


def _keeps_vgpus(ref: str, view: View) -> bool:
    """A VM that takes its own vGPUs away may still have some of a device group."""
    facts = view.estate.get(ref)
    said = view.said(Vgpu, ref)
    return said is None or said.profiles != () or bool(facts and vgpus_of(Target("vm", facts.name, ref), view))


def taken_problems(target: Target, view: View, address: str) -> Iterator[Problem]:
    """A VM that has the device cannot power on again without it."""
    for vm in view.estate.vms_on(target.ref):
        having = [
            d
            for d in view.facts(vm.ref).get("config.hardware.device", ())
            if address in {read_pci(str((d.get("backing") or {}).get(name))) for name in ("id", "assignedId")}
        ]
        stated = view.said(PciDevices, vm.ref)
        keeps = stated is None or any(d.host_device == address for d in stated.devices or ())
        if keeps and any(not d.get("deviceGroupInfo") for d in having):
            remedy = "write pci_devices without it for that VM in a play that is applied before"
            yield problem(target, "vm", f"{address} belongs to VM {vm.name}", remedy)
        groups = view.said(DeviceGroups, vm.ref)
        grouped = groups is None or groups.groups != ()
        if grouped and any(d.get("deviceGroupInfo") for d in having):
            remedy = "write device_groups: [] for that VM in a play that is applied before"
            yield problem(target, "vm", f"{address} belongs to a device group of VM {vm.name}", remedy)
