"""Guests with cloud-init: a clone that carries its identity and network comes up with them."""

import base64
import gzip
import json

import pytest
from pyVmomi import vim
from support.farm import option, reconfigure

ID = "50000000-1111-4222-8333-444444444444"


def encoded(data) -> str:
    text = data if isinstance(data, str) else json.dumps(data)
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def clone(soap, name="new-01", settings=(), **config):
    source = soap.vm("train-04")
    options = [option(key, value) for key, value in dict(settings).items()]
    spec = vim.vm.CloneSpec(
        location=vim.vm.RelocateSpec(), config=vim.vm.ConfigSpec(extraConfig=options, **config), powerOn=False
    )
    return soap.wait(source.CloneVM_Task(source.parent, name, spec))


def given(mac, **more):
    network = {
        "version": 2,
        "ethernets": {"mgmt": {"match": {"macaddress": mac}, "addresses": ["10.9.0.5/24", "fd00::5/64"], "routes": []}},
    }
    words = {"runcmd": [["vmware-rpctool", "info-set guestinfo.done 7"]]}
    return {
        "guestinfo.metadata": encoded({"local-hostname": "trn-01", "network": network, **more}),
        "guestinfo.metadata.encoding": "gzip+base64",
        "guestinfo.userdata": encoded("#cloud-config\n" + json.dumps(words)),
        "guestinfo.userdata.encoding": "gzip+base64",
    }


def cards(vm):
    return [d for d in vm.config.hardware.device if isinstance(d, vim.vm.device.VirtualEthernetCard)]


def settings_of(vm):
    return {o.key: o.value for o in vm.config.extraConfig}


def up(soap, vm):
    soap.wait(vm.PowerOn())
    soap.until(lambda: vm.guest.net)
    return vm.guest


def test_a_clone_has_the_identity_that_is_asked_for_and_its_sources_settings(soap):
    reconfigure(soap, soap.vm("train-04"), extraConfig=[option("owner", "a-team")])
    vm = clone(soap, instanceUuid=ID, settings={"mark": "1"})
    assert vm.config.instanceUuid == ID
    assert settings_of(vm) == {"owner": "a-team", "mark": "1"}, "a clone takes its source's settings with it"
    found = soap.content.searchIndex.FindByUuid(None, ID, True, True)
    assert found._moId == vm._moId


def test_an_identity_that_another_vm_has_is_not_given_twice(soap):
    taken = soap.vm("train-01").config.instanceUuid
    vm = clone(soap, instanceUuid=taken)
    assert vm.config.instanceUuid not in (taken, "")


def test_a_guest_comes_up_with_the_network_that_it_was_given_by_mac(soap):
    vm = clone(soap)
    mac = cards(vm)[0].macAddress
    reconfigure(soap, vm, extraConfig=[option(k, v) for k, v in given(mac.upper()).items()])
    guest = up(soap, vm)
    assert (guest.hostName, guest.ipAddress) == ("trn-01", "10.9.0.5")
    (nic,) = guest.net
    assert (nic.macAddress, nic.connected, nic.deviceConfigId) == (mac, True, cards(vm)[0].key)
    found = [(a.ipAddress, a.prefixLength, a.origin) for a in nic.ipConfig.ipAddress]
    assert found[:2] == [("10.9.0.5", 24, "manual"), ("fd00::5", 64, "manual")]
    assert found[2][0].startswith("fe80::")
    assert found[2][2] == "linklayer"


def test_a_guest_shows_no_address_while_it_boots(soap):
    vm = clone(soap, settings=given("00:50:56:00:00:99"))
    soap.wait(vm.PowerOn())
    booting = vm.guest
    assert booting.net or (booting.ipAddress, booting.hostName) == (None, None)


@pytest.mark.parametrize(
    "ethernets",
    [
        [],
        {"mgmt": []},
        {"mgmt": {"match": "x"}},
        {"mgmt": {"addresses": "x"}},
        {"mgmt": {"addresses": ["10.0.0.300/24"]}},
    ],
    ids=["a list", "no entry", "no match", "no addresses", "no address"],
)
def test_a_network_that_no_guest_understands_gives_it_no_address(soap, ethernets):
    vm = clone(soap)
    mac = cards(vm)[0].macAddress
    if isinstance(ethernets, dict) and isinstance(ethernets["mgmt"], dict):
        ethernets["mgmt"].setdefault("match", {"macaddress": mac})
    settings = {"guestinfo.metadata": json.dumps({"network": {"version": 2, "ethernets": ethernets}})}
    reconfigure(soap, vm, extraConfig=[option(k, v) for k, v in settings.items()])
    (nic,) = up(soap, vm).net
    assert [a.origin for a in nic.ipConfig.ipAddress] == ["linklayer"]


def test_a_nic_that_nothing_describes_has_no_address_of_its_own(soap):
    vm = clone(soap, settings=given("00:50:56:00:00:99"))
    (nic,) = up(soap, vm).net
    assert [a.origin for a in nic.ipConfig.ipAddress] == ["linklayer"]


def test_what_the_user_data_say_at_the_end_is_written_and_they_are_redacted(soap):
    vm = clone(soap, settings=given("00:50:56:00:00:99", redact=["userdata"]))
    up(soap, vm)
    found = settings_of(vm)
    assert found["guestinfo.done"] == "7"
    assert found["guestinfo.userdata"] == "---"
    assert "guestinfo.userdata.encoding" not in found
    assert found["guestinfo.metadata"]


