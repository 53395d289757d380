"""Every method the lab carries out, driven by pyVmomi, with its refusals."""

import pytest
from pyVmomi import VmomiSupport, vim, vmodl

DEV = vim.vm.device
PCI = DEV.VirtualPCIPassthrough


def ready(soap, *names, profile_mode=None):
    """Make hosts Shared Direct (and MIG on or off), through the API and a forced reboot."""
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


# --- sessions


def test_login_logout_and_wrong_password(lab, new_client):
    client = new_client(lab, login=False)
    manager = client.content.sessionManager
    assert manager.currentSession is None
    with pytest.raises(vim.fault.InvalidLogin):
        manager.Login("administrator@vsphere.local", "wrong")
    with pytest.raises(vim.fault.NotAuthenticated):
        _ = client.content.rootFolder.name
    with pytest.raises(vim.fault.NotAuthenticated):
        client.content.viewManager.CreateContainerView(client.content.rootFolder, [], True)
    other = new_client(lab)
    assert other.content.sessionManager.currentSession.key == other.session.key
    assert other.content.sessionManager.SessionIsActive(other.session.key, other.session.userName)
    other.content.sessionManager.Logout()
    with pytest.raises(vim.fault.NotAuthenticated):
        _ = other.content.rootFolder.name
    assert lab.get("/lab/farm")["refused_logins"] == 1


def test_an_expired_session_is_not_authenticated_and_its_views_are_gone(soap, lab):
    view = soap.content.viewManager.CreateContainerView(soap.content.rootFolder, [vim.HostSystem], True)
    lab.post("/lab/sessions/expire")
    with pytest.raises(vim.fault.NotAuthenticated):
        _ = view.view
    password = (lab.directory / "password").read_text(encoding="utf-8").strip()
    soap.content.sessionManager.Login("administrator@vsphere.local", password)
    with pytest.raises(vmodl.fault.ManagedObjectNotFound):
        _ = view.view


def test_a_method_nobody_wrote_is_method_not_found(soap):
    with pytest.raises(vmodl.fault.MethodNotFound):
        soap.vm("train-04").CreateSnapshot_Task("s", None, False, False)
    with pytest.raises(vmodl.fault.MethodNotFound):
        soap.content.rootFolder.CreateDatacenter("x")


# --- inventory


def test_the_default_farm_is_what_its_scenario_says(soap):
    hosts = {h.name: h for h in map(soap.host, ("esx01", "esx02", "esx03", "esx-odd"))}
    cluster = soap.find(vim.ClusterComputeResource, "gpu-a")
    assert {h.name for h in cluster.host} == {n for n in hosts if n != "esx-odd.lab.local"}
    assert cluster.configurationEx.drsConfig.defaultVmBehavior == "fullyAutomated"
    assert not cluster.configurationEx.dasConfig.enabled
    product = hosts["esx01.lab.local"].config.product
    assert (product.version, product.build, product.apiType) == ("7.0.2", "17867351", "HostAgent")
    vm = soap.content.searchIndex.FindByInventoryPath("DC0/vm/ai/training/train-01")
    assert vm.name == "train-01"
    assert (vm.config.version, vm.config.firmware, vm.config.hardware.memoryMB) == ("vmx-17", "efi", 65536)
    assert soap.content.searchIndex.FindByDnsName(None, "esx02.lab.local", False) == hosts["esx02.lab.local"]
    assert soap.content.searchIndex.FindByUuid(None, vm.config.instanceUuid, True, True) == vm
    odd = soap.vm("odd-01")
    assert (odd.config.version, odd.guest.toolsVersionStatus2) == ("vmx-11", "guestToolsNotInstalled")


