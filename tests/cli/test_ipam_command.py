"""`vsphere-ai ipam` on the lab: leases are shown, checked, reserved, released and reclaimed."""

from __future__ import annotations

import json
from ipaddress import ip_network

import pytest
from click.testing import CliRunner
from pyVmomi import vim
from support.farm import option, reconfigure

from vsphere_ai.addresses.leasing import lease
from vsphere_ai.addresses.ledger_text import ledger_text, read_ledger
from vsphere_ai.addresses.request import NicRequest, PoolSettings, SetRequest
from vsphere_ai.app.estate.scope import EstateRequest
from vsphere_ai.app.estate.session import session_of
from vsphere_ai.cli.look.ipam import command
from vsphere_ai.connect.address_ledger import read_text, write_text
from vsphere_ai.language.inventories.inventory import load_inventory
from vsphere_ai.model.vm_sets import MemberMark
from vsphere_ai.runs import locks

INVENTORY = """\
lab: true
pools:
  mgmt: {subnet: 10.0.0.0/24, ranges: [10.0.0.10-10.0.0.29], gateway: 10.0.0.1, default: true, quarantine: 0}
  rail: {subnet: 172.16.1.0/24, per_node: 27, node_gateway: 1}
reserved_addresses: [10.0.0.29]
"""


@pytest.fixture
def inventory(lab, tmp_path):
    path = tmp_path / "pools.yml"
    path.write_text(INVENTORY, encoding="utf-8")
    return path


@pytest.fixture
def ipam(inventory):
    def run(*words, code=0):
        done = CliRunner().invoke(command, [*words, "-i", str(inventory)], standalone_mode=False)
        found = done.return_value if done.exception is None else getattr(done.exception, "exit_code", done.exception)
        assert (found or 0) == code, (done.output, done.exception)
        return done

    return run


@pytest.fixture
def document(ipam):
    def run(*words, code=0):
        return json.loads(ipam(*words, "-o", "json", code=code).stdout)

    return run


@pytest.fixture
def session(inventory):
    with session_of(load_inventory(inventory), None, EstateRequest()) as opened:
        yield opened


def give(session, count, *nics, name="trn"):
    """Let a set hold addresses, as a run does."""
    terms = PoolSettings(session.scope.inventory.pools, 0, session.scope.inventory.reserved)
    with locks.hold(session.connection.vcenter, "a run", mode="vcenter", lost=lambda why: None) as hold:
        stored = read_text(session.connection.vcenter)
        request = SetRequest(name, count, nics or (NicRequest("mgmt"),))
        found = lease(read_ledger(stored.text), terms, [request])
        assert not found.problems
        write_text(hold.lock, stored, ledger_text(found.ledger))


def mark(soap, name, index, set_name="trn", uuid=None):
    """Make a VM of the farm a member of a set."""
    vm = soap.vm(name)
    own = MemberMark(set_name, index, uuid or vm.config.instanceUuid).settings()
    reconfigure(soap, vm, extraConfig=[option(key, value) for key, value in own.items()])
    return vm


def states(found):
    return [each["state"] for each in found["leases"]]


def rules(rule, found):
    """The subjects of findings of a rule."""
    return [each["target"] for each in found["findings"] if each["rule"] == rule]


def test_leases_are_shown_by_set_pool_and_address(session, document, ipam):
    give(session, 2, NicRequest("mgmt"), NicRequest("rail1", ("rail",)))
    found = document("show")
    assert [(e["index"], e["nic"], e["address"], e["gateway"]) for e in found["leases"]] == [
        (1, "mgmt", "10.0.0.10", "10.0.0.1"),
        (2, "mgmt", "10.0.0.11", "10.0.0.1"),
        (1, "rail1", "172.16.1.2", "172.16.1.1"),
        (2, "rail1", "172.16.1.34", "172.16.1.33"),
    ]
    use = {each["name"]: (each["usable"], each["held"], each["free"]) for each in found["pools"]}
    assert use == {"mgmt": (19, 2, 17), "rail": (8, 2, 6)}
    assert len(document("show", "trn")["leases"]) == 4
    assert [e["nic"] for e in document("show", "rail")["leases"]] == ["rail1", "rail1"]
    assert [e["index"] for e in document("show", "172.16.1.60")["leases"]] == [2]
    assert "172.16.1.34/27" in ipam("show", "trn").stdout
    ipam("show", "nothing", code=64)


