"""What tests of the lab say to it, in a word each: vGPU and PVRDMA devices, a ready host, a reboot."""

from pyVmomi import vim

DEV = vim.vm.device


PCI = DEV.VirtualPCIPassthrough


def ready(soap, *names):
    """Make the GPUs of hosts Shared Direct, through the API and a forced reboot."""
    for name in names:
        host = soap.host(name)
        manager = host.configManager.graphicsManager
        config = manager.graphicsConfig
        config.hostDefaultGraphicsType = "sharedDirect"
        for device in config.deviceType:
            device.graphicsType = "sharedDirect"
        manager.UpdateGraphicsConfig(config)
        reboot(soap, host)


def reboot(soap, host, *, force=True):
    before = host.runtime.bootTime
    soap.wait(host.RebootHost_Task(force))
    soap.until(lambda: host.runtime.bootTime > before and host.runtime.connectionState == "connected")


def device_spec(device, operation="add"):
    return DEV.VirtualDeviceSpec(operation=operation, device=device)


def vgpu(profile, key=-1):
    return PCI(key=key, backing=PCI.VmiopBackingInfo(vgpu=profile))


def pvrdma(group, key=-2, **fields):
    port = vim.dvs.PortConnection(switchUuid=group.config.distributedVirtualSwitch.uuid, portgroupKey=group.key)
    backing = DEV.VirtualEthernetCard.DistributedVirtualPortBackingInfo(port=port)
    return DEV.VirtualVmxnet3Vrdma(key=key, backing=backing, **fields)


def reconfigure(soap, vm, **spec):
    return soap.wait(vm.ReconfigVM_Task(vim.vm.ConfigSpec(**spec)))


def devices_of(vm, typ):
    return [d for d in vm.config.hardware.device if isinstance(d, typ)]


def option(key, value):
    return vim.option.OptionValue(key=key, value=value)


def full_gpu_spec():
    return {
        "memoryReservationLockedToMax": True,
        "extraConfig": [option("pciPassthru.use64bitMMIO", "TRUE"), option("pciPassthru.64bitMMIOSizeGB", "128")],
        "deviceChange": [device_spec(vgpu("grid_a100-40c"))],
    }
