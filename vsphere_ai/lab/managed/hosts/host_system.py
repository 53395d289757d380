"""HostSystem: making one, showing the machine behind it, rebooting it."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.hardware.host import LabHost
from vsphere_ai.lab.hardware.mainboard import GENERATIONS, PACKAGES, level
from vsphere_ai.lab.managed import Call, changes, datastores, host_managers, host_resources, reads
from vsphere_ai.lab.managed.clusters import high_availability
from vsphere_ai.lab.managed.hosts import alarms, host_network, pci
from vsphere_ai.lab.managed.refusals import host_not_connected, invalid_state
from vsphere_ai.lab.managed.running_vms import powered_on
from vsphere_ai.lab.managed.vm_tasks import failover
from vsphere_ai.lab.managed.vm_tasks.power import host_failed_under
from vsphere_ai.lab.managed.vms import encryption
from vsphere_ai.lab.scenario import Host as HostSpec
from vsphere_ai.lab.store import ManagedObject, fill
from vsphere_ai.lab.tasks import TaskWork

CAPABLE = (
    "rebootSupported",
    "shutdownSupported",
    "vmotionSupported",
    "maintenanceModeSupported",
    "assignableHardwareSupported",
    "hostAccessManagerSupported",
    "nicTeamingSupported",
    "vlanTaggingSupported",
)


def add_host(farm: Farm, parent: ManagedObject, spec: HostSpec, machine: LabHost) -> ManagedObject:
    """Add a HostSystem with its managers for a machine and join the two."""
    mo = farm.store.new(
        vim.HostSystem,
        prefix="host",
        name=machine.name,
        parent=parent.ref,
        vm=[],
        network=[],
        datastore=[store.ref for store in datastores.on_host(farm, machine.name)],
    )
    farm.add_host(mo, machine)
    farm.named[f"host:{machine.name}"] = mo
    product = _product(machine)
    config = vim.host.ConfigInfo(host=mo.ref, product=product)
    hardware = _hardware(spec, machine)
    runtime = vim.host.RuntimeInfo(connectionState="connected", powerState="poweredOn", inMaintenanceMode=False)
    farm.store.set(
        mo,
        configManager=host_managers.add_managers(farm, mo),
        config=fill(config),
        hardware=fill(hardware),
        runtime=fill(runtime),
        capability=fill(
            vim.host.Capability(
                **dict.fromkeys(CAPABLE, True),
                **host_resources.ceilings(machine.release),
                deviceRebindWithoutRebootSupported=spec.rebind,
            )
        ),
        summary=_summary(mo, spec, machine, product, hardware, runtime),
    )
    mo.extra["iommu"], mo.extra["vmkernel"] = spec.iommu, spec.vmkernel
    config.vsanHostConfig = vim.vsan.host.ConfigInfo(enabled=spec.vsan, hostSystem=mo.ref)
    encryption.describe(farm, mo, spec.encryption)
    host_resources.show_partial_maintenance(mo, machine.release, spec.partial_maintenance)
    config.pciPassthruInfo = pci.passthrough(machine, spec.iommu)
    config.network = host_network.network_info(farm, mo, spec)
    host_resources.describe(farm, mo, spec)
    machine.running_vms = lambda: [vm["name"] for vm in powered_on(farm, mo)]
    machine.guest_of = lambda name: next((g for vm in powered_on(farm, mo) if vm["name"] == name
                                          if (g := vm.extra.get("guest"))), None)  # fmt: skip
    parent["host"].append(mo.ref)
    return mo


def project(farm: Farm, mo: ManagedObject) -> None:
    """Show the present state of the machine in the HostSystem and its managers."""
    machine, runtime = farm.host(mo), mo["runtime"]
    if machine.up and runtime.connectionState != "connected":
        _came_back(farm, mo)
    elif not machine.up and runtime.connectionState == "connected":
        _went_down(farm, mo)
    runtime.connectionState = "connected" if machine.up else "notResponding"
    runtime.inMaintenanceMode = machine.in_maintenance
    runtime.bootTime = machine.shown_boot_time()
    runtime.cryptoState = encryption.mode_of(farm, mo)
    high_availability.show_hosts(farm, farm.store.get(mo["parent"]))
    if mo["config"] is not None:
        _show_gpus(farm, mo)
    host_managers.show_machine(farm, mo)
    # MIG is not in it: vCenter knows nothing of a mode change pending in the driver
    mo["summary"].rebootRequired = any(g.waits for g in machine.gpus) or any(n.waits for n in machine.pnics)
    alarms.follow_connection(farm, mo, up=machine.up)
    mo["summary"].overallStatus = alarms.worst(farm, mo)
    farm.store.set(mo, overallStatus=mo["summary"].overallStatus)
    farm.store.touch(mo, "runtime", "config", "summary", "hardware", "capability")


def _show_gpus(farm: Farm, mo: ManagedObject) -> None:
    """Bring the PCI devices up to date when a boot has found other GPUs than the one before."""
    machine = farm.host(mo)
    found = {g.pci for g in machine.gpus}
    if mo.extra.setdefault("gpus", found) != found:
        mo.extra["gpus"] = found
        mo["hardware"].pciDevice = [fill(device) for device in pci.devices(machine)]


def _went_down(farm: Farm, mo: ManagedObject) -> None:
    """VCenter shows neither configuration nor hardware of a host that does not respond."""
    mo.extra["kept"] = {name: mo[name] for name in ("config", "hardware", "capability")}
    mo.props.update(dict.fromkeys(("config", "hardware", "capability")))
    mo.extra["lost"] = powered_on(farm, mo)
    for vm in mo.extra["lost"]:
        farm.note_power(vm, on=False)
    for ref in mo["vm"]:
        vm = farm.store.get(ref)
        vm["runtime"].connectionState = "disconnected"
        farm.store.touch(vm, "runtime", "summary")
    failover.host_failed(farm, mo, mo.extra["lost"])


def _came_back(farm: Farm, mo: ManagedObject) -> None:
    mo.props.update(mo.extra.pop("kept"))
    for vm in (each for each in mo.extra.pop("lost") if each["runtime"].host == mo.ref):
        host_failed_under(farm, vm)
    for ref in mo["vm"]:
        vm = farm.store.get(ref)
        vm["runtime"].connectionState = vm.extra["connection"]
        farm.store.touch(vm, "runtime", "summary", "guest")
    failover.host_returned(farm, mo)


def _product(machine: LabHost) -> Any:
    return vim.AboutInfo(
        name="VMware ESXi",
        fullName=f"VMware ESXi {machine.version} build-{machine.build}",
        vendor="VMware, Inc.",
        version=machine.version,
        patchLevel="0",
        build=machine.build,
        localeVersion="INTL",
        localeBuild="000",
        osType="vmnix-x86",
        productLineId="embeddedEsx",
        apiType="HostAgent",
        apiVersion=f"{machine.version}.0",
        licenseProductName="VMware ESX Server",
        licenseProductVersion=f"{machine.version[0]}.0",
    )


def _hardware(spec: HostSpec, machine: LabHost) -> Any:
    identity, board = str(uuid.uuid5(uuid.NAMESPACE_DNS, machine.name)), machine.mainboard
    packages = [
        vim.host.CpuPackage(
            index=i, vendor="intel", hz=board.mhz * 1_000_000, busHz=100_000_000, description="Intel Xeon"
        )
        for i in range(PACKAGES)
    ]
    return vim.host.HardwareInfo(
        systemInfo=vim.host.SystemInfo(vendor=spec.vendor, model=spec.model, uuid=identity),
        cpuInfo=vim.host.CpuInfo(
            numCpuPackages=PACKAGES, numCpuCores=board.cores, numCpuThreads=board.threads, hz=board.mhz * 1_000_000
        ),
        cpuPkg=packages,
        memorySize=board.memory_mb << 20,
        pciDevice=pci.devices(machine),
        numaInfo=pci.numa(machine, board.threads),
        biosInfo=vim.host.BIOSInfo(biosVersion="1.2", releaseDate=datetime(2021, 6, 1, tzinfo=UTC)),
    )


def _summary(mo: ManagedObject, spec: HostSpec, machine: LabHost, *parts: Any) -> Any:
    product, hardware, runtime = parts
    board = machine.mainboard
    shown = vim.host.Summary.HardwareSummary(
        vendor=spec.vendor,
        model=spec.model,
        uuid=hardware.systemInfo.uuid,
        memorySize=hardware.memorySize,
        cpuModel=GENERATIONS[board.generation][0],
        cpuMhz=board.mhz,
        numCpuPkgs=PACKAGES,
        numCpuCores=board.cores,
        numCpuThreads=board.threads,
        numNics=len(machine.pnics),
        numHBAs=1,
    )
    named = vim.host.Summary.ConfigSummary(
        name=machine.name, port=443, product=product, vmotionEnabled=True, faultToleranceEnabled=False
    )
    return fill(
        vim.host.Summary(
            host=mo.ref,
            config=named,
            hardware=shown,
            runtime=runtime,
            quickStats=vim.host.Summary.QuickStats(),
            rebootRequired=False,
            maxEVCModeKey=f"intel-{level({*board.own_features})}",
            currentEVCModeKey=f"intel-{board.evc}" if board.evc else None,
        )
    )


@changes(vim.HostSystem, "RebootHost_Task", "Host.Config.Maintenance")
def reboot(call: Call, force: bool) -> Any:
    """Reboot; the task ends when the request is accepted, not when the host is back."""
    farm, mo = call.farm, call.mo
    machine = farm.host(mo)

    def work(_task: TaskWork) -> None:
        if not machine.up:
            raise host_not_connected()
        if not machine.in_maintenance and not force:
            raise invalid_state("the host is not in maintenance mode")
        if machine.reboot():
            farm.record(mo, "RebootHost_Task", force=bool(force))

    return farm.tasks.start(mo, "reboot", work)


@reads(vim.HostSystem, "RetrieveHardwareUptime")
def hardware_uptime(call: Call) -> int:
    """Return the seconds since the machine started, whatever its clock says; a host that is away is not asked."""
    machine = call.farm.host(call.mo)
    if not machine.up:
        raise host_not_connected()
    return int(machine.uptime().total_seconds())
