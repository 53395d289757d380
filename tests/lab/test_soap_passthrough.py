"""Passthrough devices and tuned VMs in the lab: what vCenter refuses, and which device a power-on gets."""

from __future__ import annotations

import pytest
from pyVmomi import vim

pytestmark = pytest.mark.lab
DEV = vim.vm.device
PCI = DEV.VirtualPCIPassthrough
GPU_0, GPU_1 = "0000:3b:00.0", "0000:86:00.0"
WINDOW = {"pciPassthru.use64bitMMIO": "TRUE", "pciPassthru.64bitMMIOSizeGB": "512"}


@pytest.fixture
def esx(soap, lab):
    """A host that passes both of its GPUs through."""
    host = soap.host("esx02")
    config = [vim.host.PciPassthruConfig(id=g, passthruEnabled=True) for g in (GPU_0, GPU_1)]
    host.configManager.pciPassthruSystem.UpdatePassthruConfig(config)
    for name in ("train-03", "train-04"):
        vm = soap.vm(name)
        if vm.runtime.powerState == "poweredOn":
            soap.wait(vm.PowerOffVM_Task())
    boot = host.runtime.bootTime
    soap.wait(host.EnterMaintenanceMode_Task(30))
    soap.wait(host.RebootHost_Task(False))
    soap.until(lambda: host.runtime.connectionState == "connected" and host.runtime.bootTime > boot)
    soap.wait(host.ExitMaintenanceMode_Task(30))
    return host


def system_of(host):
    target = host.parent.environmentBrowser.QueryConfigTarget(host)
    return {p.pciDevice.id: p.systemId for p in target.pciPassthrough}


def fixed(host, address, **other):
    backing = {
        "id": address,
        "deviceId": "20f1",
        "vendorId": 0x10DE,
        "deviceName": "",
        "systemId": system_of(host)[GPU_0],
    }
    return PCI(key=-1, backing=PCI.DeviceBackingInfo(**{**backing, **other}))


def dynamic(label=None, device=0x20F1):
    allowed = [PCI.AllowedDevice(vendorId=0x10DE, deviceId=device)]
    return PCI(key=-1, backing=PCI.DynamicBackingInfo(allowedDevice=allowed, customLabel=label, deviceName=""))


def add(soap, name, *devices, locked=True, **more):
    changes = [DEV.VirtualDeviceSpec(operation="add", device=d) for d in devices]
    more = {"extraConfig": [vim.option.OptionValue(key=k, value=v) for k, v in WINDOW.items()], **more}
    spec = vim.vm.ConfigSpec(deviceChange=changes, memoryReservationLockedToMax=locked, **more)
    soap.wait(soap.vm(name).ReconfigVM_Task(spec))


def given(soap, name):
    devices = [d for d in soap.vm(name).config.hardware.device if isinstance(d, PCI)]
    return [getattr(d.backing, "assignedId", None) or getattr(d.backing, "id", None) for d in devices]


def power_on(soap, name):
    soap.wait(soap.vm(name).PowerOnVM_Task())


def test_the_tree_of_a_host(soap):
    hardware = soap.host("esx01").hardware
    found = {d.id: d for d in hardware.pciDevice}
    assert found[GPU_0].parentBridge == "0000:3a:00.0"
    assert found["0000:3a:00.0"].classId == 0x0604
    assert found["0000:3a:00.0"].parentBridge is None
    assert GPU_0 in hardware.numaInfo.numaNode[0].pciId
    assert hardware.numaInfo.numNodes == len(hardware.numaInfo.numaNode) == 2


def test_a_device_is_offered_once_it_is_active(soap, lab):
    host = soap.host("esx02")
    assert system_of(host) == {}
    config = [vim.host.PciPassthruConfig(id=GPU_0, passthruEnabled=True)]
    host.configManager.pciPassthruSystem.UpdatePassthruConfig(config)
    assert system_of(host) == {}
    info = next(i for i in host.config.pciPassthruInfo if i.id == GPU_0)
    assert (info.passthruEnabled, info.passthruActive) == (True, False)


def test_a_fixed_device_runs_in_one_vm_only(soap, esx):
    assert set(system_of(esx)) == {GPU_0, GPU_1}
    assert system_of(esx)[GPU_0] != esx.hardware.systemInfo.uuid
    for name in ("train-03", "train-04"):
        add(soap, name, fixed(esx, GPU_0))
    power_on(soap, "train-03")
    with pytest.raises(vim.fault.GenericVmConfigFault) as refused:
        power_on(soap, "train-04")
    assert "in use" in str(refused.value.faultMessage) + str(refused.value.reason)
    soap.wait(soap.vm("train-03").PowerOffVM_Task())
    power_on(soap, "train-04")


@pytest.mark.parametrize("size", ["64", ""])
def test_the_memory_of_a_gpu_has_to_fit_into_the_addresses_of_its_vm(soap, esx, size):
    """A GPU of 40 GB takes a window of 128 GB; one that is on without a size has 32."""
    add(soap, "train-03", fixed(esx, GPU_0), extraConfig=[])
    for key, value in {**WINDOW, "pciPassthru.64bitMMIOSizeGB": size}.items():
        with pytest.raises(vim.fault.GenericVmConfigFault) as refused:
            power_on(soap, "train-03")
        assert "64bitMMIOSizeGB" in str(refused.value.faultMessage)
        option = vim.option.OptionValue(key=key, value=value)
        soap.wait(soap.vm("train-03").ReconfigVM_Task(vim.vm.ConfigSpec(extraConfig=[option])))
    with pytest.raises(vim.fault.GenericVmConfigFault):
        power_on(soap, "train-03")
    option = vim.option.OptionValue(key="pciPassthru.64bitMMIOSizeGB", value="128")
    soap.wait(soap.vm("train-03").ReconfigVM_Task(vim.vm.ConfigSpec(extraConfig=[option])))
    power_on(soap, "train-03")


