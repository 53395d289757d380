"""MAC addresses of new members: whose they are already, by what is known without a further read."""

from __future__ import annotations

import pytest

from vsphere_ai.addresses.holding import AddressLedger, HeldRange, Holding, NicHolding
from vsphere_ai.model.facts import About, Estate, Facts
from vsphere_ai.model.names.networks import address_range
from vsphere_ai.model.vm_sets import Member, MemberNic, mac_address
from vsphere_ai.sets.mac_clashes import mac_faults
from vsphere_ai.sets.set_plays import MembersFound, SetPlay

MAC = mac_address("vc", "train", 1, "mgmt")
KEY = ("train", 1, "mgmt")


def faults(*vms, ledger=None, nics=None, real=None, **member):
    made = Member("train", 1, "VirtualMachine:new", "train-01", "uuid", **member)
    found = MembersFound(SetPlay.__new__(SetPlay), (made,), real or {})
    estate = Estate(About("vCenter", "7.0.2", "1", "7.0.2.0", "vc"), {f.ref: f for f in vms})
    return list(mac_faults(nics or {KEY: MemberNic("mgmt", MAC)}, [found], estate, ledger or AddressLedger()))


def vm(**properties):
    return Facts("VirtualMachine:vm-9", {"name": "other", **{k.replace("__", "."): v for k, v in properties.items()}})


@pytest.mark.parametrize(
    "known",
    [
        {"guest__net": ({"macAddress": MAC.upper()},)},
        {"config__hardware__device": ({"macAddress": MAC},)},
    ],
)
def test_a_vm_that_reports_or_has_the_address_is_named(known):
    ((key, fault),) = faults(vm(**known))
    assert key == ("train", 1)
    assert fault.rule == "mac-taken"
    assert "VM other" in fault.message


def test_other_addresses_and_vms_that_are_there_are_no_matter():
    assert faults(vm(guest__net=({"macAddress": "00:50:56:00:00:01"}, {}))) == []
    taken = vm(guest__net=({"macAddress": MAC},))
    assert faults(taken, exists=True) == []
    assert faults(taken, real={"VirtualMachine:new": "VirtualMachine:vm-9"}) == []


def test_sets_whose_addresses_are_held_are_asked_by_their_names():
    """Two names of sets with the same address for a NIC, found by trying."""
    first: dict[str, tuple[str, int]] = {}
    for name in ("a", "b"):
        for index in range(1, 4000):
            mac = mac_address("vc", name, index, "n")
            if mac in first and first[mac][0] != name:
                break
            first[mac] = (name, index)
        else:
            continue
        break
    other, at = first[mac]
    held = (HeldRange("p", address_range("10.0.0.1-10.0.20.0")),)
    ledger = AddressLedger({NicHolding(other, "n", 4): Holding(held)})
    made = Member(name, index, "VirtualMachine:new", "x", "uuid")
    found = MembersFound(SetPlay.__new__(SetPlay), (made,))
    estate = Estate(About("vCenter", "7.0.2", "1", "7.0.2.0", "vc"), {})
    ((key, fault),) = mac_faults({(name, index, "n"): MemberNic("n", mac)}, [found], estate, ledger)
    assert key == (name, index)
    assert f"number {at} of the set {other}" in fault.message
