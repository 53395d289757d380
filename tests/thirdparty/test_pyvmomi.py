"""Stock pyVmomi before the lab, used the way administrators' scripts use it."""

from __future__ import annotations

import re
import ssl
import threading
import time

import pytest
from pyVim.connect import Disconnect, SmartConnect
from pyVim.task import WaitForTask, WaitForTasks
from pyVmomi import VmomiSupport, vim, vmodl
from support.gates import LONG, busy

PC = vmodl.query.PropertyCollector
USER = "administrator@vsphere.local"
WHOLE = {
    vim.VirtualMachine: ("config", "summary", "runtime", "guest", "capability", "network"),
    vim.HostSystem: ("config", "summary", "runtime", "hardware", "capability", "configManager", "network"),
    vim.ClusterComputeResource: ("configurationEx", "configuration", "summary", "summaryEx", "environmentBrowser"),
    vim.Datastore: ("info", "summary", "capability", "host", "vm", "browser"),
    vim.Datacenter: ("configuration", "network", "datastore"),
    vim.dvs.VmwareDistributedVirtualSwitch: ("config", "summary", "capability", "portgroup", "uuid"),
    vim.dvs.DistributedVirtualPortgroup: ("config", "summary", "key", "host", "vm"),
    vim.ResourcePool: ("config", "summary", "runtime", "owner"),
}


def connect(lab, password=None, **options):
    context = ssl.create_default_context(cafile=str(lab.directory / "ca.pem"))
    if password is None:
        password = (lab.directory / "password").read_text(encoding="utf-8").strip()
    return SmartConnect(host="127.0.0.1", port=lab.port, user=USER, pwd=password, sslContext=context, **options)


@pytest.fixture
def si(lab):
    instance = connect(lab)
    yield instance
    Disconnect(instance)


def everything(si, types=()):
    view = si.content.viewManager.CreateContainerView(si.content.rootFolder, list(types), True)
    try:
        return list(view.view)
    finally:
        view.Destroy()


def named(si, typ, name):
    return next(o for o in everything(si, [typ]) if o.name == name)


def vm_named(si, name):
    return named(si, vim.VirtualMachine, name)


def known(si, info):
    # reading a Folder's childType makes pyVmomi take type names for texts, in the whole process from then on
    return info.name != "childType" and VmomiSupport.IsChildVersion(si._stub.version, info.version)


def test_connecting_negotiates_verifies_and_ends(lab):
    si = connect(lab)
    assert si._stub.version == "vim.version.v7_0_2_0"
    assert si.content.about.apiType == "VirtualCenter"
    assert abs((si.CurrentTime() - si.serverClock).total_seconds()) < 5
    assert si.content.sessionManager.currentSession.userName == USER
    root = si.content.rootFolder
    Disconnect(si)
    with pytest.raises(vim.fault.NotAuthenticated):
        _ = root.name
    with pytest.raises(vim.fault.InvalidLogin):
        connect(lab, "wrong")
    with pytest.raises(ssl.SSLError):
        SmartConnect(host="127.0.0.1", port=lab.port, user=USER, pwd="x", sslContext=ssl.create_default_context())


def test_every_property_of_every_object_is_fetched_and_no_required_one_is_missing(si):
    content = si.content
    objects = [si, content.rootFolder, *everything(si)]
    objects += [m for p in content._GetPropertyList() if isinstance(m := getattr(content, p.name), vim.ManagedObject)]
    for host in everything(si, [vim.HostSystem]):
        managers = (getattr(host.configManager, p.name) for p in host.configManager._GetPropertyList())
        objects += [m for m in managers if isinstance(m, vim.ManagedObject)]
    objects += [o.environmentBrowser for o in everything(si, [vim.ComputeResource])]
    objects.append(vm_named(si, "odd-01").PowerOnVM_Task())
    missing, read = [], 0
    for obj in objects:
        for info in obj._GetPropertyList():
            if known(si, info):
                read += 1
                if getattr(obj, info.name) is None and not info.flags & VmomiSupport.F_OPTIONAL:
                    missing.append(f"{obj}.{info.name}")
    assert read > 800
    assert missing == []


@pytest.mark.parametrize("typ", WHOLE, ids=lambda t: t._wsdlName)
def test_whole_properties_are_of_their_type(si, typ):
    for obj in everything(si, [typ]):
        for name in WHOLE[typ]:
            value = getattr(obj, name)
            assert isinstance(value, obj._GetPropertyInfo(name).type), (obj, name)