def test_a_vm_that_is_there_has_its_lease_and_a_vm_that_is_gone_is_a_leak(session, document, soap):
    give(session, 2)
    mark(soap, "train-04", 1)
    assert states(document("verify", code=2)) == ["in use", "leaked"]
    mark(soap, "train-01", 2)
    assert states(document("verify")) in (["in use", "in use"], ["in use", "not reported"])


def test_a_clone_with_a_copied_mark_is_not_the_owner(session, document, soap):
    give(session, 1)
    mark(soap, "train-04", 1, uuid="the uuid of another one")
    assert states(document("verify", code=2)) == ["leaked"]


def test_a_vmkernel_adapter_with_a_leased_address_is_a_conflict_that_names_it(inventory, document, soap):
    taken = soap.host("esx01").config.network.vnic[0].spec.ip.ipAddress
    subnet = ip_network(f"{taken}/24", strict=False)
    inventory.write_text(f"lab: true\npools:\n  a: {{subnet: {subnet}, ranges: ['{taken}'], default: true}}\n", "utf-8")
    with session_of(load_inventory(inventory), None, EstateRequest()) as session:
        give(session, 1)
    (each,) = document("verify", code=2)["leases"]
    assert (each["address"], each["state"]) == (taken, "conflict")
    assert "esx01" in each["why"]


def test_an_ip_pool_of_vcenter_with_leased_addresses_is_a_conflict(session, document, soap):
    give(session, 1)
    config = vim.vApp.IpPool.IpPoolConfigInfo(subnetAddress="10.0.0.0", ipPoolEnabled=True, range="10.0.0.5#10")
    pool = vim.vApp.IpPool(name="vapps", ipv4Config=config)
    soap.content.ipPoolManager.CreateIpPool(dc=soap.find(vim.Datacenter, "DC0"), pool=pool)
    found = document("verify", code=2)
    assert "vapps" in found["leases"][0]["why"]
    assert [each["part"] for each in rules("ipam.conflict", found)] == ["10.0.0.10"]


def test_an_edit_of_a_pool_under_its_leases_is_reported(session, document, inventory):
    give(session, 2)
    inventory.write_text(INVENTORY.replace("10.0.0.10-10.0.0.29", "10.0.0.11-10.0.0.29"), encoding="utf-8")
    (stray,) = rules("ipam.out-of-range", document("verify", code=2))
    assert (stray["name"], stray["part"]) == ("trn/mgmt", "10.0.0.10-10.0.0.11")
    assert document("show")["pools"][0]["out_of_range"] == 2


def test_a_reservation_keeps_addresses_from_sets_until_it_is_released(session, document, ipam):
    assert document("reserve", "10.0.0.10-10.0.0.11", "--for", "printers", "--yes")["changed"]
    give(session, 1)
    assert [e["address"] for e in document("show")["leases"]] == ["10.0.0.12"]
    assert document("show")["reservations"] == [
        {"pool": "mgmt", "addresses": "10.0.0.10-10.0.0.11", "note": "printers"},
    ]
    document("release", "10.0.0.10", "--yes")
    assert [e["addresses"] for e in document("show")["reservations"]] == ["10.0.0.11"]
    ipam("release", "10.0.0.10", "--yes", code=1)
    give(session, 2)
    assert [e["address"] for e in document("show")["leases"]] == ["10.0.0.12", "10.0.0.13"]


@pytest.mark.parametrize(
    "addresses", ["10.0.0.9-10.0.0.10", "10.0.0.29", "10.0.0.1", "192.168.0.1", "10.0.0.12", "fd00::1"]
)
def test_what_no_pool_gives_or_a_set_holds_is_not_reserved(addresses, session, ipam, document):
    give(session, 3)
    ipam("reserve", addresses, "--for", "printers", "--yes", code=1)
    assert document("show")["reservations"] == []


@pytest.mark.parametrize(
    "words",
    [
        ("reserve", "10.0.0.x", "--for", "a", "--yes"),
        ("release", "--yes"),
        ("release", "10.0.0.10", "--set", "a", "--yes"),
    ],
)
def test_what_cannot_be_understood_is_a_usage_error(words, ipam):
    ipam(*words, code=64)