def test_rdma_devices_link_to_the_proxy_switch_by_keys(soap):
    network = soap.host("esx01").config.network
    device = network.rdmaDevice[0]
    nic = next(p for p in network.pnic if p.key == device.backing.pairedUplink)
    assert (nic.device, nic.rdmaDevice, device.connectionInfo.state) == ("vmnic4", device.key, "active")
    group = soap.find(vim.dvs.DistributedVirtualPortgroup, "dvpg-rdma")
    switch = group.config.distributedVirtualSwitch
    proxy = next(p for p in network.proxySwitch if p.dvsUuid == switch.uuid)
    assert proxy.pnic == [nic.key]
    spec = proxy.spec.backing.pnicSpec[0]
    uplinks = {kv.key: kv.value for kv in proxy.uplinkPort}
    order = group.config.defaultPortConfig.uplinkTeamingPolicy.uplinkPortOrder
    assert uplinks[spec.uplinkPortKey] in order.activeUplinkPort
    assert [p.config.uplink for p in switch.portgroup] == [True, False]
    assert switch.config.maxMtu == proxy.mtu == 9000
    assert {p.portgroupKey for p in switch.FetchDVPorts()} == {spec.uplinkPortgroupKey}


def test_pci_ids_are_signed_and_gpus_are_sriov_capable(soap):
    host = soap.host("esx01")
    nic = next(d for d in host.hardware.pciDevice if d.id == "0000:18:00.0")
    assert nic.vendorId == 0x8086 - 0x10000
    gpu = next(d for d in host.hardware.pciDevice if d.id == "0000:3b:00.0")
    assert (gpu.vendorId, gpu.deviceId & 0xFFFF, gpu.classId) == (0x10DE, 0x20F1, 0x0302)
    info = {i.id: i for i in host.config.pciPassthruInfo}
    assert isinstance(info[gpu.id], vim.host.SriovInfo)
    assert info[gpu.id].sriovCapable
    odd = {i.id: i for i in soap.host("esx-odd").config.pciPassthruInfo}
    assert not isinstance(odd["0000:af:00.0"], vim.host.SriovInfo)


def test_packages_privileges_and_clock(soap):
    host = soap.host("esx01")
    names = [p.name for p in host.configManager.imageConfigManager.FetchSoftwarePackages()]
    assert any(n.startswith("NVIDIA-AIE_ESXi_7.0.2") for n in names)
    granted = soap.content.authorizationManager.HasPrivilegeOnEntities(
        [host], soap.session.key, ["Host.Config.Settings", "Host.Config.Image"]
    )
    assert [p.isGranted for p in granted[0].privAvailability] == [True, True]
    assert abs((soap.instance.CurrentTime() - soap.session.loginTime).total_seconds()) < 60


# --- host graphics, services, options, firewall


def test_graphics_become_active_at_a_reboot_and_then_offer_types(soap):
    host = soap.host("esx01")
    manager = host.configManager.graphicsManager
    config = manager.graphicsConfig
    config.hostDefaultGraphicsType = "sharedDirect"
    config.deviceType = [d for d in config.deviceType if d.deviceId == "0000:3b:00.0"]
    manager.UpdateGraphicsConfig(config)
    # the call replaces everything: the device left out takes the host's default, the one named stays as given
    after = {d.deviceId: d.graphicsType for d in manager.graphicsConfig.deviceType}
    assert after == {"0000:3b:00.0": "shared", "0000:86:00.0": "sharedDirect"}
    assert {i.graphicsType for i in host.config.graphicsInfo} == {"shared"}
    assert host.summary.rebootRequired
    assert manager.sharedPassthruGpuTypes == []
    reboot(soap, host)
    assert {i.pciId: i.graphicsType for i in host.config.graphicsInfo} == after
    assert "grid_a100-40c" in manager.sharedPassthruGpuTypes
    assert "grid_a100-3-20c" not in manager.sharedPassthruGpuTypes
    assert not host.summary.rebootRequired
    assert soap.calls() == [(host.name, "UpdateGraphicsConfig"), (host.name, "RebootHost_Task")]


