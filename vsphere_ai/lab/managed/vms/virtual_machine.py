"""VirtualMachine: making one from the scenario, its guest's state, its hardware upgrade."""

from __future__ import annotations

import itertools
import uuid
from datetime import UTC, datetime
from typing import Any, cast

from pyVmomi import vim

from vsphere_ai.lab.admission.supply import OVERHEAD
from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.hardware.host import LabGuest
from vsphere_ai.lab.managed import Call, changes, datastores
from vsphere_ai.lab.managed.guests import guest_image
from vsphere_ai.lab.managed.networks.dvs_bandwidth import default_allocation
from vsphere_ai.lab.managed.networks.dvs_ports import take
from vsphere_ai.lab.managed.networks.network import add_plain_network, port_group_at
from vsphere_ai.lab.managed.placement import hardware_of, newest_hardware
from vsphere_ai.lab.managed.refusals import invalid_argument, invalid_power_state
from vsphere_ai.lab.managed.vms import cpu_features, vgpu_migration, vm_drives, vm_resources
from vsphere_ai.lab.managed.vms.vm_states import refuse_change
from vsphere_ai.lab.scenario import Vm as VmSpec
from vsphere_ai.lab.sessions import now
from vsphere_ai.lab.store import ManagedObject, fill
from vsphere_ai.lab.tasks import TaskWork

DEV = vim.vm.device
GUESTS = {
    "ubuntu64Guest": ("Ubuntu Linux (64-bit)", "linuxGuest"),
    "ubuntuGuest": ("Ubuntu Linux (32-bit)", "linuxGuest"),
    "rhel8_64Guest": ("Red Hat Enterprise Linux 8 (64-bit)", "linuxGuest"),
    "windows9Server64Guest": ("Microsoft Windows Server 2016 (64-bit)", "windowsGuest"),
}
_stamps = itertools.count(1)


def stamp() -> str:
    """Return a changeVersion that is new."""
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}.{next(_stamps)}"


def add_vm(farm: Farm, folder: ManagedObject, host: ManagedObject, name: str, spec: VmSpec) -> ManagedObject:
    """Add a VM, powered off, to a folder and a host."""
    made = draft(farm, name, host)
    mo = enroll(farm, folder, made, tools=spec.tools)
    mo.extra["guest"], mo.extra[guest_image.IMAGE] = _guest(farm, host, spec), spec.image
    mo.extra[guest_image.FIRMWARE] = "" if spec.image.firmware == "any" else spec.firmware
    mo.extra[OVERHEAD] = spec.overhead_mb
    written = [min(size, spec.disk_used_gb) for size in (spec.disk_gb, *spec.more_disks_gb)]
    mo.extra[datastores.SIZES] = {_disk_path(farm, mo, spec, n): gb << 30 for n, gb in enumerate(written)}
    equip(farm, mo, config_of(farm, mo, spec, _devices(farm, mo, host, spec)))
    publish(farm, mo)
    return mo


def draft(farm: Farm, name: str, host: ManagedObject) -> ManagedObject:
    """Return a VM that is in no inventory yet: its reference, its name and its host."""
    mo = ManagedObject(vim.VirtualMachine(f"vm-{farm.store.next_id()}"))
    mo.props.update(name=name, runtime=vim.vm.RuntimeInfo(host=host.ref))
    return mo


def enroll(farm: Farm, folder: ManagedObject, made: ManagedObject, *, tools: str) -> ManagedObject:
    """Make a VM of a draft, off, in the root pool of its host's compute resource; nothing shows it yet."""
    host = farm.host_of(made)
    parent = farm.store.get(host["parent"])
    mo = farm.store.new(
        vim.VirtualMachine,
        made.moid,
        name=made["name"],
        parent=folder.ref,
        resourcePool=parent["resourcePool"],
        datastore=[],
        environmentBrowser=parent["environmentBrowser"],
        guestHeartbeatStatus="gray",
    )
    mo.extra.update(guest_stopped=lambda vm: guest_changed(farm, vm), tools=tools, connection="connected")
    runtime = vim.vm.RuntimeInfo(
        host=host.ref,
        connectionState="connected",
        powerState="poweredOff",
        faultToleranceState="notConfigured",
        recordReplayState="inactive",
        cleanPowerOff=True,
    )
    farm.store.set(mo, runtime=fill(runtime))
    return mo


