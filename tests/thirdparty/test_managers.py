"""The managers of vCenter and of hosts that scripts ask without looking whether they are there."""

from __future__ import annotations

import pytest
from pyVmomi import VmomiSupport, vim, vmodl


def every_manager(content):
    found = {p.name: getattr(content, p.name) for p in type(content)._GetPropertyList()}
    return {name: mo for name, mo in found.items() if hasattr(mo, "_moId")}


def read_every_property(soap, name, mo):
    for info in mo._GetPropertyList():
        # reading a Folder's childType makes pyVmomi take type names for texts, in the whole process from then on
        if info.name != "childType" and VmomiSupport.IsChildVersion(soap.stub.version, info.version):
            value = getattr(mo, info.name)
            assert value is not None or info.flags & VmomiSupport.F_OPTIONAL, f"{name}.{info.name} is required"


def test_every_property_of_every_manager_is_read(soap):
    managers = every_manager(soap.content)
    assert {
        "eventManager", "perfManager", "licenseManager", "customFieldsManager", "dvSwitchManager", "fileManager",
        "extensionManager", "scheduledTaskManager", "customizationSpecManager", "ovfManager", "userDirectory",
        "guestOperationsManager", "virtualDiskManager", "hostProfileManager", "ipPoolManager", "cryptoManager",
    } <= managers.keys()  # fmt: skip
    for name, mo in managers.items():
        read_every_property(soap, name, mo)


def test_every_property_of_every_manager_of_a_host_is_read(soap):
    manager = soap.host("esx01").configManager
    found = every_manager(manager)
    assert {"storageSystem", "dateTimeSystem", "powerSystem", "autoStartManager", "datastoreSystem"} <= found.keys()
    for name, mo in found.items():
        read_every_property(soap, name, mo)


def test_events_and_tasks_tell_of_what_was_done(soap):
    vm = soap.vm("train-04")
    task = vm.PowerOnVM_Task()
    soap.wait(task)
    soap.wait(soap.vm("train-01").PowerOffVM_Task())
    by = vim.event.EventFilterSpec.ByEntity(entity=vm, recursion="self")
    events = soap.content.eventManager.QueryEvents(vim.event.EventFilterSpec(entity=by))
    assert [(e.vm.vm, e.info.descriptionId, e.userName) for e in events] == [
        (vm, "VirtualMachine.powerOn", "administrator@vsphere.local")
    ]
    below = vim.event.EventFilterSpec.ByEntity(entity=vm.parent, recursion="all")
    assert len(soap.content.eventManager.QueryEvents(vim.event.EventFilterSpec(entity=below))) == 2
    collector = soap.content.eventManager.CreateCollectorForEvents(vim.event.EventFilterSpec())
    assert [e.vm.name for e in collector.ReadNextEvents(1)] == ["train-04"]
    assert [e.vm.name for e in collector.ReadNextEvents(10)] == ["train-01"]
    assert collector.ReadNextEvents(10) == []
    collector.RewindCollector()
    assert len(collector.ReadNextEvents(10)) == 2
    assert [e.vm.name for e in collector.latestPage] == ["train-01", "train-04"]
    collector.DestroyCollector()
    with pytest.raises(vmodl.fault.ManagedObjectNotFound):
        collector.ReadNextEvents(1)
    tasks = soap.content.taskManager.CreateCollectorForTasks(vim.TaskFilterSpec(state=["success"]))
    assert [t.entityName for t in tasks.ReadNextTasks(10)] == ["train-04", "train-01"]
    with pytest.raises(vmodl.fault.InvalidArgument):
        soap.content.eventManager.QueryEvents(vim.event.EventFilterSpec(eventChainId=7))