@pytest.mark.parametrize(
    "wrong", [{"id": "0000:99:00.0"}, {"systemId": "another"}, {"deviceId": "2331"}, {"deviceId": "x"}, {"vendorId": 1}]
)
def test_a_backing_that_is_no_device_of_the_host(soap, esx, wrong):
    with pytest.raises(vim.fault.InvalidDeviceBacking):
        add(soap, "train-04", fixed(esx, wrong.pop("id", GPU_0), **wrong))
    assert given(soap, "train-04") == []


def test_a_device_is_not_taken_from_a_running_vm(soap, esx):
    add(soap, "train-04", dynamic())
    power_on(soap, "train-04")
    passthru = esx.configManager.pciPassthruSystem
    with pytest.raises(vim.fault.HostConfigFault):
        passthru.UpdatePassthruConfig([vim.host.PciPassthruConfig(id=GPU_0, passthruEnabled=False)])
    passthru.UpdatePassthruConfig([vim.host.PciPassthruConfig(id=GPU_1, passthruEnabled=False)])


def test_one_device_is_in_a_vm_once(soap, esx):
    with pytest.raises(vim.fault.InvalidDeviceSpec):
        add(soap, "train-04", fixed(esx, GPU_0), fixed(esx, GPU_0))


def test_dynamic_devices_are_given_at_power_on_and_taken_back(soap, esx):
    add(soap, "train-03", dynamic())
    add(soap, "train-04", fixed(esx, GPU_0), dynamic())
    assert given(soap, "train-03") == [None]
    power_on(soap, "train-04")
    assert given(soap, "train-04") == [GPU_0, GPU_1]
    with pytest.raises(vim.fault.GenericVmConfigFault):
        soap.wait(soap.vm("train-03").PowerOnVM_Task(esx))
    soap.wait(soap.vm("train-04").PowerOffVM_Task())
    assert given(soap, "train-04") == [GPU_0, None]
    power_on(soap, "train-03")
    assert given(soap, "train-03") == [GPU_0]


def test_dynamic_devices_by_label_model_and_version(soap, esx):
    add(soap, "train-03", dynamic(label="big"))
    with pytest.raises(vim.fault.GenericVmConfigFault):
        soap.wait(soap.vm("train-03").PowerOnVM_Task(esx))
    with pytest.raises(vim.fault.InvalidDeviceBacking):
        add(soap, "train-04", PCI(key=-1, backing=PCI.DynamicBackingInfo(allowedDevice=[], deviceName="")))
    with pytest.raises(vim.fault.InvalidDeviceSpec):
        add(soap, "odd-01", dynamic())


@pytest.mark.parametrize(
    ("esxi", "hardware", "most"), [("8.0.3", 19, 16), ("8.0.0", 20, 32), ("8.0.1", 20, 64), ("8.0.2", 21, 128)]
)
def test_a_vm_takes_as_many_devices_as_its_hardware(make_lab, new_client, esxi, hardware, most):
    lab = make_lab(
        "name: counted\nclusters: [{name: gpu-a}]\n"
        f"vcenter: {{version: {esxi}}}\n"
        f"hosts: [{{name: esx01.lab.local, cluster: gpu-a, version: {esxi}}}]\n"
        f"vms: [{{name: train-01, host: esx01.lab.local, hardware: {hardware}}}]\n"
    )
    soap = new_client(lab)
    add(soap, "train-01", *(dynamic() for _ in range(most)))
    with pytest.raises(vim.fault.TooManyDevices):
        add(soap, "train-01", dynamic())
    option = soap.host("esx01").parent.environmentBrowser.QueryConfigOption(f"vmx-{hardware}", None)
    (controller,) = [o for o in option.hardwareOptions.virtualDeviceOption if hasattr(o, "numPCIPassthroughDevices")]
    assert controller.numPCIPassthroughDevices.max == most


def test_all_memory_has_to_be_reserved(soap, esx):
    add(soap, "train-04", dynamic(), locked=False)
    with pytest.raises(vim.fault.GenericVmConfigFault):
        power_on(soap, "train-04")


def test_high_latency_sensitivity_takes_its_reservations(soap, lab):
    high = vim.LatencySensitivity(level="high")
    soap.wait(soap.vm("train-04").ReconfigVM_Task(vim.vm.ConfigSpec(latencySensitivity=high)))
    with pytest.raises(vim.fault.GenericVmConfigFault):
        power_on(soap, "train-04")
    full = vim.ResourceAllocationInfo(reservation=16 * 2600)
    soap.wait(soap.vm("train-04").ReconfigVM_Task(vim.vm.ConfigSpec(cpuAllocation=full)))
    with pytest.raises(vim.fault.GenericVmConfigFault):
        power_on(soap, "train-04")
    soap.wait(soap.vm("train-04").ReconfigVM_Task(vim.vm.ConfigSpec(memoryReservationLockedToMax=True)))
    power_on(soap, "train-04")


def test_sockets_and_cpus(soap, lab):
    vm = soap.vm("train-04")
    with pytest.raises(Exception, match="numCoresPerSocket"):
        soap.wait(vm.ReconfigVM_Task(vim.vm.ConfigSpec(numCPUs=10, numCoresPerSocket=4)))
    soap.wait(vm.ReconfigVM_Task(vim.vm.ConfigSpec(numCPUs=256, numCoresPerSocket=16)))
    with pytest.raises(vim.fault.NotEnoughLogicalCpus):
        power_on(soap, "train-04")