@pytest.mark.parametrize(
    "change",
    [
        {"hostDefaultGraphicsType": "vgpu"},
        {"sharedPassthruAssignmentPolicy": "fast"},
        {"deviceType": [vim.host.GraphicsConfig.DeviceType(deviceId="0000:00:00.0", graphicsType="shared")]},
        {"deviceType": [vim.host.GraphicsConfig.DeviceType(deviceId="0000:3b:00.0", graphicsType="basic")]},
    ],
)
def test_a_bad_graphics_config_is_refused_and_changes_nothing(soap, change):
    manager = soap.host("esx01").configManager.graphicsManager
    config = manager.graphicsConfig
    for name, value in change.items():
        setattr(config, name, value)
    with pytest.raises(vmodl.fault.InvalidArgument):
        manager.UpdateGraphicsConfig(config)
    assert manager.graphicsConfig.hostDefaultGraphicsType == "shared"
    assert soap.calls() == []


def test_services_start_stop_and_policy(soap):
    host = soap.host("esx-odd")
    system = host.configManager.serviceSystem

    def ssh():
        return next(s for s in host.config.service.service if s.key == "TSM-SSH")

    assert not ssh().running
    system.StartService("TSM-SSH")
    system.StartService("TSM-SSH")
    system.UpdateServicePolicy("TSM-SSH", "on")
    assert (ssh().running, ssh().policy) == (True, "on")
    system.StopService("TSM-SSH")
    assert not ssh().running
    with pytest.raises(vim.fault.NotFound):
        system.StartService("nope")
    with pytest.raises(vmodl.fault.InvalidArgument):
        system.UpdateServicePolicy("TSM-SSH", "sometimes")
    assert [c for _, c in soap.calls()] == ["StartService", "UpdateServicePolicy", "StopService"]


def test_advanced_options_check_key_and_type(soap):
    manager = soap.host("esx01").configManager.advancedOption
    assert manager.QueryOptions("Net.PVRDMAVmknic")[0].value == ""
    manager.UpdateOptions([option("Net.PVRDMAVmknic", "vmk2")])
    assert {o.key: o.value for o in manager.QueryOptions("Net.")} == {"Net.PVRDMAVmknic": "vmk2"}
    long = VmomiSupport.vmodlTypes["long"]
    manager.UpdateOptions([option("Misc.LogToFile", long(0))])
    for key, value, fault in (
        ("Net.Nope", "x", vim.fault.InvalidName),
        ("Net.PVRDMAVmknic", 5, vmodl.fault.InvalidArgument),
        ("Net.PVRDMAVmknic", "vmk9", vmodl.fault.InvalidArgument),
        ("Misc.LogToFile", 1, vmodl.fault.InvalidArgument),
    ):
        with pytest.raises(fault):
            manager.UpdateOptions([option(key, value)])
    with pytest.raises(vim.fault.InvalidName):
        manager.QueryOptions("Nope")
    assert soap.calls() == [("esx01.lab.local", "UpdateOptions")] * 2


def test_vcenter_settings(soap):
    setting = soap.content.setting
    assert setting.QueryOptions("vgpu.")[0].value is False
    setting.UpdateOptions([option("vgpu.hotmigrate.enabled", True)])
    assert setting.QueryOptions("vgpu.hotmigrate.enabled")[0].value is True


def test_firewall_rulesets(soap):
    host = soap.host("esx01")
    system = host.configManager.firewallSystem
    system.EnableRuleset("pvrdma")
    assert {r.key: r.enabled for r in host.config.firewall.ruleset}["pvrdma"]
    system.DisableRuleset("pvrdma")
    with pytest.raises(vim.fault.NotFound):
        system.EnableRuleset("nope")


# --- maintenance and reboot


def test_maintenance_waits_for_pinned_vms_and_times_out(soap):
    ready(soap, "esx02")
    soap.wait(soap.vm("train-04").ReconfigVM_Task(vim.vm.ConfigSpec(**full_gpu_spec())))
    vm, host = soap.vm("train-04"), soap.host("esx02")
    soap.wait(vm.PowerOnVM_Task())
    assert [i.vm for i in host.config.graphicsInfo if i.vm] == [[vm]]
    with pytest.raises(vim.fault.Timedout):
        soap.wait(host.EnterMaintenanceMode_Task(1))
    assert not host.runtime.inMaintenanceMode
    task = host.EnterMaintenanceMode_Task(0)
    soap.until(lambda: task.info.progress == 2)
    soap.wait(vm.PowerOffVM_Task())
    soap.wait(task)
    assert host.runtime.inMaintenanceMode


