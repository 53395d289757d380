"""LinuxPrep: the specification as the API takes it, and what it cannot give."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyVmomi import vim

from vsphere_ai.connect.wire.plain import to_plain, to_vim
from vsphere_ai.guests.cloud_init import Guest, User, extra_config
from vsphere_ai.guests.customization import Card, customization_problems, linux_prep
from vsphere_ai.guests.netplan import GuestNic, NetplanRoute
from vsphere_ai.model.state import Target

OLDEST = "vim.version.v7_0_2_0"
VM = Target("vm", "trn-01", "VirtualMachine:vm-1")
MGMT, DATA, RAIL = "00:50:56:00:00:01", "00:50:56:00:00:02", "00:50:56:00:00:03"
NICS = (
    GuestNic(
        "mgmt",
        MGMT,
        ("10.0.0.11/24", "fd00::11/64"),
        gateways=("10.0.0.1", "fd00::1"),
        primary=True,
        nameservers=("10.0.0.53",),
        search=("ai.example",),
    ),
    GuestNic("data", DATA, ("10.1.0.11/16", "fd01::11/64"), nameservers=("10.0.0.53", "10.0.0.54")),
    GuestNic("rail1", RAIL, ("172.16.1.11/24",), mtu=1500),
)
GUEST = Guest("trn-01", "id", NICS)
CARDS = (Card(MGMT, 4000, 192), Card(DATA, 4001, 224), Card(RAIL.upper(), 4002, 160))


def rules(guest=GUEST, cards=CARDS, settings=None, api=(7, 0, 2, 0)):
    return [problem.rule for problem in customization_problems(VM, guest, cards, settings or {}, api)]


def test_the_api_takes_the_specification():
    found = to_vim(linux_prep(GUEST, CARDS), vim.vm.customization.Specification, OLDEST)
    assert isinstance(found, vim.vm.customization.Specification)
    assert isinstance(found.identity, vim.vm.customization.LinuxPrep)
    assert (found.identity.hostName.name, found.identity.domain) == ("trn-01", "ai.example")
    assert list(found.globalIPSettings.dnsServerList) == ["10.0.0.53", "10.0.0.54"]
    assert list(found.globalIPSettings.dnsSuffixList) == ["ai.example"]
    assert to_plain(found)["_typeName"] == "CustomizationSpec"


def test_each_adapter_has_one_mapping_in_the_order_of_pci_slots():
    first, second, third = to_vim(linux_prep(GUEST, CARDS), vim.vm.customization.Specification, OLDEST).nicSettingMap
    assert [each.macAddress for each in (first, second, third)] == [RAIL, MGMT, DATA]
    assert (second.adapter.ip.ipAddress, second.adapter.subnetMask) == ("10.0.0.11", "255.255.255.0")
    assert list(second.adapter.gateway) == ["10.0.0.1"]
    (six,) = second.adapter.ipV6Spec.ip
    assert (six.ipAddress, six.subnetMask) == ("fd00::11", 64)
    assert list(second.adapter.ipV6Spec.gateway) == ["fd00::1"]
    assert third.adapter.subnetMask == "255.255.0.0"
    assert not third.adapter.gateway
    assert not third.adapter.ipV6Spec.gateway
    assert first.adapter.ipV6Spec is None


def test_unknown_slots_are_in_the_order_of_device_keys_where_the_api_takes_any():
    cards = (Card(DATA, 4001), Card(RAIL, 4002), Card(MGMT, 4000))
    found = linux_prep(GUEST, cards)
    assert [each["macAddress"] for each in found["nicSettingMap"]] == [MGMT, DATA, RAIL]
    assert rules(cards=cards, api=(8, 0, 0, 1)) == []
    assert rules(cards=cards) == ["customization.slots"]
    assert rules(replace(GUEST, nics=NICS[:1]), cards[2:]) == [], "one adapter has no order"


def test_a_nic_with_dhcp_has_no_address_and_no_gateway_of_its_own():
    nics = (NICS[0], GuestNic("dhcp", DATA, dhcp=True))
    guest = replace(GUEST, nics=nics)
    assert rules(guest, CARDS[:2]) == []
    found = to_vim(linux_prep(guest, CARDS[:2]), vim.vm.customization.Specification, OLDEST).nicSettingMap[1]
    assert isinstance(found.adapter.ip, vim.vm.customization.DhcpIpGenerator)
    assert not found.adapter.subnetMask


def test_a_guest_without_a_domain_has_one_because_the_api_wants_it():
    nics = (replace(NICS[0], search=(), nameservers=()),)
    assert linux_prep(replace(GUEST, nics=nics), CARDS[:1])["identity"]["domain"] == "localdomain"


@pytest.mark.parametrize(
    "cards",
    [CARDS[:2], (*CARDS, Card("00:50:56:00:00:04", 4003)), (*CARDS, CARDS[0]), (*CARDS[:2], Card(DATA, 4002))],
)
def test_another_number_of_mappings_than_adapters_cannot_be_made(cards):
    with pytest.raises(ValueError, match="adapters"):
        linux_prep(GUEST, cards)


def nics(**changes):
    return replace(GUEST, nics=(*NICS[:2], replace(NICS[2], **changes)))


@pytest.mark.parametrize(
    ("guest", "rule"),
    [
        (nics(gateways=("172.16.1.1",)), "customization.policy-routing"),
        (nics(routes=(NetplanRoute("172.16.0.0/16", "172.16.1.1"),)), "customization.routes"),
        (nics(mtu=9000), "customization.mtu"),
        (nics(addresses=("fd02::11/64",)), "customization.ipv4"),
        (nics(addresses=()), "customization.ipv4"),
        (nics(addresses=("172.16.1.11/24", "172.16.1.12/24")), "customization.ipv4"),
        (nics(addresses=("172.16.1.300/24",)), "guest.address"),
        (replace(GUEST, hostname="TRN_01"), "guest.hostname"),
    ],
)
def test_what_linuxprep_cannot_give_is_a_problem(guest, rule):
    assert rules(guest) == [rule]
    assert rules() == []


def test_users_are_a_problem():
    user = User("ops", ("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGtra2tra2tra2tra2tra2tra2tra2tra2tra2tra2trawAA",))
    assert "customization.users" in rules(replace(GUEST, users=(user,)))


def test_it_is_never_mixed_with_guestinfo():
    assert rules(settings=extra_config(GUEST)) == ["customization.guestinfo"]
    assert rules(settings={"guestinfo.userdata": "x"}) == ["customization.guestinfo"]
    assert rules(settings={"guestinfo.other": "x"}) == []


@pytest.mark.parametrize("cards", [CARDS[:2], (*CARDS, Card("00:50:56:00:00:04", 4003, 256))])
def test_adapters_without_settings_and_nics_without_an_adapter_are_problems(cards):
    assert rules(cards=cards) == ["customization.nics"]
