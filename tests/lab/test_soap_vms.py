"""Virtual machines: settings, power, hardware version, and what can be asked before doing it."""

import pytest
from pyVmomi import vim, vmodl
from support.farm import PCI, device_spec, devices_of, option, ready, reconfigure, vgpu


def test_a_reconfigure_without_effect_is_no_change(soap):
    vm = soap.vm("train-04")
    now = vm.config.changeVersion
    reconfigure(soap, vm, firmware="efi", extraConfig=[option("nothing", "")])
    assert vm.config.changeVersion == now
    assert soap.calls() == []


def test_extra_config_is_added_changed_and_removed_by_an_empty_value(soap):
    vm = soap.vm("train-04")
    reconfigure(soap, vm, extraConfig=[option("a", "1"), option("b", "2"), option("memsize", "9")])
    reconfigure(soap, vm, extraConfig=[option("a", ""), option("b", "3")])
    assert {o.key: o.value for o in vm.config.extraConfig} == {"b": "3"}


def test_memory_changes_take_a_locked_reservation_along(soap):
    vm = soap.vm("train-04")
    reconfigure(soap, vm, memoryReservationLockedToMax=True)
    reconfigure(soap, vm, memoryMB=32768)
    assert vm.config.memoryAllocation.reservation == 32768
    with pytest.raises(vim.fault.InvalidPowerState):
        reconfigure(soap, soap.vm("train-01"), memoryMB=1024)


def test_check_vm_config_tells_without_doing(soap):
    vm = soap.vm("train-01")  # powered on: the check does not mind
    checker = soap.content.vmCompatibilityChecker
    good = vim.vm.ConfigSpec(deviceChange=[device_spec(vgpu("grid_a100-3-20c"))])
    bad = vim.vm.ConfigSpec(deviceChange=[device_spec(vgpu("grid_h100-80c"))])
    assert not soap.wait(checker.CheckVmConfig_Task(good, vm))[0].error
    assert isinstance(soap.wait(checker.CheckVmConfig_Task(bad, vm))[0].error[0], vim.fault.InvalidDeviceBacking)
    assert not devices_of(vm, PCI)
    assert soap.calls() == []


def test_hardware_upgrade(soap):
    vm = soap.vm("train-04")
    with pytest.raises(vmodl.fault.InvalidArgument):
        soap.wait(vm.UpgradeVM_Task("vmx-20"))
    with pytest.raises(vim.fault.InvalidPowerState):
        soap.wait(soap.vm("train-01").UpgradeVM_Task("vmx-19"))
    soap.wait(vm.UpgradeVM_Task("vmx-19"))
    assert vm.config.version == "vmx-19"
    with pytest.raises(vim.fault.AlreadyUpgraded):
        soap.wait(vm.UpgradeVM_Task())
    soap.wait(soap.vm("odd-01").UpgradeVM_Task())
    assert soap.vm("odd-01").config.version == "vmx-14"


def test_guest_shutdown_needs_tools_and_takes_a_moment(soap):
    vm = soap.vm("train-01")
    assert vm.guest.toolsRunningStatus == "guestToolsRunning"
    vm.ShutdownGuest()
    vm.ShutdownGuest()
    soap.until(lambda: vm.runtime.powerState == "poweredOff")
    assert vm.guest.toolsRunningStatus == "guestToolsNotRunning"
    with pytest.raises(vim.fault.InvalidPowerState):
        vm.ShutdownGuest()
    odd = soap.vm("odd-01")
    soap.wait(odd.PowerOnVM_Task())
    with pytest.raises(vim.fault.ToolsUnavailable):
        odd.ShutdownGuest()
    assert soap.calls() == [("train-01", "ShutdownGuest"), ("odd-01", "PowerOnVM_Task")]


def test_guest_and_hard_resets(soap):
    vm = soap.vm("train-01")
    vm.RebootGuest()
    soap.wait(vm.ResetVM_Task())
    assert vm.runtime.powerState == "poweredOn"
    with pytest.raises(vim.fault.InvalidPowerState):
        soap.vm("train-04").RebootGuest()
    with pytest.raises(vim.fault.InvalidPowerState):
        soap.wait(soap.vm("train-04").ResetVM_Task())
    with pytest.raises(vim.fault.InvalidPowerState):
        soap.wait(vm.PowerOnVM_Task())
    with pytest.raises(vim.fault.InvalidPowerState):
        soap.wait(soap.vm("train-04").PowerOffVM_Task())


def test_power_on_many_reports_per_vm(soap):
    center = soap.find(vim.Datacenter, "DC0")
    off, on = soap.vm("train-04"), soap.vm("train-01")
    result = soap.wait(center.PowerOnMultiVM_Task([off, on], [option("OverrideAutomationLevel", "fullyAutomated")]))
    assert [a.vm for a in result.attempted] == [off]
    soap.wait(result.attempted[0].task)
    assert off.runtime.host.name == "esx02.lab.local"
    assert [(n.vm, type(n.fault)) for n in result.notAttempted] == [(on, vim.fault.InvalidPowerState)]


