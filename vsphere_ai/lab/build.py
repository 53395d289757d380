"""Builds a running farm from a scenario."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import timedelta
from itertools import cycle
from typing import Any, Literal, cast

from pyVmomi import VmomiSupport, vim, vmodl

from vsphere_ai.errors import Diagnostic, InputError, Mark
from vsphere_ai.lab import managed
from vsphere_ai.lab.admission import Occasion
from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.front.starting import StartProgress
from vsphere_ai.lab.hardware import parts
from vsphere_ai.lab.hardware.gpu import LabGpu
from vsphere_ai.lab.hardware.host import LabHost
from vsphere_ai.lab.hardware.mainboard import Mainboard
from vsphere_ai.lab.hardware.pci_names import slot_of
from vsphere_ai.lab.ledger import Ledger
from vsphere_ai.lab.managed import datastores
from vsphere_ai.lab.managed.clusters import cluster, cluster_rules, resource_pools
from vsphere_ai.lab.managed.drs import maintenance
from vsphere_ai.lab.managed.hosts import always_there, host_system
from vsphere_ai.lab.managed.networks import network
from vsphere_ai.lab.managed.vcenter import custom_fields, service_instance
from vsphere_ai.lab.managed.vm_tasks import power
from vsphere_ai.lab.managed.vms import virtual_machine, vm_states
from vsphere_ai.lab.scenario import DeviceGroup, Nic, Scenario, Vm, expand
from vsphere_ai.lab.scenario import Host as HostSpec
from vsphere_ai.lab.store import ManagedObject

NIC_MODELS: dict[str, dict[str, Any]] = {
    "I350": {"driver": "igbn", "device_id": 0x1521, "sriov_max": 7},
    "X710": {
        "driver": "i40en",
        "device_id": 0x1572,
        "firmware": "7.10 0x80006471 1.2007.0",
        "speed_mb": 10000,
        "sriov_max": 32,
        "description": "Intel(R) Ethernet Controller X710 for 10GbE SFP+",
    },
    "ConnectX-5": {
        "driver": "nmlx5_core",
        "vendor_id": 0x15B3,
        "device_id": 0x1017,
        "firmware": "16.28.1002",
        "speed_mb": 100000,
        "sriov_max": 16,
        "description": "Mellanox Technologies MT27800 Family [ConnectX-5]",
    },
    "ConnectX-6": {
        "driver": "nmlx5_core",
        "vendor_id": 0x15B3,
        "device_id": 0x101B,
        "firmware": "20.28.1002",
        "speed_mb": 100000,
        "sriov_max": 16,
        "description": "Mellanox Technologies MT28908 Family [ConnectX-6]",
    },
    "BCM57414": {
        "driver": "bnxtnet",
        "vendor_id": 0x14E4,
        "device_id": 0x16D7,
        "firmware": "216.0.251.0/pkg 216.0.333.11",
        "speed_mb": 25000,
        "sriov_max": 16,
        "description": "Broadcom BCM57414 NetXtreme-E 10Gb/25Gb RDMA Ethernet Controller",
    },
}
RDMA_MODELS: dict[str, dict[str, Any]] = {
    "ConnectX-5": {"description": "MT27800 Family [ConnectX-5]"},
    "BCM57414": {"driver": "bnxtroce", "description": "Broadcom BCM57414 NetXtreme-E RDMA", "speed_gb": 25},
}
"""The RDMA side of NIC models, where it is not that of a ConnectX-6."""
SYSTEM_MHZ = 500
"""What ESXi keeps of a host's processors: a few hundred MHz (from knowledge, unverified). Of the memory it keeps more
than a percentage: public recordings have from 1.5 to 6 %, and 1 to 3 GB on the smallest hosts."""


def build(scenario: Scenario, password: str, instance: str = "", progress: StartProgress | None = None) -> Farm:
    """Return the farm a scenario describes, ready to serve; raise InputError when it cannot be so.

    `instance` is the instance UUID of its vCenter; a new one without it. `progress` counts hosts and VMs.
    """
    progress = progress or StartProgress()
    if scenario.vcenter.api_version not in VmomiSupport.versionIdMap:
        newest = VmomiSupport.versionIdMap[VmomiSupport.GetServiceVersions("vim25")[0]]
        raise _impossible(
            scenario, f"no API version {scenario.vcenter.api!r} is known; the installed pyVmomi knows up to {newest}"
        )
    managed.load()
    farm = Farm(scenario, password, instance)
    farm.project = host_system.project
    with farm.store.lock:
        vm_folder = _inventory(farm)
        for spec in scenario.switches:
            folder = farm.named["networkFolder"]
            farm.named[f"switch:{spec.name}"] = network.add_switch(farm, folder, spec)
        progress.stage("building hosts and VMs", _objects(scenario))
        _hosts(farm, progress)
        _vms(farm, vm_folder, progress)
        progress.stage("completing the inventory")
        datastores.as_described(farm)
        for each in farm.scenario.clusters:
            cluster.describe(farm, farm.named[f"cluster:{each.name}"], each)
            cluster_rules.describe(farm, farm.named[f"cluster:{each.name}"], each.rules)
        always_there.complete(farm)
        networks = [ref for ref in farm.named["networkFolder"]["childEntity"] if isinstance(ref, vim.Network)]
        stores = [mo.ref for mo in datastores.all_of(farm)]
        farm.store.set(farm.store.of(vim.Datacenter)[0], datastore=stores, network=networks)
        for mo in farm.store.of(vim.HostSystem):
            farm.mark(mo)
        farm.settle()
        for mo in farm.store.of(vim.VirtualMachine):
            farm.note_power(mo, on=mo["runtime"].powerState == "poweredOn")
        _labels(farm)
    farm.ledger.clear()
    farm.history.clusters = {farm.host(mo).name: _cluster(farm, mo) for mo in farm.store.of(vim.HostSystem)}
    farm.history.restart()
    return farm


def _cluster(farm: Farm, mo: ManagedObject) -> str:
    parent = farm.store.get(mo["parent"])
    return str(parent["name"]) if isinstance(parent.ref, vim.ClusterComputeResource) else ""


def _impossible(scenario: Scenario, why: str) -> InputError:
    return InputError([Diagnostic(Mark(scenario.name), why)])


def _inventory(farm: Farm) -> ManagedObject:
    store = farm.store
    root = store.new(
        vim.Folder,
        "group-d1",
        name="Datacenters",
        childEntity=[],
        childType=[vim.Folder, vim.Datacenter],
    )
    farm.named["rootFolder"] = root
    service_instance.add_service(farm, root)
    center = store.new(
        vim.Datacenter, prefix="datacenter", name=farm.scenario.datacenter, parent=root.ref, overallStatus="green"
    )
    root["childEntity"].append(center.ref)
    folders = {
        "vmFolder": ("vm", vim.VirtualMachine),
        "hostFolder": ("host", vim.ComputeResource),
        "datastoreFolder": ("datastore", vim.Datastore),
        "networkFolder": ("network", vim.Network),
    }
    for prop, (label, typ) in folders.items():
        farm.named[prop] = cluster.add_folder(farm, center, label, [typ])
        store.set(center, **{prop: farm.named[prop].ref})
    pods = {
        spec.name: datastores.add_cluster(farm, farm.named["datastoreFolder"], spec)
        for spec in farm.scenario.datastore_clusters
    }
    for each in farm.scenario.all_datastores:
        datastores.add(farm, pods.get(each.cluster, farm.named["datastoreFolder"]), each)
    return farm.named["vmFolder"]


def _hosts(farm: Farm, progress: StartProgress) -> None:
    folder = farm.named["hostFolder"]
    clusters = {c.name: cluster.add_compute(farm, folder, c.name, c) for c in farm.scenario.clusters}
    farm.named.update({f"cluster:{name}": mo for name, mo in clusters.items()})
    computes = list(clusters.values())
    number = 0
    for spec in farm.scenario.hosts:
        for name in expand(spec.name):
            number += 1
            parent = clusters.get(spec.cluster)
            if parent is None:
                parent = cluster.add_compute(farm, folder, name, None)
                computes.append(parent)
            mo = host_system.add_host(farm, parent, spec, machine(farm.scenario, spec, name, number, farm.ledger))
            mo.extra["spec"] = spec
            if not any(nic.switch for nic in spec.nics):
                plain = network.add_plain_network(farm, farm.named["networkFolder"], "VM Network")
                plain["host"].append(mo.ref)
                mo["network"].append(plain.ref)
            maintenance.serve_shell(farm, mo)
            progress.step()
    for compute in computes:
        cluster.summarise(farm, compute)


def machine(scenario: Scenario, spec: HostSpec, name: str, number: int, ledger: Ledger) -> LabHost:
    """Return the physical host a scenario describes; `number` makes its MAC addresses its own."""
    services = parts.default_services()
    services["TSM-SSH"].running = spec.ssh.running
    services["TSM-SSH"].policy = cast(parts.Policy, spec.ssh.policy)
    vibs = parts.default_vibs(spec.version, spec.build)
    if spec.nvidia_driver:
        line = cast(Literal["AIE", "VMware"], spec.driver_line)
        esxi = {"7": "7.0.2", "8": "8.0.0", "6": "6.7.0"}.get(spec.version[0], spec.version)
        vibs.append(parts.driver_vib(spec.nvidia_driver, line=line, esxi=esxi))
    return LabHost(
        name=name,
        ledger=ledger,
        mainboard=_mainboard(scenario, spec),
        gpus=list(_gpus(spec, name)),
        pnics=[_pnic(nic, number, index) for index, nic in enumerate(spec.nics)],
        device_groups=[_device_group(group) for group in spec.device_groups],
        vibs=vibs,
        services=services,
        version=spec.version,
        build=spec.build,
        boot_seconds=spec.boot_seconds if spec.boot_seconds >= 0 else scenario.timing.boot_seconds,
        lockdown_mode=cast(Any, f"lockdown{spec.lockdown.capitalize()}"),
        lockdown_exceptions=set(spec.lockdown_exceptions),
        advanced_options={
            "Syslog.global.logHost": spec.log_host,
            "Net.PVRDMAVmknic": spec.pvrdma_vmknic,
            "Misc.LogToFile": 1,
            "UserVars.SuppressShellWarning": 0,
        },
        firewall={
            "pvrdma": spec.pvrdma_firewall,
            "sshServer": True,
            "sshClient": False,
            "ntpClient": False,
            "syslog": False,
        },
        hv_support=3 if spec.iommu else 2,
        graphics_default=cast(Any, spec.graphics_default),
        assignment_policy=cast(Any, spec.assignment_policy),
        clock_ahead=timedelta(seconds=spec.clock_ahead),
        boot_time_jitter=timedelta(seconds=spec.boot_time_jitter),
        never_returns=spec.never_returns,
        shows_instances=spec.vgpu_instances,
        migrates_vgpus=spec.vgpu_migration,
    )


def _mainboard(scenario: Scenario, spec: HostSpec) -> Mainboard:
    memory = spec.memory_gb << 10
    return Mainboard(
        cores=spec.cpu_cores,
        threads=spec.threads or spec.cpu_cores * (1 + spec.hyperthreading),
        mhz=spec.cpu_mhz,
        memory_mb=memory,
        system_memory_mb=min(memory // 64 + 1024, memory) if spec.system_memory_mb < 0 else spec.system_memory_mb,
        system_mhz=SYSTEM_MHZ if spec.system_cpu_mhz < 0 else spec.system_cpu_mhz,
        generation=spec.cpu,
        evc=next((c.evc for c in scenario.clusters if c.name == spec.cluster), ""),
        missing=spec.cpu_features_off,
    )


def _gpus(spec: HostSpec, host: str) -> Iterator[LabGpu]:
    for index, slot in enumerate(spec.gpus):
        gpu = LabGpu.of(
            index, slot_of(slot.pci), slot.board, device_id=int(slot.device_id, 16) if slot.device_id else None
        )
        gpu.uuid = f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{host}/{slot_of(slot.pci)}')}"
        gpu.numa_node, gpu.bridges, gpu.link = slot.numa, slot.bridges, slot.link
        gpu.configured = cast(Any, slot.graphics_type)
        gpu.vgpu_mode = cast(Any, slot.vgpu_mode)
        gpu.mig_current = gpu.mig_pending = slot.mig and gpu.mig_capable
        yield gpu


def _device_group(group: DeviceGroup) -> parts.LabDeviceGroup:
    vendor, _, device = group.device.partition(":")
    ids = (int(vendor, 16), int(device, 16)) if group.device else (0, 0)
    return parts.LabDeviceGroup(group.name, group.count, group.vgpu, ids)


def _pnic(nic: Nic, host: int, index: int) -> parts.Pnic:
    made = parts.Pnic(
        name=nic.name,
        pci=slot_of(nic.pci),
        mac=f"0c:42:a1:{host >> 8 & 0xFF:02x}:{host & 0xFF:02x}:{index:02x}",
        link_up=nic.link_up,
        vfs_configured=nic.vfs,
        numa_node=nic.numa,
        bridges=nic.bridges,
        **NIC_MODELS.get(nic.model, {}),
    )
    if nic.rdma:
        made.mtu = 9000
        model = RDMA_MODELS.get(nic.model, {})
        made.rdma = parts.LabRdmaDevice(nic.rdma, state=cast(Any, nic.rdma_state), **model)
    return made


def _vms(farm: Farm, root: ManagedObject, progress: StartProgress) -> None:
    folders = {"": root}
    for spec in farm.scenario.vms:
        hosts = cycle([farm.named[f"host:{h}"] for h in expand(spec.host)])
        folder = _folder(farm, folders, spec.folder.strip("/"))
        for name in expand(spec.name):
            mo = virtual_machine.add_vm(farm, folder, next(hosts), name, spec)
            mo.extra["spec"] = spec
            if spec.pool:
                resource_pools.into(farm, mo, spec.pool.strip("/"))
            if spec.power != "off":
                _power_on(farm, mo)
            if spec.power == "suspended":
                power.suspend_now(farm, mo, "scenario")
            vm_states.put_into_state(farm, mo, spec)
            progress.step()


def _objects(scenario: Scenario) -> int:
    parts: tuple[HostSpec | Vm, ...] = (*scenario.hosts, *scenario.vms)
    return sum(1 for part in parts for _ in expand(part.name))


def _labels(farm: Farm) -> None:
    """Attach tags, and set custom attributes."""
    for category in farm.scenario.tag_categories:
        farm.tagging.limit(category)
    for name in farm.scenario.tags:
        farm.tagging.add(name)
    for mo in (*farm.store.of(vim.HostSystem), *farm.store.of(vim.VirtualMachine)):
        spec = mo.extra.get("spec")
        for tag in spec.tags if spec else ():
            farm.tagging.attach(tag, mo)
        for name, value in spec.attributes.items() if spec else ():
            custom_fields.put(farm, mo, name, value)


def _power_on(farm: Farm, vm: ManagedObject) -> None:
    try:
        power.power_on_now(farm, vm, farm.host_of(vm), "scenario", Occasion.START)
    except vmodl.MethodFault as fault:
        why = fault.faultMessage[-1].message if fault.faultMessage else fault.msg
        raise _impossible(farm.scenario, f"VM {vm['name']!r} cannot be powered on: {why}") from fault


def _folder(farm: Farm, made: dict[str, ManagedObject], path: str) -> ManagedObject:
    if path not in made:
        parent, _, name = path.rpartition("/")
        made[path] = cluster.add_folder(farm, _folder(farm, made, parent), name, [vim.VirtualMachine])
    return made[path]