def test_nothing_is_changed_without_a_yes(session, ipam, document, lab):
    give(session, 1)
    before = len(lab.get("/lab/ledger")["entries"])
    for words in (
        ("reserve", "10.0.0.20", "--for", "a"),
        ("release", "--set", "trn"),
        ("reclaim", "--grace", "0", "--vms", "1"),
    ):
        ipam(*words, code=64)  # there is no terminal to ask on
    calls = [e["call"] for e in lab.get("/lab/ledger")["entries"][before:]]
    assert "SetField" not in calls
    assert len(document("show")["leases"]) == 1


def test_leases_of_a_set_are_released_by_hand_only_when_its_vms_are_gone(session, ipam, document, soap):
    give(session, 3)
    mark(soap, "train-04", 1)
    ipam("release", "--set", "trn", "--yes", code=1)
    ipam("release", "--set", "none", "--yes", code=1)
    document("release", "--set", "trn", "--keep", "1", "--yes")
    assert [e["index"] for e in document("show")["leases"]] == [1]


RECLAIM = ("reclaim", "--grace", "0", "--yes")


def test_a_leak_is_reclaimed_and_what_a_vm_has_is_not(session, document, ipam, soap):
    give(session, 3)
    mark(soap, "train-04", 1)
    ipam(*RECLAIM, code=1)  # how many VMs there are is not known
    seen = document("verify", code=2)["vms"]
    ipam(*RECLAIM, "--vms", str(seen + 1), code=1)
    found = document(*RECLAIM, "--vms", str(seen))
    assert [e["index"] for e in found["reclaimed"]] == [2, 3]
    assert found["changed"]
    assert [e["index"] for e in document("show")["leases"]] == [1]
    assert document(*RECLAIM)["reclaimed"] == []
    give(session, 2)
    assert [e["address"] for e in document("show")["leases"]] == ["10.0.0.10", "10.0.0.11"]
    assert document(*RECLAIM)["changed"]  # it has noted how many VMs there were


def test_a_lease_whose_vm_may_run_on_a_host_that_is_not_connected_is_unsafe(session, document, soap):
    give(session, 1)
    host = soap.host("esx02")
    soap.lab.post("/lab/faults", {"rules": [{"on": "RebootHost_Task", "do": "host-never-returns"}]})
    soap.wait(host.RebootHost_Task(force=True))
    soap.until(lambda: host.runtime.connectionState == "notResponding")
    assert states(document("verify", code=1)) == ["unsafe"]
    found = document(*RECLAIM, "--vms", "1")
    assert (found["changed"], states({"leases": found["left"]})) == (False, ["unsafe"])
    assert len(document("show")["leases"]) == 1


def test_a_vm_that_comes_between_the_reads_keeps_its_lease(session, document, soap, monkeypatch):
    give(session, 1)
    monkeypatch.setattr("vsphere_ai.app.vms.address_reclaim._wait", lambda *_: mark(soap, "train-04", 1))
    found = document(*RECLAIM, "--vms", "1")
    assert (found["changed"], found["reclaimed"]) == (False, [])


def test_a_vm_that_goes_out_of_sight_between_the_reads_stops_it(session, ipam, document, soap, monkeypatch):
    give(session, 1)

    def vanish(*_):
        vm = soap.vm("train-04")
        if vm.runtime.powerState == "poweredOn":
            soap.wait(vm.PowerOff())
        vm.UnregisterVM()

    monkeypatch.setattr("vsphere_ai.app.vms.address_reclaim._wait", vanish)
    ipam(*RECLAIM, "--vms", "1", code=1)
    assert len(document("show")["leases"]) == 1


def test_a_run_that_works_on_the_vcenter_keeps_others_from_the_leases(session, ipam):
    with locks.hold(session.connection.vcenter, "a run", mode="vcenter", lost=lambda why: None):
        ipam("reserve", "10.0.0.20", "--for", "a", "--yes", code=7)


def test_an_account_without_sight_of_the_root_folder_reclaims_nothing(make_lab, quick_scenario, tmp_path, monkeypatch):
    lab = make_lab(quick_scenario.read_text("utf-8") + "\nprivileges_denied: [System.Read]\n")
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    path = tmp_path / "pools.yml"
    path.write_text(INVENTORY, encoding="utf-8")
    done = CliRunner().invoke(command, [*RECLAIM, "-i", str(path)], standalone_mode=False)
    assert getattr(done.exception, "rule", "") == "addresses.no-view"
