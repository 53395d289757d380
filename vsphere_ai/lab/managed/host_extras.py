"""Managers of a host that scripts use beside GPUs and networks: storage, time, power, automatic start of VMs."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed import Call, handles
from vsphere_ai.lab.managed.host_managers import demand, host_of_manager
from vsphere_ai.lab.managed.refusals import invalid_argument
from vsphere_ai.lab.store import ManagedObject, changes, fill, lay_over

POLICIES = ((1, "static", "High performance"), (2, "dynamic", "Balanced"), (3, "low", "Low power"),
            (4, "custom", "Custom"))  # fmt: skip
ZONE = "UTC"
_ACTIONS = ("none", "powerOn", "powerOff", "suspend", "guestShutdown", "systemDefault")


def start(farm: Farm, mo: ManagedObject) -> None:
    """Fill in what the managers of a new host show."""
    storage, volumes = fill(_storage(farm, mo)), fill(_volumes(farm))
    time = fill(vim.host.DateTimeInfo(timeZone=_zone(), ntpConfig=vim.host.NtpConfig(server=[])))
    policies = [
        vim.host.PowerSystem.PowerPolicy(
            key=key, shortName=short, name=name, description=f"PowerPolicy.{short}.description"
        )
        for key, short, name in POLICIES
    ]
    power = vim.host.PowerSystem.Info(currentPolicy=policies[1])
    defaults = vim.host.AutoStartManager.SystemDefaults(
        enabled=False, startDelay=120, stopDelay=120, waitForHeartbeat=False, stopAction="PowerOff"
    )
    autostart = vim.host.AutoStartManager.Config(defaults=defaults, powerInfo=[])
    shown: dict[str, dict[str, Any]] = {
        "storageSystem": {"storageDeviceInfo": storage, "fileSystemVolumeInfo": volumes, "systemFile": []},
        "datastoreSystem": {"datastore": [farm.named["datastore"].ref]},
        "dateTimeSystem": {"dateTimeInfo": time},
        "powerSystem": {"capability": vim.host.PowerSystem.Capability(availablePolicy=policies), "info": power},
        "autoStartManager": {"config": autostart},
        "vmotionSystem": {"netConfig": vim.host.VMotionSystem.NetConfig()},
        "certificateManager": {"certificateInfo": _certificate(mo)},
    }
    for name, values in shown.items():
        farm.store.set(mo.extra[name], **values)
    config = mo["config"]
    config.storageDevice, config.fileSystemVolume, config.dateTimeInfo = storage, volumes, time
    config.powerSystemCapability, config.powerSystemInfo = shown["powerSystem"]["capability"], power
    config.autoStart = autostart
    farm.store.touch(mo, "config")


def _storage(farm: Farm, mo: ManagedObject) -> Any:
    hba = vim.host.BlockHba(
        key="key-vim.host.BlockHba-vmhba0",
        device="vmhba0",
        bus=0,
        status="unknown",
        model="AHCI Controller",
        driver="vmw_ahci",
        pci="0000:00:17.0",
    )
    name = "t10.ATA_____lab_boot_device"
    disk = vim.host.ScsiDisk(
        key=f"key-vim.host.ScsiDisk-{name}",
        uuid=name,
        canonicalName=name,
        displayName="Local ATA Disk",
        deviceName=f"/vmfs/devices/disks/{name}",
        devicePath=f"/vmfs/devices/disks/{name}",
        deviceType="disk",
        lunType="disk",
        vendor="ATA",
        model="BOOT SSD",
        operationalState=["ok"],
        capacity=vim.host.DiskDimensions.Lba(blockSize=512, block=234441648),
        ssd=True,
        localDisk=True,
    )
    return vim.host.StorageDeviceInfo(hostBusAdapter=[hba], scsiLun=[disk], softwareInternetScsiEnabled=False)


def _volumes(farm: Farm) -> Any:
    info = farm.named["datastore"]["info"]
    path = info.url.removeprefix("ds://").rstrip("/")
    volume = vim.host.FileSystemVolume(type="vsan", name=info.name, capacity=1 << 44)
    mount = vim.host.MountInfo(path=path, accessMode="readWrite", mounted=True, accessible=True)
    return vim.host.FileSystemVolumeInfo(
        volumeTypeList=["VMFS", "NFS", "NFS41", "vsan", "VVOL", "VFFS", "OTHER"],
        mountInfo=[vim.host.FileSystemMountInfo(mountInfo=mount, volume=volume)],
    )


def _certificate(mo: ManagedObject) -> Any:
    return vim.host.CertificateManager.CertificateInfo(
        issuer="CN=CA, DC=vsphere, DC=local",
        subject=f"CN={mo['name']}",
        notBefore=datetime(2021, 1, 1, tzinfo=UTC),
        notAfter=datetime(2031, 1, 1, tzinfo=UTC),
        status="good",
    )


def _zone() -> Any:
    return vim.host.DateTimeSystem.TimeZone(key=ZONE, name=ZONE, description=ZONE, gmtOffset=0)


@handles(vim.host.StorageSystem, "RescanAllHba")
def rescan_all(call: Call) -> None:
    """Look for devices again: there are no others."""
    demand(call, "Host.Config.Storage")
    host_of_manager(call)


@handles(vim.host.StorageSystem, "RescanHba")
def rescan(call: Call, hbaDevice: str) -> None:
    """Look for devices at one adapter again."""
    demand(call, "Host.Config.Storage")
    host_of_manager(call)
    if hbaDevice not in [a.device for a in call.mo["storageDeviceInfo"].hostBusAdapter]:
        raise invalid_argument("hbaDevice", hbaDevice)


@handles(vim.host.StorageSystem, "RescanVmfs")
def rescan_vmfs(call: Call) -> None:
    """Look for volumes again."""
    rescan_all(call)


@handles(vim.host.StorageSystem, "RefreshStorageSystem")
def refresh_storage(call: Call) -> None:
    """Read the storage again."""
    rescan_all(call)


@handles(vim.host.DateTimeSystem, "QueryDateTime")
def query_time(call: Call) -> Any:
    """Return the host's clock."""
    _mo, host = host_of_manager(call)
    return host.clock()