def test_drs_moves_what_can_move(soap):
    host = soap.host("esx01")
    soap.wait(host.EnterMaintenanceMode_Task(5))
    moved = soap.vm("train-01")
    assert moved.runtime.powerState == "poweredOn"
    assert moved.runtime.host.name in ("esx02.lab.local", "esx03.lab.local")
    assert moved in moved.runtime.host.vm
    assert soap.calls().count(("train-01", "DrsMigration")) == 1
    with pytest.raises(vim.fault.InvalidState):
        soap.wait(host.EnterMaintenanceMode_Task(5))
    soap.wait(host.ExitMaintenanceMode_Task(5))
    with pytest.raises(vim.fault.InvalidState):
        soap.wait(host.ExitMaintenanceMode_Task(5))


def test_entering_maintenance_can_be_cancelled(soap):
    host = soap.host("esx-odd")
    soap.wait(soap.vm("odd-01").PowerOnVM_Task())
    task = host.EnterMaintenanceMode_Task(0)
    soap.until(lambda: task.info.state == "running")
    task.CancelTask()
    with pytest.raises(vmodl.fault.RequestCanceled):
        soap.wait(task)


def test_reboot_needs_maintenance_and_the_host_comes_back_in_it(soap):
    host = soap.host("esx03")
    with pytest.raises(vim.fault.InvalidState):
        soap.wait(host.RebootHost_Task(False))
    soap.wait(host.EnterMaintenanceMode_Task(5))
    before = host.runtime.bootTime
    soap.wait(host.RebootHost_Task(False))
    soap.until(lambda: host.runtime.connectionState == "notResponding")
    assert host.config is None
    with pytest.raises(vmodl.fault.HostNotConnected):
        host.configManager.serviceSystem.StartService("TSM-SSH")
    soap.until(lambda: host.runtime.connectionState == "connected")
    assert host.runtime.bootTime > before
    assert host.runtime.inMaintenanceMode
    # started by hand, policy off: gone after the boot
    assert not next(s for s in host.config.service.service if s.key == "TSM-SSH").running


def test_a_forced_reboot_takes_running_vms_down(soap):
    host, vm = soap.host("esx03"), soap.vm("infra-01")
    reboot(soap, host)
    assert vm.runtime.powerState == "poweredOff"
    assert vm.runtime.connectionState == "connected"


# --- virtual machines


def test_vgpu_add_power_on_and_remove(soap):
    ready(soap, "esx02")
    vm = soap.vm("train-04")
    macs = [n.macAddress for n in devices_of(vm, DEV.VirtualEthernetCard)]
    version = vm.config.changeVersion
    reconfigure(soap, vm, changeVersion=version, **full_gpu_spec())
    assert vm.config.changeVersion != version
    device = devices_of(vm, PCI)[0]
    assert (device.key, device.backing.vgpu, device.deviceInfo.label) == (13000, "grid_a100-40c", "PCI device 0")
    assert vm.config.memoryAllocation.reservation == vm.config.hardware.memoryMB
    assert [n.macAddress for n in devices_of(vm, DEV.VirtualEthernetCard)] == macs
    soap.wait(vm.PowerOnVM_Task())
    with pytest.raises(vim.fault.InvalidPowerState):
        reconfigure(soap, vm, deviceChange=[device_spec(device, "remove")])
    soap.wait(vm.PowerOffVM_Task())
    change = [device_spec(device, "remove"), device_spec(vgpu("grid_a100-20c"))]
    reconfigure(soap, vm, deviceChange=change)
    assert [d.backing.vgpu for d in devices_of(vm, PCI)] == ["grid_a100-20c"]


