"""The rules understand what VMware's own types become as plain values: spelling, signed ids, subclasses."""

from pyVmomi import vim

from vsphere_ai.compat import gate
from vsphere_ai.connect.wire.plain import to_plain

GPU = "0000:3b:00.0"


def about(version="7.0.2", build="17867351"):
    return vim.AboutInfo(name="VMware ESXi", fullName="", vendor="VMware, Inc.", version=version, build=build,
                         osType="vmnix-x86", productLineId="embeddedEsx", apiType="HostAgent",
                         apiVersion="7.0.2.0")  # fmt: skip


def pci(address, vendor, device, kind, subsystem):
    signed = device - 0x10000 if device > 0x7FFF else device
    return vim.host.PciDevice(id=address, classId=kind, bus=0x3B, slot=0, function=0, vendorId=vendor,
                              subVendorId=vendor, vendorName="NVIDIA Corporation", deviceId=signed,
                              subDeviceId=subsystem, deviceName="GA100 [A100 PCIe 40GB]")  # fmt: skip


def service(key, running):
    return vim.host.Service(key=key, label=key, required=False, uninstallable=False, running=running, ruleset=[],
                            policy="off")  # fmt: skip


def rdma():
    state = vim.host.RdmaDevice.ConnectionInfo(state="active", mtu=4096, speedInMbps=100000)
    able = vim.host.RdmaDevice.Capability(roceV1Capable=True, roceV2Capable=True, iWarpCapable=False)
    return vim.host.RdmaDevice(key="key-vim.host.RdmaDevice-vmrdma0", device="vmrdma0", driver="nmlx5_rdma",
                               description="", connectionInfo=state, capability=able,
                               backing=vim.host.RdmaDevice.PnicBacking(pairedUplink="key-vmnic4"))  # fmt: skip


def host_properties():
    sriov = vim.host.SriovInfo(id=GPU, dependentDevice=GPU, passthruEnabled=False, passthruCapable=True,
                               passthruActive=False, sriovEnabled=True, sriovCapable=True, sriovActive=True,
                               numVirtualFunctionRequested=16, numVirtualFunction=16,
                               maxVirtualFunctionSupported=16)  # fmt: skip
    graphics = vim.host.GraphicsInfo(deviceName="A100", vendorName="NVIDIA Corporation", pciId=GPU,
                                     graphicsType="sharedDirect", memorySizeInKB=0, vm=[])  # fmt: skip
    config = vim.host.GraphicsConfig(hostDefaultGraphicsType="sharedDirect",
                                     sharedPassthruAssignmentPolicy="performance")  # fmt: skip
    driver = vim.host.SoftwarePackage(name="NVIDIA-AIE_ESXi_7.0.2_Driver", type="bootbank", vendor="NVIDIA",
                                      version="510.47.03-1OEM.702.0.0.17630552",
                                      acceptanceLevel="VMwareAccepted")  # fmt: skip
    return {
        "config.product": about(),
        "hardware.pciDevice": [pci(GPU, 0x10DE, 0x20F1, 0x0302, 0x145F), pci("0000:3b:00.4", 0x10DE, 0x20F1, 0x0302, 0),
                               pci("0000:5e:00.0", 0x15B3, 0xA2D6, 0x0200, 1)],
        "config.pciPassthruInfo": [sriov],
        "config.graphicsInfo": [graphics],
        "config.graphicsConfig": config,
        "config.service.service": [service("TSM-SSH", False)],
        "config.network.rdmaDevice": [rdma()],
        "software": [driver],
    }  # fmt: skip


def vm_properties():
    vgpu = vim.vm.device.VirtualPCIPassthrough(key=13000)
    vgpu.backing = vim.vm.device.VirtualPCIPassthrough.VmiopBackingInfo(vgpu="grid_a100-20c")
    port = vim.dvs.PortConnection(switchUuid="50 1c", portgroupKey="dvportgroup-1")
    nic = vim.vm.device.VirtualVmxnet3Vrdma(key=4000, deviceProtocol="rocev2")
    nic.backing = vim.vm.device.VirtualEthernetCard.DistributedVirtualPortBackingInfo(port=port)
    plain_nic = vim.vm.device.VirtualVmxnet3(key=4001)
    return {"config.hardware.device": [vgpu, nic, plain_nic, vim.vm.device.VirtualCdrom(key=3000)]}


def plain(properties):
    return {path: to_plain(value) for path, value in properties.items()}


def test_every_rule_passes_on_vmware_types(world):
    view = world.view({world.host.ref: plain(host_properties()), world.vm.ref: plain(vm_properties())})
    findings = gate.examine_all(view)
    assert [f for f in findings if f.verdict != "pass"] == []
    assert {f.rule for f in findings} == {r.id for r in gate.rules()}


def test_a_plain_vmxnet3_is_no_pvrdma(world):
    devices = vm_properties()["config.hardware.device"]
    without = {"config.hardware.device": [d for d in devices if not isinstance(d, vim.vm.device.VirtualVmxnet3Vrdma)]}
    view = world.view({world.vm.ref: plain(without)})
    assert "dvs.version" not in {f.rule for f in gate.examine_all(view) if f.target == world.vm}


def test_signed_device_ids_are_understood(world):
    """0xa2d6 comes as -23850; a GPU with such an id is named by its unsigned id."""
    high = pci(GPU, 0x10DE, 0xA2D6, 0x0302, 1)
    view = world.view({world.host.ref: plain({**host_properties(), "hardware.pciDevice": [high]})})
    (finding,) = [f for f in gate.examine_all(view) if f.rule == "gpu.model"]
    assert finding.verdict == "warn"
    assert "10de:a2d6" in finding.message