def equip(farm: Farm, mo: ManagedObject, config: Any) -> None:
    """Give an enrolled VM its configuration."""
    runtime = mo["runtime"]
    summary = vim.vm.Summary(vm=mo.ref, runtime=runtime, overallStatus="green", quickStats=vim.vm.Summary.QuickStats())
    farm.store.set(mo, config=fill(config), summary=fill(summary), capability=fill(vim.vm.Capability()))
    guest_changed(farm, mo)
    cpu_features.show(farm, mo)
    refresh(farm, mo)


def publish(farm: Farm, mo: ManagedObject) -> None:
    """Show a VM in its folder, on its host, in its resource pool and at its datastores."""
    datastores.publish(farm, mo)
    for ref, prop in ((mo["parent"], "childEntity"), (mo["runtime"].host, "vm"), (mo["resourcePool"], "vm")):
        owner = farm.store.get(ref)
        owner[prop].append(mo.ref)
        farm.store.touch(owner, prop)


def _guest(farm: Farm, host: ManagedObject, spec: VmSpec) -> LabGuest:
    driver = spec.guest_driver or farm.host(host).driver
    return LabGuest("" if driver == "none" else driver, cast(Any, spec.licence))


def config_of(farm: Farm, mo: ManagedObject, spec: VmSpec, devices: list[Any]) -> Any:
    """Return the configuration of a new VM with these devices."""
    name = str(mo["name"])
    identity = uuid.uuid5(uuid.NAMESPACE_DNS, f"{farm.scenario.name}/{mo.moid}/{name}")
    reservation = spec.memory_gb * 1024 if spec.memory_reservation_locked else spec.memory_reservation_mb
    return vim.vm.ConfigInfo(
        changeVersion=stamp(),
        modified=now(),
        name=name,
        guestId=spec.guest,
        guestFullName=GUESTS.get(spec.guest, (spec.guest, ""))[0],
        version=f"vmx-{spec.hardware}",
        uuid=f"42{str(identity)[2:]}",
        instanceUuid=f"50{str(identity)[2:]}",
        template=spec.template,
        annotation="",
        firmware=spec.firmware,
        files=vim.vm.FileInfo(vmPathName=f"[{spec.datastore or farm.scenario.datastore}] {name}/{name}.vmx"),
        tools=vim.vm.ToolsConfigInfo(
            toolsVersion=0 if spec.tools == "none" else guest_image.tools_version(spec.image),
            toolsInstallType=_install_type(spec.tools),
        ),
        flags=vim.vm.FlagInfo(),
        defaultPowerOps=vim.vm.DefaultPowerOpInfo(),
        hardware=vim.vm.VirtualHardware(
            numCPU=spec.cpus,
            numCoresPerSocket=spec.cores_per_socket,
            simultaneousThreads=spec.simultaneous_threads,
            memoryMB=spec.memory_gb * 1024,
            device=devices,
        ),
        swapPlacement=spec.swap,
        cpuAffinity=vim.vm.AffinityInfo(affinitySet=list(spec.cpu_affinity)) if spec.cpu_affinity else None,
        memoryReservationLockedToMax=spec.memory_reservation_locked,
        memoryAllocation=_allocation(reservation, spec.memory_gb * 10240),
        cpuAllocation=_allocation(spec.cpu_reservation_mhz, spec.cpus * 1000),
        cpuHotAddEnabled=False,
        cpuHotRemoveEnabled=False,
        memoryHotAddEnabled=False,
        latencySensitivity=vim.LatencySensitivity(level=spec.latency),
        vAppConfig=guest_image.vapp_options(spec.image),
        extraConfig=[
            vim.option.OptionValue(key=k, value=v)
            for k, v in (guest_image.settings(spec.image) | spec.extra_config).items()
        ],
    )