@pytest.mark.parametrize(
    "value",
    ["not base64!", base64.b64encode(b"no gzip").decode(), encoded("- a list")],
    ids=["no base64", "no gzip", "no mapping"],
)
def test_metadata_that_no_guest_can_read_give_it_no_address(soap, value):
    settings = {"guestinfo.metadata": value, "guestinfo.metadata.encoding": "gzip+base64"}
    vm = clone(soap, settings=settings)
    (nic,) = up(soap, vm).net
    assert [a.origin for a in nic.ipConfig.ipAddress] == ["linklayer"]


def test_a_guest_that_was_given_nothing_reports_as_before(soap):
    vm = clone(soap)
    soap.wait(vm.PowerOn())
    assert vm.guest.ipAddress.startswith("10.20.")
    assert not vm.guest.net


def test_a_network_below_a_config_of_its_own_is_not_understood(soap):
    """cloud-init adds that level itself (DataSourceVMware.process_metadata), and then finds no version."""
    vm = clone(soap)
    ethernets = {"mgmt": {"match": {"macaddress": cards(vm)[0].macAddress}, "addresses": ["10.9.0.5/24"]}}
    metadata = {"network": {"config": {"version": 2, "ethernets": ethernets}}}
    reconfigure(soap, vm, extraConfig=[option("guestinfo.metadata", json.dumps(metadata))])
    (nic,) = up(soap, vm).net
    assert [a.origin for a in nic.ipConfig.ipAddress] == ["linklayer"]


def ready(soap, name, address="10.9.0.5/24"):
    """A clone with the files of the last command; what its guest reports."""
    vm = clone(soap, name)
    mac = cards(vm)[0].macAddress
    nics = [{"name": "rail1", "mac": mac, "table": 101, "addresses": [address], "gateways": ["10.9.0.1"]}]
    ethernet = {"match": {"macaddress": mac}, "mtu": 9000, "addresses": [address]}
    ethernet["routing-policy"] = [{"from": f"{address.partition('/')[0]}/32", "table": 101, "priority": 2101}]
    metadata = {"network": {"version": 2, "ethernets": {"rail1": ethernet}}}
    userdata = {
        "write_files": [{"path": "/x/nics.json", "content": json.dumps({"generation": 4, "nics": nics})}],
        "runcmd": [["sh", "/x/ready.sh"]],
    }
    settings = {"guestinfo.metadata": json.dumps(metadata), "guestinfo.userdata": json.dumps(userdata)}
    reconfigure(soap, vm, extraConfig=[option(k, v) for k, v in settings.items()])
    up(soap, vm)
    found = json.loads(settings_of(vm)["guestinfo.vsphere-ai.ready"])
    assert found["generation"] == 4
    return vm, mac, found["nics"][mac]


def test_the_last_command_reports_free_addresses_and_gateways_that_answer(soap):
    _, _, found = ready(soap, "new-01")
    assert found["addresses"] == {"10.9.0.5": "free"}
    assert found["gateways"]["10.9.0.1"].startswith("answered ")
    assert (found["name"], found["mtu"], found["routing"]) == ("rail1", 9000, "table 101")


def test_an_address_that_another_vm_has_is_a_conflict_with_its_nic(soap):
    _, first, _ = ready(soap, "new-01")
    second, _, found = ready(soap, "new-02")
    assert found["addresses"] == {"10.9.0.5": f"conflict {first}"}
    assert found["gateways"]["10.9.0.1"].startswith("not probed: ")
    assert "10.9.0.5" not in [a.ipAddress for a in second.guest.net[0].ipConfig.ipAddress], "it is taken off"


@pytest.mark.parametrize(("permissions", "again"), [("0755", True), ("0644", False)], ids=["script", "not executable"])
def test_what_a_guest_said_may_be_lost_and_a_script_for_each_boot_says_it_again(soap, permissions, again):
    vm = clone(soap, "new-01")
    mac = cards(vm)[0].macAddress
    nics = [{"name": "rail1", "mac": mac, "table": None, "addresses": ["10.9.0.5/24"], "gateways": []}]
    files = [
        {"path": "/x/nics.json", "content": json.dumps({"generation": 4, "nics": nics})},
        {"path": "/x/ready.sh", "content": "#!/bin/sh"},
        {
            "path": "/var/lib/cloud/scripts/per-boot/ready.sh",
            "content": "#!/bin/sh\nexec sh /x/ready.sh\n",
            "permissions": permissions,
        },
    ]
    userdata = {"write_files": files, "runcmd": [["vmware-rpctool", "info-set guestinfo.done 7"]]}
    ethernets = {"rail1": {"match": {"macaddress": mac}, "addresses": ["10.9.0.5/24"]}}
    metadata = {"instance-id": "i-1", "redact": ["userdata"], "network": {"version": 2, "ethernets": ethernets}}
    settings = {"guestinfo.metadata": json.dumps(metadata), "guestinfo.userdata": json.dumps(userdata)}
    reconfigure(soap, vm, extraConfig=[option(k, v) for k, v in settings.items()])
    up(soap, vm)
    first = settings_of(vm)
    assert ("guestinfo.vsphere-ai.ready" in first) is again
    assert (first["guestinfo.done"], first["guestinfo.userdata"]) == ("7", "---")

    soap.lab.set_faults([{"on": "PowerOnVM_Task", "nth": 1, "do": "guestinfo-lost"}])
    soap.wait(vm.PowerOffVM_Task())
    soap.wait(vm.PowerOn())
    soap.until(lambda: settings_of(vm)["guestinfo.userdata"] == "---")  # it was back, and is redacted again
    found = settings_of(vm)
    assert ("guestinfo.vsphere-ai.ready" in found) is again
    assert "guestinfo.done" not in found, "commands of an instance run once"
