"""Images of guests: what vCenter shows of them, what their cloud-init reads, and faults of a boot."""

from __future__ import annotations

import json
import time

import pytest
from pyVmomi import vim
from support.farm import DEV, device_spec, devices_of, option, reconfigure

pytestmark = pytest.mark.lab

FARM = """
name: images
timing: {boot_seconds: 0.3, task_seconds: 0.005, shutdown_seconds: 0.1, guest_seconds: 0.1}
clusters: [{name: a}]
switches: [{name: dvs, port_groups: [{name: lan}, {name: rail}]}]
hosts:
  - {name: "esx[01:02].lab.local", cluster: a, nics: [{name: vmnic0, pci: "0000:18:00.0", switch: dvs}]}
vms:
  - name: good
    host: esx01.lab.local
    template: true
    network: lan
    more_networks: [rail]
    image: {distribution: Ubuntu 22.04.4 LTS, tools: 12.3.5}
    extra_config: {guestinfo.metadata: stale}
  - {name: bare, host: esx01.lab.local, network: ""}
  - {name: none, host: esx01.lab.local, network: lan, image: {cloud_init: none}}
  - {name: old, host: esx01.lab.local, network: lan, image: {cloud_init: "20.4"}}
  - {name: ovf, host: esx01.lab.local, network: lan, image: {ovf_properties: {hostname: x}}}
  - name: rhel
    host: esx01.lab.local
    network: lan
    guest: rhel8_64Guest
    image: {renderer: sysconfig, machine_id: copied}
"""


@pytest.fixture
def soap(make_lab, new_client):
    return new_client(make_lab(FARM))


def cards(vm):
    return devices_of(vm, DEV.VirtualEthernetCard)


def give(soap, vm, address="10.9.0.5/24", gateway="10.9.0.1"):
    """Give a guest a network with a table of its own, and the last command of its first boot."""
    mac = cards(vm)[0].macAddress
    nics = [{"name": "rail1", "mac": mac, "table": 101, "addresses": [address], "gateways": [gateway]}]
    ethernet = {"match": {"macaddress": mac}, "addresses": [address], "routes": [{"to": "10.0.0.0/8", "table": 101}]}
    ethernet["routing-policy"] = [{"from": f"{address.partition('/')[0]}/32", "table": 101}]
    userdata = {
        "write_files": [{"path": "/x/nics.json", "content": json.dumps({"generation": 1, "nics": nics})}],
        "runcmd": [["sh", "/x/ready.sh"]],
    }
    metadata = {"network": {"version": 2, "ethernets": {"rail1": ethernet}}}
    settings = {"guestinfo.metadata": json.dumps(metadata), "guestinfo.userdata": json.dumps(userdata)}
    reconfigure(soap, vm, extraConfig=[option(k, v) for k, v in settings.items()])
    return mac


def settings_of(vm):
    return {o.key: o.value for o in vm.config.extraConfig}


def verdict(vm):
    text = settings_of(vm).get("guestinfo.vsphere-ai.ready")
    return json.loads(text)["nics"] if text else None


def boot(soap, vm):
    soap.wait(vm.PowerOnVM_Task())
    soap.until(lambda: vm.guest.net)
    return [text for nic in vm.guest.net for text in nic.ipAddress]


def test_an_image_shows_its_distribution_and_its_tools(soap):
    config = soap.vm("good").config
    assert config.tools.toolsVersion == 12 * 1024 + 3 * 32 + 5
    found = settings_of(soap.vm("good"))
    assert "prettyName='Ubuntu 22.04.4 LTS'" in found["guestInfo.detailed.data"]
    assert found["guestinfo.metadata"] == "stale"
    lan, rail = (soap.find(vim.dvs.DistributedVirtualPortgroup, name).key for name in ("lan", "rail"))
    assert [n.backing.port.portgroupKey for n in cards(soap.vm("good"))] == [lan, rail]
    assert not cards(soap.vm("bare"))
    assert "guestInfo.detailed.data" not in settings_of(soap.vm("bare"))
    assert [p.id for p in soap.vm("ovf").config.vAppConfig.property] == ["hostname"]


@pytest.mark.parametrize("name", ["none", "old", "ovf"])
def test_a_guest_that_reads_no_guestinfo_has_no_address_and_reports_nothing(soap, name):
    vm = soap.vm(name)
    give(soap, vm)
    assert boot(soap, vm) == []
    assert verdict(vm) is None


