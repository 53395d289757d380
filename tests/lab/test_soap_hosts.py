"""Hosts: graphics, services, options, firewall, maintenance mode and reboot, with their refusals."""

import time

import pytest
from pyVmomi import VmomiSupport, vim, vmodl
from support.farm import full_gpu_spec, option, ready, reboot


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
        ("Syslog.global.logHost", "tcp://10.0.0.5:514,http://10.0.0.6", vmodl.fault.InvalidArgument),
    ):
        with pytest.raises(fault):
            manager.UpdateOptions([option(key, value)])
    with pytest.raises(vim.fault.InvalidName):
        manager.QueryOptions("Nope")
    assert soap.calls() == [("esx01.lab.local", "UpdateOptions")] * 2


def test_firewall_rulesets(soap):
    host = soap.host("esx01")
    system = host.configManager.firewallSystem
    system.EnableRuleset("pvrdma")
    assert {r.key: r.enabled for r in host.config.firewall.ruleset}["pvrdma"]
    system.DisableRuleset("pvrdma")
    with pytest.raises(vim.fault.NotFound):
        system.EnableRuleset("nope")


def test_host_managers_small_methods(soap):
    host = soap.host("esx01")
    managers = host.configManager
    assert host.RetrieveHardwareUptime() > 86400  # up for days at the start
    managers.serviceSystem.RestartService("ntpd")
    with pytest.raises(vim.fault.NotFound):
        managers.serviceSystem.RestartService("nope")
    managers.serviceSystem.RefreshServices()
    managers.firewallSystem.RefreshFirewall()
    managers.graphicsManager.RefreshGraphicsManager()
    managers.pciPassthruSystem.Refresh()
    assert managers.graphicsManager.IsSharedGraphicsActive() is False
    assert managers.imageConfigManager.HostImageConfigGetAcceptance() == "partner"
    assert managers.imageConfigManager.InstallDate().year == 2021
    assert managers.hostAccessManager.QueryLockdownExceptions() == []
    managers.hostAccessManager.ChangeLockdownMode("lockdownNormal")
    assert host.config.lockdownMode == managers.hostAccessManager.lockdownMode == "lockdownNormal"
    assert [c for _, c in soap.calls()] == ["RestartService", "ChangeLockdownMode"]


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


def test_powered_off_vms_leave_only_when_asked(soap):
    host = soap.host("esx02")
    soap.wait(host.EnterMaintenanceMode_Task(5, True))
    assert host.vm == []
    assert soap.vm("train-04").runtime.host != host
    with pytest.raises(vmodl.fault.InvalidArgument):
        soap.host("esx-odd").EnterMaintenanceMode_Task(5, True)
    with pytest.raises(vim.fault.InvalidState):
        soap.wait(soap.host("esx01").ExitMaintenanceMode_Task(0))


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
    with pytest.raises(vim.fault.InsufficientHostMemoryCapacityFault):
        soap.wait(soap.vm("a").PowerOnVM_Task())
    soap.wait(host.RebootHost_Task(True))
    soap.until(lambda: host.runtime.connectionState == "notResponding")
    assert soap.vm("b").runtime.connectionState == "disconnected"
    with pytest.raises(vmodl.fault.HostNotConnected):
        soap.wait(soap.vm("b").PowerOffVM_Task())
    with pytest.raises(vmodl.fault.HostNotConnected):
        soap.wait(host.EnterMaintenanceMode_Task(1))


def test_an_idle_session_expires(make_lab, new_client):
    soap = new_client(make_lab(SCENARIO))
    soap.instance.CurrentTime()
    time.sleep(0.9)  # session_minutes: 0.01
    with pytest.raises(vim.fault.NotAuthenticated):
        _ = soap.content.rootFolder.name