def test_what_objects_say_of_each_other_fits(si):
    for store in everything(si, [vim.Datastore]):
        assert set(store.vm) == set(everything(si, [vim.VirtualMachine]))
        assert {m.key for m in store.host} == set(everything(si, [vim.HostSystem]))
        assert list(store.browser.datastore) == [store]
    for host in everything(si, [vim.HostSystem]):
        assert all(vm.runtime.host == host for vm in host.vm)
        assert all(host in network.host for network in host.network if isinstance(network, vim.Network))
        assert host.summary.runtime.powerState == host.runtime.powerState
    for vm in everything(si, [vim.VirtualMachine]):
        assert vm in vm.resourcePool.vm
        assert all(vm in network.vm for network in vm.network)
        assert vm.summary.config.uuid == vm.config.uuid
        assert vm.parent in everything(si, [vim.Folder])


def test_tasks_are_waited_for_and_their_errors_raised(si):
    vm = vm_named(si, "train-04")
    assert WaitForTask(vm.PowerOnVM_Task()) == "success"
    assert vm.runtime.powerState == "poweredOn"
    with pytest.raises(vim.fault.InvalidPowerState) as caught:
        WaitForTask(vm.PowerOnVM_Task())
    assert caught.value.existingState == "poweredOn"
    WaitForTasks([vm.PowerOff(), vm_named(si, "odd-01").PowerOn()], si=si)
    assert vm.runtime.powerState == "poweredOff"
    assert {t.info.entityName for t in si.content.taskManager.recentTask} == {"train-04", "odd-01"}


def test_two_sessions_waiting_on_the_collector_they_are_given_do_not_disturb_each_other(si, lab):
    other = connect(lab)
    mine = si.content.propertyCollector.CreateFilter(
        PC.FilterSpec(
            objectSet=[PC.ObjectSpec(obj=si.content.rootFolder)],
            propSet=[PC.PropertySpec(type=vim.Folder, pathSet=["name"])],
        ),
        True,
    )
    version = si.content.propertyCollector.WaitForUpdates("").version
    assert other.content.propertyCollector.filter == []
    WaitForTask(vm_named(other, "train-04").PowerOnVM_Task(), si=other)
    other.content.propertyCollector.CancelWaitForUpdates()
    other.content.propertyCollector.Destroy()
    Disconnect(other)
    assert si.content.propertyCollector.filter == [mine]
    assert si.content.propertyCollector.WaitForUpdatesEx(version, PC.WaitOptions(maxWaitSeconds=0)) is None
    mine.Destroy()
    assert si.content.propertyCollector.filter == []


@pytest.mark.parametrize("shared", [True, False])
def test_waiting_ends_when_the_session_does(lab, shared):
    si = connect(lab)
    collector = si.content.propertyCollector if shared else si.content.propertyCollector.CreatePropertyCollector()
    spec = PC.FilterSpec(
        objectSet=[PC.ObjectSpec(obj=vm_named(si, "train-01"))],
        propSet=[PC.PropertySpec(type=vim.VirtualMachine, pathSet=["name"])],
    )
    collector.CreateFilter(spec, False)
    version = collector.WaitForUpdatesEx("", PC.WaitOptions(maxWaitSeconds=1)).version
    threading.Timer(0.2, lab.post, ["/lab/sessions/expire"]).start()
    began = time.monotonic()
    with pytest.raises(vim.fault.NotAuthenticated):
        collector.WaitForUpdatesEx(version, PC.WaitOptions(maxWaitSeconds=30))
    assert time.monotonic() - began < 25 * busy(), "it was to wait for 30 s"


def test_views_are_listed_until_destroyed(si):
    view = si.content.viewManager.CreateContainerView(si.content.rootFolder, [vim.HostSystem], True)
    assert si.content.viewManager.viewList == [view]
    assert (view.container, view.recursive) == (si.content.rootFolder, True)
    view.Destroy()
    assert si.content.viewManager.viewList == []
    with pytest.raises(vmodl.fault.ManagedObjectNotFound):
        _ = view.view