def _allocation(reservation: int, shares: int) -> Any:
    return vim.ResourceAllocationInfo(
        reservation=reservation,
        expandableReservation=False,
        limit=-1,
        shares=vim.SharesInfo(shares=shares, level="normal"),
    )


def _install_type(tools: str) -> str:
    return {"none": "guestToolsTypeUnknown", "unmanaged": "guestToolsTypeOpenVMTools"}.get(tools, "guestToolsTypeMSI")


def _devices(farm: Farm, mo: ManagedObject, host: ManagedObject, spec: VmSpec) -> list[Any]:
    sizes = (spec.disk_gb, *spec.more_disks_gb)
    devices = [
        *bare_devices(),
        _device(
            DEV.ParaVirtualSCSIController,
            1000,
            "SCSI controller 0",
            busNumber=0,
            controllerKey=100,
            unitNumber=3,
            sharedBus="noSharing",
            device=[2000 + n for n in range(len(sizes))],
        ),
        *(_disk(farm, mo, spec, n, size) for n, size in enumerate(sizes)),
    ]
    devices += vm_drives.described(farm, spec)
    networks = [each for each in (spec.network, *spec.more_networks) if each]
    cards = [(each, DEV.VirtualVmxnet3) for each in networks]
    cards += [(each, DEV.VirtualVmxnet3Vrdma) for each in spec.pvrdma]
    devices += [_nic(farm, mo, group, n, typ) for n, (group, typ) in enumerate(cards)]
    for n, profile in enumerate(spec.vgpu):
        backing = DEV.VirtualPCIPassthrough.VmiopBackingInfo(vgpu=profile)
        vgpu_migration.complete(farm.host(host), backing)
        made = _device(
            DEV.VirtualPCIPassthrough,
            13000 + n,
            f"PCI device {n}",
            controllerKey=100,
            unitNumber=18 + n,
            backing=backing,
        )
        made.deviceInfo.summary = f"NVIDIA GRID vGPU {profile}"
        devices.append(made)
    return devices


def _disk(farm: Farm, mo: ManagedObject, spec: VmSpec, number: int, gb: int) -> Any:
    backing = DEV.VirtualDisk.FlatVer2BackingInfo(
        fileName=_disk_path(farm, mo, spec, number),
        datastore=farm.named[f"datastore:{spec.datastore or farm.scenario.datastore}"].ref,
        diskMode="persistent",
        thinProvisioned=True,
    )
    return _device(
        DEV.VirtualDisk,
        2000 + number,
        f"Hard disk {number + 1}",
        controllerKey=1000,
        unitNumber=number + (number > 6),  # unit 7 is the controller's own
        capacityInKB=gb << 20,
        capacityInBytes=gb << 30,
        backing=backing,
    )


def _disk_path(farm: Farm, mo: ManagedObject, spec: VmSpec, number: int) -> str:
    suffix = f"_{number}" if number else ""
    return f"[{spec.datastore or farm.scenario.datastore}] {mo['name']}/{mo['name']}{suffix}.vmdk"


def bare_devices() -> list[Any]:
    """Return the devices every VM has."""
    return [
        _device(DEV.VirtualIDEController, 200, "IDE 0", busNumber=0),
        _device(DEV.VirtualPS2Controller, 300, "PS2 controller 0", busNumber=0, device=[600]),
        _device(DEV.VirtualPCIController, 100, "PCI controller 0", busNumber=0),
        _device(DEV.VirtualKeyboard, 600, "Keyboard", controllerKey=300, unitNumber=0),
        _device(DEV.VirtualVideoCard, 500, "Video card ", controllerKey=100, unitNumber=0, videoRamSizeInKB=8192),
        _device(DEV.VirtualVMCIDevice, 12000, "VMCI device", controllerKey=100, unitNumber=17),
    ]