def test_custom_attributes_are_kept(soap):
    manager, vm = soap.content.customFieldsManager, soap.vm("train-04")
    owner = manager.AddCustomFieldDef("owner", vim.VirtualMachine)
    everywhere = manager.AddCustomFieldDef("site", None)
    with pytest.raises(vim.fault.DuplicateName):
        manager.AddCustomFieldDef("owner", vim.VirtualMachine)
    manager.SetField(vm, owner.key, "ada")
    vm.setCustomValue("site", "north")
    assert {v.key: v.value for v in vm.customValue} == {owner.key: "ada", everywhere.key: "north"}
    assert [f.name for f in vm.availableField] == ["owner", "site"]
    assert [f.name for f in soap.host("esx01").availableField] == ["site"]
    with pytest.raises(vmodl.fault.InvalidArgument):
        manager.SetField(soap.host("esx01"), owner.key, "x")
    manager.SetField(vm, owner.key, "")
    manager.RemoveCustomFieldDef(everywhere.key)
    assert vm.customValue == []
    with pytest.raises(vim.fault.NotFound):
        manager.SetField(vm, everywhere.key, "x")


def test_licences_extensions_counters_and_switches(soap):
    content, vm = soap.content, soap.vm("train-04")
    (license_,) = content.licenseManager.licenses
    assigned = content.licenseManager.licenseAssignmentManager.QueryAssignedLicenses(None)
    assert license_.editionKey == "eval"
    assert {a.entityDisplayName for a in assigned} >= {"VMware vCenter Server", "esx01.lab.local"}
    assert content.extensionManager.FindExtension("com.example") is None
    assert content.extensionManager.QueryManagedBy("com.example") == []
    counters = {f"{c.groupInfo.key}.{c.nameInfo.key}.{c.rollupType}": c.key for c in content.perfManager.perfCounter}
    assert counters["cpu.usage.average"] == 2
    assert content.perfManager.QueryPerfCounter([2])[0].unitInfo.key == "percent"
    assert content.perfManager.QueryPerfProviderSummary(vm).refreshRate == 20
    assert content.perfManager.QueryAvailablePerfMetric(vm) == []
    switch = soap.find(vim.DistributedVirtualSwitch, "dvs-lan")
    assert content.dvSwitchManager.QueryDvsByUuid(switch.uuid) == switch
    assert content.dvSwitchManager.QueryDvsByUuid("50 00") is None
    assert [v.version for v in content.dvSwitchManager.QueryAvailableDvsSpec()][-1] == "7.0.2"
    assert content.scheduledTaskManager.RetrieveEntityScheduledTask(vm) == []
    assert content.customizationSpecManager.DoesCustomizationSpecExist("x") is False
    assert [u.principal for u in content.userDirectory.RetrieveUserGroups(None, "admin", None, None, False, True, True)]


def test_time_power_and_automatic_start_of_a_host(soap):
    host, manager = soap.host("esx01"), soap.host("esx01").configManager
    assert abs((manager.dateTimeSystem.QueryDateTime() - soap.instance.CurrentTime()).total_seconds()) < 60
    manager.powerSystem.ConfigurePowerPolicy(1)
    assert host.config.powerSystemInfo.currentPolicy.shortName == "static"
    with pytest.raises(vmodl.fault.InvalidArgument):
        manager.powerSystem.ConfigurePowerPolicy(9)

    def start(vm, action="powerOn"):
        info = vim.host.AutoStartManager.AutoPowerInfo(
            key=vm, startOrder=1, startDelay=5, stopDelay=5, waitForHeartbeat="no",
            startAction=action, stopAction="none",
        )  # fmt: skip
        defaults = vim.host.AutoStartManager.SystemDefaults(enabled=True)
        spec = vim.host.AutoStartManager.Config(defaults=defaults, powerInfo=[info])
        manager.autoStartManager.ReconfigureAutostart(spec)

    start(soap.vm("train-01"))
    assert [i.key.name for i in host.config.autoStart.powerInfo] == ["train-01"]
    assert host.config.autoStart.defaults.enabled
    with pytest.raises(vmodl.fault.InvalidArgument):
        start(soap.vm("train-03"))
    start(soap.vm("train-01"), "none")
    assert manager.autoStartManager.config.powerInfo == []
    manager.storageSystem.RescanAllHba()
    manager.storageSystem.RefreshStorageSystem()
    assert [m.volume.name for m in manager.storageSystem.fileSystemVolumeInfo.mountInfo] == ["vsan-gpu"]
    assert [c for _, c in soap.calls()] == [
        "ConfigurePowerPolicy", "ReconfigureAutostart", "ReconfigureAutostart",
    ]  # fmt: skip