def test_the_search_index_finds_by_whatever_is_known(si):
    index, vm, host = si.content.searchIndex, vm_named(si, "train-01"), named(si, vim.HostSystem, "esx01.lab.local")
    center = si.content.rootFolder.childEntity[0]
    found = [
        index.FindByInventoryPath("DC0/vm/ai/training/train-01"),
        index.FindByInventoryPath("/DC0/vm/ai/training/train-01/"),
        index.FindByUuid(None, vm.config.uuid, True),
        index.FindByUuid(center, vm.config.instanceUuid, True, True),
        index.FindByIp(None, vm.guest.ipAddress, True),
        index.FindByDnsName(center, "TRAIN-01", True),
        index.FindByDatastorePath(center, vm.config.files.vmPathName),
        index.FindChild(vm.parent, "train-01"),
        *index.FindAllByIp(None, vm.guest.ipAddress, True),
        *index.FindAllByDnsName(None, "train-01", True),
        *index.FindAllByUuid(None, vm.config.uuid, True),
    ]
    assert found == [vm] * 11
    hosts = [
        index.FindByUuid(None, host.hardware.systemInfo.uuid, False),
        index.FindByDnsName(None, host.name, False),
        index.FindByIp(None, host.config.network.vnic[0].spec.ip.ipAddress, False),
        index.FindChild(host.parent, host.name),
    ]
    assert hosts == [host] * 4
    nothing = [
        index.FindByInventoryPath("DC0/vm/nothing"),
        index.FindByUuid(None, "nothing", True),
        index.FindByIp(None, "192.0.2.1", True),
        index.FindByIp(None, vm.guest.ipAddress, False),
        index.FindByDatastorePath(center, "[vsan-gpu] nothing"),
    ]
    assert nothing == [None] * 5
    assert index.FindAllByIp(None, "192.0.2.1", True) == []


def test_the_classic_recursive_traversal_finds_what_a_view_does(si):
    again = PC.SelectionSpec(name="visitFolders")
    steps = {
        "dcToHf": (vim.Datacenter, "hostFolder", [again]),
        "dcToVmf": (vim.Datacenter, "vmFolder", [again]),
        "crToH": (vim.ComputeResource, "host", []),
        "crToRp": (vim.ComputeResource, "resourcePool", [PC.SelectionSpec(name="rpToRp")]),
        "rpToRp": (vim.ResourcePool, "resourcePool", [PC.SelectionSpec(name="rpToRp")]),
    }
    traversals = [
        PC.TraversalSpec(name=name, type=typ, path=path, skip=False, selectSet=following)
        for name, (typ, path, following) in steps.items()
    ]
    selections = [again, *(PC.SelectionSpec(name=name) for name in steps)]
    folders = PC.TraversalSpec(
        name="visitFolders", type=vim.Folder, path="childEntity", skip=False, selectSet=selections
    )
    types = (vim.VirtualMachine, vim.HostSystem, vim.ResourcePool)
    spec = PC.FilterSpec(
        objectSet=[PC.ObjectSpec(obj=si.content.rootFolder, skip=False, selectSet=[folders, *traversals])],
        propSet=[PC.PropertySpec(type=t, all=False, pathSet=["name"]) for t in types],
    )
    found = si.content.propertyCollector.RetrieveContents([spec])
    assert {o.obj for o in found} == set(everything(si, types))
    assert len({o.obj for o in found}) == len(found)
    folders.selectSet.append(PC.SelectionSpec(name="nowhere"))
    with pytest.raises(vmodl.fault.InvalidArgument):
        si.content.propertyCollector.RetrieveContents([spec])


def test_environment_browsers_answer_for_the_cluster_and_for_each_host(si):
    for compute in everything(si, [vim.ComputeResource]):
        browser = compute.environmentBrowser
        keys = [d.key for d in browser.QueryConfigOptionDescriptor()]
        assert keys
        for host in (None, *compute.host):
            target = browser.QueryConfigTarget(host)
            assert target.numCpus > 0
            assert browser.QueryTargetCapabilities(host).rebootSupported
            option = browser.QueryConfigOption(None, host)
            assert option.version in keys
        spec = vim.EnvironmentBrowser.ConfigOptionQuerySpec(key=keys[0], host=compute.host[0])
        assert browser.QueryConfigOptionEx(spec).version == keys[0]
        for wrong in ("vmx-99", "vmx-x", "7"):
            with pytest.raises(vmodl.fault.InvalidArgument):
                browser.QueryConfigOption(wrong, None)


def test_many_vms_are_powered_on_at_once_and_each_says_how_it_went(si):
    vms = [vm_named(si, name) for name in ("train-04", "train-01", "odd-01")]
    center = si.content.rootFolder.childEntity[0]
    task = center.PowerOnMultiVM_Task(vms, [])
    WaitForTask(task)
    result = task.info.result
    assert {a.vm for a in result.attempted} == {vms[0], vms[2]}
    assert [(n.vm, type(n.fault)) for n in result.notAttempted] == [(vms[1], vim.fault.InvalidPowerState)]
    WaitForTasks([a.task for a in result.attempted], si=si)
    assert [vm.runtime.powerState for vm in vms] == ["poweredOn"] * 3