def test_reconfigure_refusals(soap):
    vm = soap.vm("train-04")
    stale = vm.config.changeVersion
    reconfigure(soap, vm, annotation="x")
    nic = devices_of(vm, DEV.VirtualVmxnet3)[0]
    ghost = DEV.VirtualVmxnet3(key=4999, backing=nic.backing)
    cases = [
        ({"changeVersion": stale, "annotation": "y"}, vim.fault.ConcurrentAccess),
        ({"deviceChange": [device_spec(vgpu("grid_h100-80c"))]}, vim.fault.InvalidDeviceBacking),
        ({"deviceChange": [device_spec(ghost, "remove")]}, vim.fault.InvalidDeviceSpec),
        ({"deviceChange": [device_spec(ghost, "edit")]}, vim.fault.InvalidDeviceSpec),
        ({"deviceChange": [device_spec(vgpu("grid_a100-4c", -n)) for n in range(1, 6)]}, vim.fault.TooManyDevices),
        ({"firmware": "coreboot"}, vmodl.fault.InvalidArgument),
        ({"version": "vmx-19"}, vmodl.fault.InvalidArgument),
        ({"memoryAllocation": vim.ResourceAllocationInfo(reservation=1 << 30)}, vmodl.fault.InvalidArgument),
        ({"nestedHVEnabled": True}, vmodl.fault.NotSupported),
    ]
    now = vm.config.changeVersion
    for spec, fault in cases:
        with pytest.raises(fault):
            reconfigure(soap, vm, **spec)
    assert vm.config.changeVersion == now
    assert soap.calls() == [("train-04", "ReconfigVM_Task")]


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


def test_pvrdma_rules(soap):
    rdma = soap.find(vim.dvs.DistributedVirtualPortgroup, "dvpg-rdma")
    uplink = soap.find(vim.dvs.DistributedVirtualPortgroup, "dvs-rdma-DVUplinks")
    vm = soap.vm("train-04")
    reconfigure(soap, vm, deviceChange=[device_spec(pvrdma(rdma, deviceProtocol="rocev2"))])
    adapter = devices_of(vm, DEV.VirtualVmxnet3Vrdma)[0]
    assert (adapter.key, adapter.deviceProtocol, adapter.deviceInfo.label) == (4001, "rocev2", "Network adapter 2")
    assert adapter.macAddress.startswith("00:50:56:")
    assert adapter.backing.port.portKey
    assert rdma in vm.network
    with pytest.raises(vim.fault.GenericVmConfigFault):
        soap.wait(vm.PowerOnVM_Task())
    reconfigure(soap, vm, memoryReservationLockedToMax=True)
    soap.wait(vm.PowerOnVM_Task())
    plain = pvrdma(rdma)
    plain.backing = DEV.VirtualEthernetCard.NetworkBackingInfo(deviceName="VM Network")
    odd = soap.vm("odd-01")
    off = soap.vm("train-04")
    soap.wait(off.PowerOffVM_Task())
    for machine, device, fault in (
        (off, pvrdma(uplink), vim.fault.InvalidDeviceBacking),
        (off, plain, vim.fault.InvalidDeviceBacking),
        (off, pvrdma(rdma, deviceProtocol="rocev3"), vim.fault.InvalidDeviceSpec),
        (odd, plain, vim.fault.InvalidDeviceBacking),
    ):
        with pytest.raises(fault):
            reconfigure(soap, machine, deviceChange=[device_spec(device)])
    edited = devices_of(off, DEV.VirtualVmxnet3Vrdma)[0]
    mac = edited.macAddress
    edited.deviceProtocol, edited.macAddress = "rocev1", None
    reconfigure(soap, off, deviceChange=[device_spec(edited, "edit")])
    now = devices_of(off, DEV.VirtualVmxnet3Vrdma)[0]
    assert (now.deviceProtocol, now.macAddress, now.deviceInfo.label) == ("rocev1", mac, "Network adapter 2")


