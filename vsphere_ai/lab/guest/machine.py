"""A guest as a machine: its GPUs, interfaces and RDMA devices, from the VM's devices and the host behind them."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.guest.defects import Defects
from vsphere_ai.lab.hardware.gpu import LabGpu
from vsphere_ai.lab.hardware.host import LabHost
from vsphere_ai.lab.hardware.parts import Pnic
from vsphere_ai.lab.managed.guests import guest_ready
from vsphere_ai.lab.managed.vms import pci_slots
from vsphere_ai.lab.store import ManagedObject

CARD = vim.vm.device.VirtualEthernetCard
PVRDMA, SRIOV = vim.vm.device.VirtualVmxnet3Vrdma, vim.vm.device.VirtualSriovEthernetCard
BOOTED_AT = time.time() - 86400.0


@dataclass(frozen=True)
class GuestGpu:
    """A GPU in a guest; `physical` is the one of the host. A vGPU shows less of it than a whole one."""

    index: int
    bus: str
    name: str
    uuid: str
    memory_mib: int
    physical: LabGpu
    is_vgpu: bool
    numa: int | None = None
    """The NUMA node of the guest that the VM gives the device; None: none, as before vSphere 8.0."""


@dataclass(frozen=True)
class LabGuestNic:
    """An interface of a guest; `rdma` is its RDMA device, `pnic` the physical NIC that carries it."""

    name: str
    mac: str
    addresses: tuple[tuple[str, int], ...]
    mtu: int
    rdma: str = ""
    pnic: Pnic | None = None
    driver: str = "vmxnet3"
    pci: str = ""
    """The PCI address of its RDMA device in the guest, else its own."""
    numa: int | None = None


@dataclass
class GuestMachine:
    """The guest of a VM that is on. `files` are what was written in it; they are lost when it is switched off."""

    farm: Farm
    mo: ManagedObject
    defects: Defects
    files: dict[str, str] = field(default_factory=dict)
    runs: dict[str, Any] = field(default_factory=dict)
    """Detached runs by their names (`supervised`)."""

    @property
    def pids(self) -> list[int]:
        """The processes of runs that are on its GPUs."""
        return [pid for run in list(self.runs.values()) for pid in run.pids(self)]

    @property
    def name(self) -> str:
        """The name of the VM, which is also the host name of its guest."""
        return str(self.mo["name"])

    @property
    def host(self) -> LabHost:
        """The host that runs it."""
        return self.farm.host(self.farm.host_of(self.mo))

    @property
    def driver(self) -> str:
        """The version of the NVIDIA driver in the guest; empty: none is loaded."""
        defect = self.defects.first("driver", vm=self.name)
        known = self.host.guest_of(self.name)
        return defect.text("version") if defect else known.driver if known else self.host.driver

    @property
    def clock(self) -> float:
        """The time that the guest has, in seconds since 1970."""
        return time.time() + sum(d.number("seconds", 5.0) for d in self.defects.of("clock", vm=self.name))

    @property
    def uptime(self) -> float:
        """Seconds since it has booted."""
        booted = self.mo["runtime"].bootTime
        return time.time() - (booted.timestamp() if booted else BOOTED_AT)

    def at(self, gpu: GuestGpu) -> dict[str, str]:
        """Return the place of a GPU, for defects."""
        return {"vm": self.name, "host": self.host.name, "gpu": gpu.physical.pci}

    def on(self, nic: LabGuestNic) -> dict[str, str]:
        """Return the place of an interface, for defects of what carries it."""
        return {"vm": self.name, "host": self.host.name, "nic": nic.pnic.name if nic.pnic else nic.name}

    @property
    def gpus(self) -> list[GuestGpu]:
        """The GPUs that the guest sees, by their address in it."""
        found = list(self._gpus())
        missing = sum(1 for _ in self.defects.of("gpu-missing", vm=self.name))
        return found[: max(0, len(found) - missing)]

    def _gpus(self) -> Iterator[GuestGpu]:
        host, number = self.host, 0
        with host.lock:
            for gpu in host.gpus:
                for vgpu in gpu.vgpus:
                    if vgpu.vm == self.name:
                        kind = vgpu.type_name.replace("grid_", "GRID ").replace("nvidia_", "NVIDIA ").upper()
                        own = uuid.uuid5(uuid.NAMESPACE_OID, f"{host.name}/{vgpu.id}")
                        bus = f"0000:02:{number:02x}.0"
                        yield GuestGpu(number, bus, kind, f"GPU-{own}", vgpu.framebuffer_gb * 1024, gpu, True)
                        number += 1
            for address in self._whole():
                known = next((g for g in host.gpus if g.pci == address), None)
                if known is not None:
                    bus = f"0000:{3 + number:02x}:00.0"
                    numa = self._numa(address)
                    yield GuestGpu(number, bus, known.name, known.uuid, known.memory_mib, known, False, numa)
                    number += 1

    def _whole(self) -> Iterator[str]:
        for device in self.mo["config"].hardware.device:
            if isinstance(device, vim.vm.device.VirtualPCIPassthrough):
                backing = device.backing
                yield str(getattr(backing, "assignedId", None) or getattr(backing, "id", None) or "").lower()

    def _numa(self, address: str) -> int | None:
        """Return the NUMA node of the guest for a whole device of the host (VirtualDevice.numaNode, vSphere 8.0)."""
        for device in self.mo["config"].hardware.device:
            backing = device.backing if isinstance(device, vim.vm.device.VirtualPCIPassthrough) else None
            own = str(getattr(backing, "assignedId", None) or getattr(backing, "id", None) or "").lower()
            if backing is not None and own == address:
                return numa_node(device)
        return None

    @property
    def whole_nics_near(self) -> list[tuple[str, int | None]]:
        """RDMA devices of whole NICs with the NUMA nodes of the guest that they have."""
        nics = {nic.pci for nic in self.host.pnics}
        nodes = [self._numa(address) for address in self._whole() if address in nics]
        return [(name, node) for (name, _), node in zip(self.whole_nics, nodes, strict=True)]

    @property
    def whole_nics(self) -> list[tuple[str, str]]:
        """RDMA devices of whole NICs that were given to the VM, with their addresses in the guest."""
        nics = {nic.pci for nic in self.host.pnics}
        taken = len([a for a in self._whole() if a not in nics])
        own = [a for a in self._whole() if a in nics]
        return [(f"mlx5_{8 + n}", f"0000:{3 + taken + n:02x}:00.0") for n in range(len(own))]

    @property
    def nics(self) -> list[LabGuestNic]:
        """The interfaces, in the order of the VM's devices."""
        said = self._said()
        reported = {nic.macAddress.lower(): nic for nic in self.mo["guest"].net or ()}
        cards = [c for c in self.mo["config"].hardware.device if isinstance(c, CARD)]
        slots = pci_slots.slots(self.mo)
        nics = enumerate((card, slots[card.key]) for card in cards)
        return [self._nic(n, slot, card, reported.get(card.macAddress.lower()), said) for n, (card, slot) in nics]

    def _said(self) -> dict[str, dict[str, Any]]:
        """Return what the guest has written about its NICs when it was ready."""
        options = {o.key: str(o.value) for o in self.mo["config"].extraConfig or ()}
        try:
            found = json.loads(options.get(guest_ready.KEY, "{}"))
        except ValueError:
            return {}
        return dict(found.get("nics", {}))

    def _nic(self, number: int, slot: int, card: Any, reported: Any, said: dict[str, dict[str, Any]]) -> LabGuestNic:
        mac = card.macAddress.lower()
        own = said.get(mac, {})
        in_name = (slot & 1023) + (slot >> 10)  # ens161 is slot 1184, the second function of a bridge
        name = str(own.get("name") or f"ens{in_name}")
        shown = reported.ipConfig.ipAddress if reported is not None and reported.ipConfig else ()
        addresses = [(a.ipAddress, a.prefixLength) for a in shown if not ip_address(a.ipAddress).is_link_local]
        if not addresses and not number and self.mo["guest"].ipAddress:
            addresses = [(self.mo["guest"].ipAddress, 24)]  # what vCenter shows of a guest that reports no adapters
        pnic = self._pnic(card)
        defect = next((d for d in self.defects.every if d.kind == "mtu" and self._is_of(d.given, name)), None)
        mtu = int(defect.number("mtu", 1500)) if defect else int(own.get("mtu") or 1500)
        rdma, driver = "", "vmxnet3"
        if isinstance(card, PVRDMA):
            rdma, driver = f"roces{in_name}f1", "vmxnet3"
        elif isinstance(card, SRIOV):
            rdma, driver = f"mlx5_{number}", "mlx5_core"
        # a bridge with eight functions stands for eight buses, the first of which is bus 3
        bus = 3 + 8 * ((slot >> 5 & 31) - 5) + (slot >> 10)
        pci = f"0000:{bus:02x}:00.{int(isinstance(card, PVRDMA))}"
        return LabGuestNic(name, mac, tuple(addresses), mtu, rdma, pnic, driver, pci, numa_node(card))

    def _is_of(self, given: Any, interface: str) -> bool:
        return bool(given.get("vm", self.name) == self.name and given.get("nic", interface) == interface)

    def _pnic(self, card: Any) -> Pnic | None:
        backing = getattr(card, "sriovBacking", None)
        function = backing.physicalFunctionBacking.id if backing and backing.physicalFunctionBacking else ""
        if function and not function.startswith("Automatic"):  # else any one behind the port group
            return next((p for p in self.host.pnics if p.pci == function.lower()), None)
        port = getattr(card.backing, "port", None)
        if port is None:
            return None
        network = self.farm.host_of(self.mo)["config"].network
        proxies = [p for p in network.proxySwitch or () if p.dvsUuid == port.switchUuid]
        keys = [key.rpartition("-")[2] for proxy in proxies for key in proxy.pnic or ()]
        return next((p for key in keys for p in self.host.pnics if p.name == key), None)


def numa_node(device: Any) -> int | None:
    """Return the NUMA node of the guest that a device has; None for none: not set, or negative."""
    node = getattr(device, "numaNode", None)
    return node if node is not None and node >= 0 else None