def test_power_on_many_starts_a_vm_elsewhere_when_its_host_is_in_maintenance(soap):
    vm, host = soap.vm("train-04"), soap.host("esx02")
    soap.wait(host.EnterMaintenanceMode_Task(5))
    with pytest.raises(vim.fault.InvalidState):
        soap.wait(vm.PowerOnVM_Task())
    result = soap.wait(soap.find(vim.Datacenter, "DC0").PowerOnMultiVM_Task([vm]))
    soap.wait(result.attempted[0].task)
    assert vm.runtime.host != host


def test_two_tasks_on_one_vm_exclude_each_other(make_lab, new_client, quick_scenario):
    text = quick_scenario.read_text(encoding="utf-8").replace("task_seconds: 0.005", "task_seconds: 0.3")
    soap = new_client(make_lab(text))
    vm = soap.vm("train-04")
    task = vm.PowerOnVM_Task()
    with pytest.raises(vim.fault.TaskInProgress):
        vm.ReconfigVM_Task(vim.vm.ConfigSpec(annotation="x"))
    soap.wait(task)


def test_environment_browser_is_truthful_per_host(soap):
    ready(soap, "esx01")
    browser = soap.find(vim.ClusterComputeResource, "gpu-a").environmentBrowser
    offered = {t.vgpu for t in browser.QueryConfigTarget(soap.host("esx01")).sharedGpuPassthroughTypes}
    assert "grid_a100-40c" in offered
    assert browser.QueryConfigTarget(soap.host("esx03")).sharedGpuPassthroughTypes == []
    keys = {d.key: [h.name for h in d.host] for d in browser.QueryConfigOptionDescriptor()}
    assert len(keys["vmx-19"]) == 3
    assert "vmx-20" not in keys
    query = vim.EnvironmentBrowser.ConfigOptionQuerySpec(key="vmx-19", host=soap.host("esx01"))
    devices = browser.QueryConfigOptionEx(query).hardwareOptions.virtualDeviceOption
    choices = {
        b.vgpu.defaultValue: b.maxInstances for d in devices for b in d.backingOption or () if hasattr(b, "vgpu")
    }
    assert choices["grid_a100-3-20c"] == 4
    assert devices[0].numVmxnet3VrdmaEthernetCards.max == 10
    older = browser.QueryConfigOptionEx(
        vim.EnvironmentBrowser.ConfigOptionQuerySpec(key="vmx-17", guestId=["otherGuest64"])
    )
    assert older.hardwareOptions.virtualDeviceOption[0].numVmxnet3VrdmaEthernetCards.max == 1
    assert [g.id for g in older.guestOSDescriptor] == ["otherGuest64"]
    with pytest.raises(vmodl.fault.InvalidArgument):
        browser.QueryConfigOptionEx(vim.EnvironmentBrowser.ConfigOptionQuerySpec(key="vmx-20"))
    odd = soap.find(vim.ComputeResource, "esx-odd.lab.local").environmentBrowser
    assert max(int(d.key[4:]) for d in odd.QueryConfigOptionDescriptor()) == 14


def test_other_questions_about_compatibility(soap):
    vm, checker = soap.vm("train-04"), soap.content.vmCompatibilityChecker
    assert not soap.wait(checker.CheckCompatibility_Task(vm, soap.host("esx01")))[0].error
    odd = soap.wait(checker.CheckCompatibility_Task(vm, soap.host("esx-odd")))[0]
    assert isinstance(odd.error[0], vim.fault.VirtualHardwareVersionNotSupported)
    with pytest.raises(vmodl.fault.InvalidArgument):
        checker.CheckVmConfig_Task(vim.vm.ConfigSpec())
    browser = vm.environmentBrowser
    assert browser.QueryConfigOption("vmx-17", soap.host("esx01")).version == "vmx-17"
    assert browser.QueryTargetCapabilities(soap.host("esx01")).rebootSupported
    with pytest.raises(vmodl.fault.InvalidArgument):
        browser.QueryConfigTarget(soap.host("esx-odd"))
    granted = soap.content.authorizationManager.HasPrivilegeOnEntity(vm, soap.session.key, ["System.View"])
    assert granted == [True]
    with pytest.raises(vmodl.fault.InvalidArgument):
        soap.content.authorizationManager.HasPrivilegeOnEntity(vm, "nobody", ["System.View"])


def test_a_vm_with_hot_add_gets_cpus_and_memory_while_it_runs_and_no_fewer(soap):
    vm = soap.vm("train-01")
    if vm.runtime.powerState == "poweredOn":
        soap.wait(vm.PowerOffVM_Task())
    gpus = [d for d in vm.config.hardware.device if isinstance(d, soap.vim.vm.device.VirtualPCIPassthrough)]
    off = [soap.vim.vm.device.VirtualDeviceSpec(operation="remove", device=d) for d in gpus]
    reconfigure(soap, vm, cpuHotAddEnabled=True, memoryHotAddEnabled=True, deviceChange=off)
    soap.wait(vm.PowerOnVM_Task())
    hardware = vm.config.hardware
    more = {"numCPUs": hardware.numCPU + 4, "memoryMB": hardware.memoryMB + 4096}
    reconfigure(soap, vm, **more)
    assert (vm.config.hardware.numCPU, vm.config.hardware.memoryMB) == tuple(more.values())
    for less in ({"numCPUs": hardware.numCPU}, {"memoryMB": hardware.memoryMB}):
        with pytest.raises(soap.vim.fault.InvalidPowerState):
            reconfigure(soap, vm, **less)
