"""Values of VMs of sets as observed: what keeps a VM from being used, and devices as their guest has them."""

from __future__ import annotations

import json

import pytest

from vsphere_ai.guests.ready import READY
from vsphere_ai.model.facts import About, Estate, Facts
from vsphere_ai.model.view import View
from vsphere_ai.model.vm_sets import Member, MemberMark, MemberNic, instance_uuid, planned_ref
from vsphere_ai.resources.makes_vms import WantedNic
from vsphere_ai.sets.vm_values import Unknown, VmOfSet, observed_value, refusal_of

UUID = instance_uuid("vcenter", "train", 1, 1)
MAC = "00:50:56:00:00:01"
NIC = MemberNic("rdma1", MAC, ("10.0.0.11/24", "fd00::11/64"))
CARD = {
    "_typeName": "VirtualVmxnet3Vrdma",
    "macAddress": MAC.upper(),
    "slotInfo": {"pciSlotNumber": 192},
    "backing": {"deviceName": "lan"},
}


def net(*addresses, mac=MAC, state="preferred"):
    shown = [
        {"ipAddress": a.partition("/")[0], "prefixLength": int(a.partition("/")[2]), "state": state} for a in addresses
    ]
    return {"macAddress": mac, "ipConfig": {"ipAddress": tuple(shown)}}


def vm(mark=None, type="pvrdma", **changed):
    """A member that is there, ready, with one NIC; and its estate."""
    mark = mark or MemberMark("train", 1, UUID, "play.yml", 1, (NIC,))
    ready = {"generation": 1, "not_probed": "no arping"}
    options = mark.settings() | {READY: changed.pop("ready", json.dumps(ready))}
    facts = {
        "name": "train-01",
        "moid": "vm-7",
        "config.extraConfig": tuple({"key": k, "value": v} for k, v in options.items()),
        "config.instanceUuid": UUID,
        "config.hardware.device": (CARD,),
        "guest.net": (net(*NIC.addresses, "fe80::1/64"),),
        "runtime.powerState": "poweredOn",
        **{key.replace("_", "."): value for key, value in changed.items()},
    }
    ref = planned_ref(UUID)
    member = Member("train", 1, ref, "train-01", UUID, exists=True, nics=mark.nics)
    estate = Estate(About("vc", "7.0.2", "1", "7.0.2.0", "instance"), {ref: Facts(ref, facts)})
    return VmOfSet(
        member, 0, {"rdma1": WantedNic("rdma1", "lan", type, ("rail1",) if mark.nics[0].addresses else ())}
    ), estate


@pytest.mark.parametrize(
    ("changed", "rule"),
    [
        ({}, None),
        ({"runtime_powerState": "poweredOff"}, "output.off"),
        ({"config_instanceUuid": "another"}, "output.no-mark"),
        ({"ready": "{}"}, "output.not-ready"),
        ({"ready": json.dumps({"generation": 2, "not_probed": "x"})}, "output.not-ready"),
        ({"config_hardware_device": ()}, "output.no-nic"),
        ({"guest_net": ()}, "output.address"),
        ({"guest_net": (net("10.0.0.12/24", "fd00::11/64"),)}, "output.address"),
        ({"guest_net": (net("10.0.0.11/24"),)}, "output.address"),
        ({"guest_net": (net(*NIC.addresses, mac="00:50:56:00:00:02"),)}, "output.address"),
        ({"guest_net": (net(*NIC.addresses, state="duplicate"),)}, "output.address"),
        ({"mark": MemberMark("train", 1, UUID, "p", 1, (MemberNic("mgmt", MAC),))}, "output.stale"),
    ],
)
def test_what_keeps_a_vm_from_being_used(changed, rule):
    member, estate = vm(**changed)
    found = refusal_of(member, ("rdma1",), estate)
    assert (found.rule if found else None) == rule


def test_a_nic_that_is_not_asked_for_is_not_judged():
    member, estate = vm(guest_net=())
    assert refusal_of(member, (), estate) is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("mac", MAC),
        ("address", "10.0.0.11"),
        ("prefix", 24),
        ("address6", "fd00::11"),
        ("prefix6", 64),
        ("port_group", "lan"),
        ("pci", "0000:0b:00.0"),
        ("rdma_device", "roces192f1"),
    ],
)
def test_values_of_a_nic(field, value):
    member, estate = vm()
    assert observed_value(member, ("nics", "rdma1", field), View(estate)) == value


@pytest.mark.parametrize(
    ("field", "changed"),
    [
        ("gateway", {}),
        ("mtu", {}),
        ("rail", {}),
        ("rdma_device", {"type": "sriov"}),
        ("pci", {"config_hardware_device": ({**CARD, "slotInfo": None},)}),
    ],
)
def test_what_is_not_known_has_a_reason(field, changed):
    member, estate = vm(**changed)
    found = observed_value(member, ("nics", "rdma1", field), View(estate))
    assert isinstance(found, Unknown)
    assert found.reason


def test_an_address_of_dhcp_is_what_the_guest_reports():
    mark = MemberMark("train", 1, UUID, "p", 1, (MemberNic("rdma1", MAC),))
    member, estate = vm(mark, guest_net=(net("fe80::1/64", "192.168.7.9/20"),))
    view = View(estate)
    assert observed_value(member, ("nics", "rdma1", "address"), view) == "192.168.7.9"
    assert observed_value(member, ("nics", "rdma1", "prefix"), view) == 20