def _device(typ: Any, key: int, label: str, **fields: Any) -> Any:
    return typ(key=key, deviceInfo=vim.Description(label=label, summary=label), **fields)


def _nic(farm: Farm, mo: ManagedObject, network: str, index: int, typ: Any) -> Any:
    group = port_group_at(farm, network, farm.host_of(mo))
    if group is not None:
        dvs = group.extra["dvs"]
        port = vim.dvs.PortConnection(
            switchUuid=dvs["uuid"], portgroupKey=group.moid, portKey=take(farm, group), connectionCookie=1
        )
        backing: Any = DEV.VirtualEthernetCard.DistributedVirtualPortBackingInfo(port=port)
        summary = f"DVSwitch: {dvs['uuid']}"
    else:
        plain = add_plain_network(farm, farm.named["networkFolder"], network)
        backing = DEV.VirtualEthernetCard.NetworkBackingInfo(deviceName=network, network=plain.ref)
        summary = network
    nic = _device(
        typ, 4000 + index, f"Network adapter {index + 1}", controllerKey=100, unitNumber=7 + index, backing=backing
    )
    nic.deviceInfo.summary = summary
    nic.addressType, nic.macAddress, nic.wakeOnLanEnabled = "assigned", mac_address(mo, index), True
    nic.connectable = DEV.VirtualDevice.ConnectInfo(
        startConnected=True, allowGuestControl=True, connected=False, status="untried"
    )
    nic.resourceAllocation = default_allocation()
    return nic


def mac_address(mo: ManagedObject, index: int) -> str:
    """Return an address from vCenter's own range (00:50:56:80 to bf) for the adapter with this index."""
    number = int(mo.moid.rpartition("-")[2])
    return f"00:50:56:{0x80 + index % 0x40:02x}:{number >> 8 & 0xFF:02x}:{number & 0xFF:02x}"


def refresh(farm: Farm, mo: ManagedObject) -> None:
    """Bring what follows from a VM's configuration up to date: name, summary, networks."""
    config, devices = mo["config"], mo["config"].hardware.device
    nics = [d for d in devices if isinstance(d, DEV.VirtualEthernetCard)]
    keys = {d.backing.port.portgroupKey for d in nics if getattr(d.backing, "port", None)}
    plain = {d.backing.network._moId for d in nics if getattr(d.backing, "network", None)}
    before = list(mo["network"] or ())
    known = (n.ref for moid in keys | plain if (n := farm.store.objects.get(moid)) and isinstance(n.ref, vim.Network))
    networks = sorted(known, key=lambda ref: int(ref._moId.rpartition("-")[2]))  # as they were made
    for ref in {*before} ^ {*networks}:
        network = farm.store.get(ref)
        (network["vm"].append if ref in networks else network["vm"].remove)(mo.ref)
        farm.store.touch(network, "vm")
    mo["summary"].config = vim.vm.Summary.ConfigSummary(
        name=config.name,
        template=config.template,
        vmPathName=config.files.vmPathName,
        memorySizeMB=config.hardware.memoryMB,
        cpuReservation=config.cpuAllocation.reservation,
        memoryReservation=config.memoryAllocation.reservation,
        numCpu=config.hardware.numCPU,
        numEthernetCards=len(nics),
        numVirtualDisks=sum(isinstance(d, DEV.VirtualDisk) for d in devices),
        uuid=config.uuid,
        instanceUuid=config.instanceUuid,
        guestId=config.guestId,
        guestFullName=config.guestFullName,
        annotation=config.annotation,
        hwVersion=config.version,
    )
    resources = vim.ResourceConfigSpec(
        entity=mo.ref,
        changeVersion=config.changeVersion,
        cpuAllocation=config.cpuAllocation,
        memoryAllocation=config.memoryAllocation,
    )
    vm_resources.show(mo)
    farm.store.set(mo, name=config.name, network=networks, config=config, resourceConfig=resources)
    datastores.hold(farm, mo)
    farm.store.touch(mo, "summary")