@pytest.mark.parametrize(
    ("leave_out", "fault"),
    [
        ("memoryReservationLockedToMax", vim.fault.GenericVmConfigFault),
        ("extraConfig", vim.fault.GenericVmConfigFault),
        ("efi", vim.fault.GenericVmConfigFault),
    ],
)
def test_a_full_vgpu_needs_reservation_mmio_and_efi(soap, leave_out, fault):
    ready(soap, "esx02")
    vm, spec = soap.vm("train-04"), full_gpu_spec()
    spec.pop(leave_out, None)
    if leave_out == "efi":
        spec["firmware"] = "bios"
    reconfigure(soap, vm, **spec)
    with pytest.raises(fault, match="DevicePowerOn"):
        soap.wait(vm.PowerOnVM_Task())
    assert vm.runtime.powerState == "poweredOff"


def test_no_graphics_resource_before_the_host_is_shared_direct(soap):
    vm = soap.vm("train-04")
    reconfigure(soap, vm, **full_gpu_spec())
    with pytest.raises(vim.fault.InsufficientGraphicsResourcesFault, match="graphics resource"):
        soap.wait(vm.PowerOnVM_Task())
    checker = soap.content.vmCompatibilityChecker
    results = soap.wait(checker.CheckPowerOn_Task(vm))
    assert len(results) == 3
    assert all(r.error for r in results)
    assert ("train-04", "PowerOnVM_Task") not in soap.calls()


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


# --- what hosts offer


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
    with pytest.raises(vmodl.fault.InvalidArgument):
        browser.QueryConfigOptionEx(vim.EnvironmentBrowser.ConfigOptionQuerySpec(key="vmx-20"))
    odd = soap.find(vim.ComputeResource, "esx-odd.lab.local").environmentBrowser
    assert max(int(d.key[4:]) for d in odd.QueryConfigOptionDescriptor()) == 14


def test_folders_are_created_once(soap):
    root = soap.find(vim.Datacenter, "DC0").vmFolder
    made = root.CreateFolder("locks")
    with pytest.raises(vim.fault.DuplicateName):
        root.CreateFolder("locks")
    soap.wait(made.Destroy_Task())
    assert [c for _, c in soap.calls()] == ["CreateFolder", "Destroy_Task"]


def test_drs_options_are_stored(soap):
    cluster = soap.find(vim.ClusterComputeResource, "gpu-a")
    drs = vim.cluster.DrsConfigInfo(option=[option("VgpuMMAutomationTimeoutSecs", "-1")])
    soap.wait(cluster.ReconfigureComputeResource_Task(vim.cluster.ConfigSpecEx(drsConfig=drs), True))
    assert cluster.configurationEx.drsConfig.option[0].value == "-1"
    with pytest.raises(vmodl.fault.NotSupported):
        cluster.ReconfigureComputeResource_Task(vim.cluster.ConfigSpecEx(drsConfig=drs), False)


def test_two_whole_gpus_for_one_vm(soap):
    ready(soap, "esx02")
    vm, spec = soap.vm("train-04"), full_gpu_spec()
    spec["deviceChange"] = [device_spec(vgpu("grid_a100-40c", -n)) for n in (1, 2)]
    reconfigure(soap, vm, **spec)
    assert [d.deviceInfo.label for d in devices_of(vm, PCI)] == ["PCI device 0", "PCI device 1"]
    with pytest.raises(vim.fault.GenericVmConfigFault):  # 2 x 40 GB want a window of 256 GB
        soap.wait(vm.PowerOnVM_Task())
    reconfigure(soap, vm, extraConfig=[option("pciPassthru.64bitMMIOSizeGB", "256")])
    soap.wait(vm.PowerOnVM_Task())
    assert all(i.vm == [vm] for i in soap.host("esx02").config.graphicsInfo)
    other = soap.vm("train-03")  # went down with the forced reboot
    reconfigure(soap, other, **full_gpu_spec())
    with pytest.raises(vim.fault.InsufficientGraphicsResourcesFault):
        soap.wait(other.PowerOnVM_Task())


def test_several_fractions_for_one_vm_are_refused_before_8_0(soap):
    ready(soap, "esx02")
    vm = soap.vm("train-04")
    change = [device_spec(vgpu("grid_a100-20c", -n)) for n in (1, 2)]
    reconfigure(soap, vm, memoryReservationLockedToMax=True, deviceChange=change)
    with pytest.raises(vim.fault.GenericVmConfigFault):
        soap.wait(vm.PowerOnVM_Task())