def test_without_its_vapp_options_cloud_init_reads_guestinfo(soap):
    vm = soap.vm("ovf")
    give(soap, vm)
    reconfigure(soap, vm, vAppConfigRemoved=True)
    assert vm.config.vAppConfig is None
    assert boot(soap, vm) == ["10.9.0.5"]


def test_a_clone_has_the_image_of_its_source(soap):
    source = soap.vm("none")
    spec = vim.vm.CloneSpec(location=vim.vm.RelocateSpec(), template=False, powerOn=False)
    vm = soap.wait(source.CloneVM_Task(source.parent, "copy", spec))
    give(soap, vm)
    assert boot(soap, vm) == []


@pytest.mark.parametrize(("name", "same"), [("rhel", True), ("bare", False)], ids=["copied", "clean"])
def test_clones_of_an_image_that_was_not_cleaned_have_one_machine_id(soap, name, same):
    lan = soap.find(vim.dvs.DistributedVirtualPortgroup, "lan")
    port = vim.dvs.PortConnection(switchUuid=lan.config.distributedVirtualSwitch.uuid, portgroupKey=lan.key)
    nic = DEV.VirtualVmxnet3(key=-1, backing=DEV.VirtualEthernetCard.DistributedVirtualPortBackingInfo(port=port))
    found = []
    for number, copy in enumerate(("c-1", "c-2")):
        source = soap.vm(name)
        config = vim.vm.ConfigSpec(deviceChange=[device_spec(nic)] if not cards(source) else [])
        spec = vim.vm.CloneSpec(location=vim.vm.RelocateSpec(), template=False, powerOn=False, config=config)
        vm = soap.wait(source.CloneVM_Task(source.parent, copy, spec))
        give(soap, vm, f"10.9.0.{number + 5}/24")
        boot(soap, vm)
        found.append(json.loads(settings_of(vm)["guestinfo.vsphere-ai.ready"])["machine"])
    assert (found[0] == found[1]) is same


def test_a_renderer_without_routing_rules_drops_them_silently(soap):
    vm = soap.vm("rhel")
    mac = give(soap, vm)
    assert boot(soap, vm) == ["10.9.0.5"]
    assert verdict(vm)[mac]["routing"] == "no rule from 10.9.0.5 lookup 101"


def clone(soap, name="trn-01"):
    source = soap.vm("good")
    pool = soap.find(vim.ClusterComputeResource, "a").resourcePool
    spec = vim.vm.CloneSpec(location=vim.vm.RelocateSpec(pool=pool), template=False, powerOn=False)
    return soap.wait(source.CloneVM_Task(source.parent, name, spec))


def test_a_guest_that_is_never_ready_comes_up_when_the_rule_is_released(soap):
    vm = clone(soap)
    mac = give(soap, vm)
    soap.lab.set_faults([{"on": "PowerOnVM_Task", "target": "trn-*", "nth": 1, "do": "guest-never-ready"}])
    soap.wait(vm.PowerOnVM_Task())
    time.sleep(0.4)  # four times as long as a boot takes
    assert not vm.guest.net
    assert verdict(vm) is None
    assert vm.guest.ipAddress is None
    soap.lab.post("/lab/faults/release", {"rule": 1})
    soap.until(lambda: vm.guest.net)
    assert verdict(vm)[mac]["addresses"] == {"10.9.0.5": "free"}


@pytest.mark.parametrize(
    ("fault", "shown", "addresses", "gateway"),
    [
        ("address-taken", [], "conflict 02:00:5e:00:53:01", "not probed: no address of its network is free"),
        ("gateway-silent", ["10.9.0.5"], "free", "silent"),
        ({"guest-address": "10.9.0.99"}, ["10.9.0.99"], "absent", "not probed: no address of its network is free"),
    ],
    ids=["taken", "silent", "another"],
)
def test_faults_of_the_network_are_in_the_guests_report(soap, fault, shown, addresses, gateway):
    vm = clone(soap)
    mac = give(soap, vm)
    soap.lab.set_faults([{"on": "PowerOnVM_Task", "nth": 1, "do": fault}])
    assert boot(soap, vm) == shown
    found = verdict(vm)[mac]
    assert (found["addresses"], found["gateways"]) == ({"10.9.0.5": addresses}, {"10.9.0.1": gateway})
    soap.wait(vm.PowerOffVM_Task())
    assert boot(soap, vm) == ["10.9.0.5"], "the next boot has no fault"