def guest_changed(farm: Farm, mo: ManagedObject) -> None:
    """Show the guest as its power state and Tools make it; a VM that is off shows little."""
    config, tools = mo["config"], mo.extra["tools"]
    running = mo["runtime"].powerState == "poweredOn"
    boots = running and guest_image.boots(mo)
    status = {"none": "guestToolsNotInstalled", "unmanaged": "guestToolsUnmanaged"}.get(tools, "guestToolsCurrent")
    guest = vim.vm.GuestInfo(
        toolsStatus="toolsNotInstalled" if tools == "none" else "toolsOk" if boots else "toolsNotRunning",
        toolsVersionStatus=status,
        toolsVersionStatus2=status,
        toolsRunningStatus="guestToolsRunning" if boots and tools != "none" else "guestToolsNotRunning",
        toolsVersion=str(config.tools.toolsVersion),
        guestState="running" if boots else "notRunning",
        guestOperationsReady=boots and tools != "none",
    )
    if boots and tools != "none":
        number = int(mo.moid.rpartition("-")[2])
        guest.hostName, guest.ipAddress = config.name, f"10.20.{number >> 8 & 0xFF}.{number & 0xFF}"
        guest.guestId, guest.guestFullName = config.guestId, config.guestFullName
        guest.guestFamily = GUESTS.get(config.guestId, ("", "otherGuestFamily"))[1]
    mo["summary"].guest = vim.vm.Summary.GuestSummary(
        toolsStatus=guest.toolsStatus,
        toolsVersionStatus2=status,
        toolsRunningStatus=guest.toolsRunningStatus,
        hostName=guest.hostName,
        ipAddress=guest.ipAddress,
        guestId=guest.guestId,
    )
    for device in config.hardware.device:
        if device.connectable is not None:
            device.connectable.connected = running and device.connectable.startConnected
            device.connectable.status = "ok" if running else "untried"
    guest.customizationInfo = mo.extra.get("customization info")
    farm.store.set(mo, guest=fill(guest), guestHeartbeatStatus="green" if guest.hostName else "gray")
    farm.store.touch(mo, "config", "summary")


@changes(vim.VirtualMachine, "UpgradeVM_Task", "VirtualMachine.Config.UpgradeVirtualHardware")
def upgrade(call: Call, version: str | None = None) -> Any:
    """Raise the hardware version of a powered-off VM, by default to the newest its host runs."""
    farm, mo = call.farm, call.mo
    newest = newest_hardware(farm.host(farm.host_of(mo)).version)
    if version is not None and not (version.startswith("vmx-") and version[4:].isdigit()):
        raise invalid_argument("version", version)

    def work(_task: TaskWork) -> None:
        refuse_change(farm, mo)
        if mo["runtime"].powerState != "poweredOff":
            raise invalid_power_state(mo["runtime"].powerState, "poweredOff")
        wanted = int(version[4:]) if version else newest
        if wanted <= hardware_of(mo):
            raise vim.fault.AlreadyUpgraded(msg="The virtual hardware of the virtual machine is already up-to-date.")
        if wanted > newest:
            raise invalid_argument("version", f"the host supports up to vmx-{newest}")
        config = mo["config"]
        config.version, config.changeVersion, config.modified = f"vmx-{wanted}", stamp(), now()
        refresh(farm, mo)
        farm.record(mo, "UpgradeVM_Task", version=f"vmx-{wanted}")

    return farm.tasks.start(mo, "upgradeVirtualHardware", work)