@handles(vim.host.DateTimeSystem, "QueryAvailableTimeZones")
def time_zones(call: Call) -> Any:
    """Return the time zones a host may have: one."""
    host_of_manager(call)
    return [_zone()]


@handles(vim.host.DateTimeSystem, "RefreshDateTimeSystem")
def refresh_time(call: Call) -> None:
    """Read the time settings again."""
    host_of_manager(call)


@handles(vim.host.DateTimeSystem, "UpdateDateTimeConfig")
def update_time(call: Call, config: Any) -> None:
    """Change the time servers."""
    demand(call, "Host.Config.DateTime")
    mo, _host = host_of_manager(call)
    if config.timeZone not in (None, ZONE):
        raise invalid_argument("config.timeZone", config.timeZone)
    info = call.mo["dateTimeInfo"]
    before = copy.deepcopy(info.ntpConfig)
    if config.ntpConfig is not None:
        info.ntpConfig = vim.host.NtpConfig(
            server=list(config.ntpConfig.server or ()), configFile=list(config.ntpConfig.configFile or ())
        )
    servers = list(info.ntpConfig.server or ())
    if servers != list(before.server or ()):
        _changed(call, mo, "dateTimeInfo")
        call.farm.record(mo, "UpdateDateTimeConfig", ntp=servers)


@handles(vim.host.PowerSystem, "ConfigurePowerPolicy")
def power_policy(call: Call, key: int) -> None:
    """Choose a power policy."""
    demand(call, "Host.Config.Power")
    mo, _host = host_of_manager(call)
    chosen = next((p for p in call.mo["capability"].availablePolicy if p.key == key), None)
    if chosen is None:
        raise invalid_argument("key", str(key))
    if call.mo["info"].currentPolicy.key != key:
        call.mo["info"].currentPolicy = chosen
        _changed(call, mo, "info")
        call.farm.record(mo, "ConfigurePowerPolicy", policy=str(chosen.shortName))


@handles(vim.host.AutoStartManager, "ReconfigureAutostart")
def autostart(call: Call, spec: Any) -> None:
    """Say which VMs start with the host; a VM of another host is refused, an order of -1 with no action takes out."""
    demand(call, "Host.Config.AutoStart")
    mo, _host = host_of_manager(call)
    config = call.mo["config"]
    infos = {i.key._moId: i for i in config.powerInfo or ()}
    told: dict[str, Any] = {}
    for info in spec.powerInfo or ():
        vm = call.farm.store.get(info.key)
        if vm["runtime"].host != mo.ref:
            raise invalid_argument("spec.powerInfo.key", f"{vm['name']} is not on this host")
        if info.startAction.lower() not in [a.lower() for a in _ACTIONS]:
            raise invalid_argument("spec.powerInfo.startAction", info.startAction)
        if info.startAction.lower() == "none":
            infos.pop(vm.moid, None)
        else:
            infos[vm.moid] = info
        told[str(vm["name"])] = info.startAction
    if spec.defaults is not None and changes(spec.defaults, config.defaults):
        lay_over(config.defaults, spec.defaults)
        told["enabled"] = bool(config.defaults.enabled)
    if told:
        config.powerInfo = sorted(infos.values(), key=lambda i: (i.startOrder < 0, i.startOrder))
        _changed(call, mo, "config")
        call.farm.record(mo, "ReconfigureAutostart", **told)


def _changed(call: Call, mo: ManagedObject, name: str) -> None:
    call.farm.store.touch(call.mo, name)
    call.farm.store.touch(mo, "config")
