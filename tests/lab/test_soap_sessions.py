"""Sessions, inventory and searching."""

import pytest
from pyVmomi import vim, vmodl
from support.farm import option


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
        soap.vm("train-04").StandbyGuest()
    with pytest.raises(vmodl.fault.MethodNotFound):
        soap.content.rootFolder.CreateDatacenter("x")


def test_a_session_can_be_ended_by_another(soap, lab, new_client):
    other = new_client(lab)
    manager = soap.content.sessionManager
    assert {s.key for s in manager.sessionList} == {soap.session.key, other.session.key}
    manager.TerminateSession([other.session.key])
    with pytest.raises(vim.fault.NotAuthenticated):
        _ = other.content.rootFolder.name
    with pytest.raises(vim.fault.NotFound):
        manager.TerminateSession(["nobody"])


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
    fetched = switch.FetchDVPorts(vim.dvs.PortCriteria(uplinkPort=True))
    assert {p.portgroupKey for p in fetched} == {spec.uplinkPortgroupKey}


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


def test_list_views(soap):
    one, two = soap.vm("train-01"), soap.vm("train-02")
    view = soap.content.viewManager.CreateListView([one])
    view.ModifyListView([two], [one])
    assert view.view == [two]
    assert view.ModifyListView([vim.VirtualMachine("vm-0", soap.stub)], None)[0]._moId == "vm-0"
    view.ResetListView([one])
    assert view.view == [one]
    view.DestroyView()
    with pytest.raises(vmodl.fault.InvalidArgument):
        soap.content.viewManager.CreateContainerView(one, [], True)


def test_searching(soap):
    index, vm = soap.content.searchIndex, soap.vm("train-01")
    host = soap.host("esx01")
    assert index.FindByIp(None, vm.guest.ipAddress, True) == vm
    assert index.FindByDnsName(None, "train-01", True) == vm
    assert index.FindAllByUuid(None, vm.config.uuid, True, False) == [vm]
    assert index.FindByUuid(None, host.hardware.systemInfo.uuid, False) == host
    assert index.FindChild(vm.parent, "train-01") == vm
    for nothing in ("DC0/vm/nope", "nope", "DC0/vm/ai/training/train-01/x"):
        assert index.FindByInventoryPath(nothing) is None


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


def test_vcenter_settings(soap):
    setting = soap.content.setting
    assert setting.QueryOptions("vgpu.")[0].value is False
    setting.UpdateOptions([option("vgpu.hotmigrate.enabled", True)])
    assert setting.QueryOptions("vgpu.hotmigrate.enabled")[0].value is True


def test_a_task_that_ended_cannot_be_cancelled(soap):
    task = soap.vm("train-04").PowerOnVM_Task()
    soap.wait(task)
    with pytest.raises(vim.fault.InvalidState):
        task.CancelTask()
    assert soap.vm("train-04").recentTask == [task]  # for some minutes, as vCenter documents it