def test_methods_the_lab_does_not_have_are_not_found_and_nothing_happens(si, lab):
    vm, host = vm_named(si, "train-04"), named(si, vim.HostSystem, "esx01.lab.local")
    center, folder = si.content.rootFolder.childEntity[0], vm.parent
    calls = [
        (vm.StandbyGuest,),
        (vm.InstantClone_Task, vim.vm.InstantCloneSpec(name="copy", location=vim.vm.RelocateSpec())),
        (vm.AcquireTicket, "webmks"),
        (folder.RegisterVM_Task, "[vsan-gpu] x/x.vmx", "x", False, vm.resourcePool, host),
        (host.DisconnectHost_Task,),
        (host.ShutdownHost_Task, True),
        (host.Destroy_Task,),
        (center.Rename_Task, "DC1"),
        (si.content.licenseManager.AddLicense, "00000-00000-00000-00000-00001", None),
        (si.content.perfManager.QueryPerfComposite, vim.PerformanceManager.QuerySpec(entity=vm)),
        (si.content.sessionManager.AcquireCloneTicket,),
    ]
    for method, *arguments in calls:
        with pytest.raises((vmodl.fault.MethodNotFound, vmodl.fault.NotSupported)) as caught:
            method(*arguments)
        assert caught.value.msg
    assert lab.get("/lab/ledger")["entries"] == []


def test_a_property_spec_without_paths_asks_for_references_only(si):
    spec = PC.FilterSpec(
        objectSet=[PC.ObjectSpec(obj=vm_named(si, "train-01"))], propSet=[PC.PropertySpec(type=vim.ManagedEntity)]
    )
    collector = si.content.propertyCollector
    (found,) = collector.RetrieveContents([spec])
    assert (found.obj, found.propSet) == (vm_named(si, "train-01"), [])
    made = collector.CreateFilter(spec, False)
    (update,) = collector.CheckForUpdates("").filterSet[0].objectSet
    assert (update.kind, update.changeSet) == ("enter", [])
    made.Destroy()


def test_an_object_that_is_gone_fails_the_read_unless_the_client_says_otherwise(si):
    here, gone = vm_named(si, "train-01"), vim.VirtualMachine("vm-gone", si._stub)
    spec = PC.FilterSpec(
        objectSet=[PC.ObjectSpec(obj=gone), PC.ObjectSpec(obj=here)],
        propSet=[PC.PropertySpec(type=vim.VirtualMachine, pathSet=["name"])],
    )
    collector = si.content.propertyCollector
    for ask in (lambda: collector.RetrieveContents([spec]), lambda: collector.CreateFilter(spec, False)):
        with pytest.raises(vmodl.fault.ManagedObjectNotFound):
            ask()
    spec.reportMissingObjectsInResults = True
    assert [o.obj for o in collector.RetrieveContents([spec])] == [here]
    assert collector.filter == []


def test_an_estate_with_a_host_that_does_not_answer_can_be_read(make_lab, quick_scenario):
    lab = make_lab(re.sub("boot_seconds: [0-9.]+", "boot_seconds: 60", quick_scenario.read_text(encoding="utf-8")))
    si = connect(lab)
    host = named(si, vim.HostSystem, "esx01.lab.local")
    compute, hardware = host.parent, host.hardware.systemInfo.uuid
    WaitForTask(host.RebootHost_Task(True))
    end = time.monotonic() + LONG
    while host.runtime.connectionState == "connected":
        assert time.monotonic() < end
        time.sleep(0.02)
    assert host.runtime.connectionState == "notResponding"
    for obj in everything(si):
        for info in obj._GetPropertyList():
            if known(si, info):
                getattr(obj, info.name)
    assert {vm.runtime.connectionState for vm in host.vm} == {"disconnected"}
    assert si.content.searchIndex.FindByUuid(None, hardware, False) == host
    assert si.content.searchIndex.FindByIp(None, "192.0.2.1", False) is None
    assert compute.environmentBrowser.QueryConfigTarget(None).numCpus > 0
    for ask in (
        lambda: compute.environmentBrowser.QueryConfigTarget(host),
        lambda: WaitForTask(vm_named(si, "train-01").PowerOffVM_Task()),
        lambda: WaitForTask(host.ExitMaintenanceMode_Task(5)),
    ):
        with pytest.raises(vmodl.fault.HostNotConnected):
            ask()
    Disconnect(si)
