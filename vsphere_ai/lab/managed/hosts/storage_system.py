"""HostStorageSystem and HostDatastoreSystem: one local disk, one volume, and looking for others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed import Call, reads
from vsphere_ai.lab.managed.host_managers import host_manager, host_of_manager
from vsphere_ai.lab.managed.refusals import invalid_argument
from vsphere_ai.lab.store import ManagedObject, fill


@host_manager("storageSystem")
def start(farm: Farm, mo: ManagedObject) -> Mapping[str, Any]:
    """One local disk, and the volumes of the datastores that the host has mounted."""
    config = mo["config"]
    config.storageDevice, config.fileSystemVolume = fill(_storage()), fill(_volumes(farm, mo))
    return {
        "storageDeviceInfo": config.storageDevice,
        "fileSystemVolumeInfo": config.fileSystemVolume,
        "systemFile": [],
    }


@host_manager("datastoreSystem")
def start_datastores(_farm: Farm, mo: ManagedObject) -> Mapping[str, Any]:
    """The datastores that the host has mounted."""
    return {"datastore": list(mo["datastore"])}


def _storage() -> Any:
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


def _volumes(farm: Farm, host: ManagedObject) -> Any:
    mounts = []
    for summary in (farm.store.get(ref)["summary"] for ref in host["datastore"]):
        path = summary.url.removeprefix("ds://").rstrip("/")
        volume = vim.host.FileSystemVolume(type=summary.type, name=summary.name, capacity=summary.capacity)
        mount = vim.host.MountInfo(path=path, accessMode="readWrite", mounted=True, accessible=summary.accessible)
        mounts.append(vim.host.FileSystemMountInfo(mountInfo=mount, volume=volume))
    return vim.host.FileSystemVolumeInfo(
        volumeTypeList=["VMFS", "NFS", "NFS41", "vsan", "VVOL", "VFFS", "OTHER"],
        mountInfo=mounts,
    )


@reads(vim.host.StorageSystem, "RescanAllHba", "Host.Config.Storage")
def rescan_all(call: Call) -> None:
    """Look for devices again: there are no others."""
    host_of_manager(call)


@reads(vim.host.StorageSystem, "RescanHba", "Host.Config.Storage")
def rescan(call: Call, hbaDevice: str) -> None:
    """Look for devices at one adapter again."""
    host_of_manager(call)
    if hbaDevice not in [a.device for a in call.mo["storageDeviceInfo"].hostBusAdapter]:
        raise invalid_argument("hbaDevice", hbaDevice)


@reads(vim.host.StorageSystem, "RescanVmfs")
def rescan_vmfs(call: Call) -> None:
    """Look for volumes again."""
    rescan_all(call)


@reads(vim.host.StorageSystem, "RefreshStorageSystem")
def refresh_storage(call: Call) -> None:
    """Read the storage again."""
    rescan_all(call)