def test_more_pvrdma_adapters_than_the_hardware_version_has(soap):
    group = soap.find(vim.dvs.DistributedVirtualPortgroup, "dvpg-rdma")
    vm = soap.vm("train-04")
    two = [device_spec(pvrdma(group, -n)) for n in (1, 2)]
    with pytest.raises(vim.fault.TooManyDevices):
        reconfigure(soap, vm, deviceChange=two)
    soap.wait(vm.UpgradeVM_Task("vmx-19"))
    reconfigure(soap, vm, deviceChange=two)
    macs = [d.macAddress for d in devices_of(vm, DEV.VirtualEthernetCard)]
    assert len(set(macs)) == 3


def test_a_nic_may_be_added_while_the_vm_runs(soap):
    vm = soap.vm("train-01")
    nic = devices_of(vm, DEV.VirtualVmxnet3)[0]
    group = soap.find(vim.dvs.DistributedVirtualPortgroup, "dvpg-rdma")
    port = vim.dvs.PortConnection(switchUuid=group.config.distributedVirtualSwitch.uuid, portgroupKey=group.key)
    backing = DEV.VirtualEthernetCard.DistributedVirtualPortBackingInfo(port=port)
    reconfigure(soap, vm, deviceChange=[device_spec(DEV.VirtualVmxnet3(key=-1, backing=backing))])
    added = next(d for d in devices_of(vm, DEV.VirtualVmxnet3) if d.key != nic.key)
    assert added.connectable.connected
    with pytest.raises(vim.fault.InvalidPowerState):
        reconfigure(soap, vm, deviceChange=[device_spec(pvrdma(group))])


SCENARIO = """\
name: edges
timing: {boot_seconds: 0.2, task_seconds: 0.005, session_minutes: 0.01}
hosts:
  - {name: esx1, never_returns: true}
  - {name: esx2, boot_seconds: 0.1, memory_gb: 48, lockdown: normal}
vms: [{name: a, host: esx2, memory_reservation_locked: true}, {name: b, host: esx1, hardware: 19, power: on}]
privileges_denied: [Host.Config.Image, Host.Config.NetService]
"""


def test_scenario_edges(make_lab, new_client):
    soap = new_client(make_lab(SCENARIO))
    host = soap.find(vim.HostSystem, "esx1")
    for refused in (
        host.configManager.imageConfigManager.FetchSoftwarePackages,
        lambda: host.configManager.serviceSystem.StartService("TSM-SSH"),
    ):
        with pytest.raises(vim.fault.NoPermission) as caught:
            refused()
        assert caught.value.privilegeId.startswith("Host.Config.")
    granted = soap.content.authorizationManager.HasPrivilegeOnEntities(
        [host], soap.session.key, ["Host.Config.Image", "Host.Config.Settings"]
    )
    assert [p.isGranted for p in granted[0].privAvailability] == [False, True]
    assert soap.find(vim.HostSystem, "esx2").config.lockdownMode == "lockdownNormal"
    with pytest.raises(vim.fault.InsufficientMemoryResourcesFault):
        soap.wait(soap.vm("a").PowerOnVM_Task())
    soap.wait(host.RebootHost_Task(True))
    soap.until(lambda: host.runtime.connectionState == "notResponding")
    assert soap.vm("b").runtime.connectionState == "disconnected"
    with pytest.raises(vmodl.fault.HostNotConnected):
        soap.wait(soap.vm("b").PowerOffVM_Task())
    with pytest.raises(vmodl.fault.HostNotConnected):
        soap.wait(host.EnterMaintenanceMode_Task(1))


def test_an_idle_session_expires(make_lab, new_client):
    import time

    soap = new_client(make_lab(SCENARIO))
    soap.instance.CurrentTime()
    time.sleep(0.9)  # session_minutes: 0.01
    with pytest.raises(vim.fault.NotAuthenticated):
        _ = soap.content.rootFolder.name
