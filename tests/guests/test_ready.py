"""The ready key: what a guest reports is read strictly, and what blocks its use is a problem."""

from __future__ import annotations

import json
from copy import deepcopy

import pytest

from vsphere_ai.guests.netplan import GuestNic
from vsphere_ai.guests.ready import ProbeAnswer, machine_problems, ready_problems, unprobed, verdict
from vsphere_ai.model.state import Target

VM = Target("vm", "trn-01", "VirtualMachine:vm-1")
MGMT, RAIL, OTHER = "00:50:56:00:00:01", "00:50:56:00:00:02", "00:50:56:00:00:99"
NICS = (
    GuestNic("mgmt", MGMT, ("10.0.0.11/24", "fd00:0::11/64"), gateways=("10.0.0.1",), primary=True),
    GuestNic("rail1", RAIL, ("172.16.1.11/24",), mtu=9000),
)
GOOD = {
    "generation": 3,
    "nics": {
        MGMT: {
            "name": "mgmt",
            "mtu": 1500,
            "addresses": {"10.0.0.11": "free", "fd00::11": "free"},
            "gateways": {"10.0.0.1": f"answered {OTHER}"},
            "routing": "main",
        },
        RAIL: {
            "name": "rail1",
            "mtu": 9000,
            "addresses": {"172.16.1.11": "free"},
            "gateways": {},
            "routing": "table 101",
        },
    },
}


def rules(found, generation=3):
    return [problem.rule for problem in ready_problems(VM, verdict(json.dumps(found)), NICS, generation)]


def changed(mac, field, value):
    found = deepcopy(GOOD)
    found["nics"][mac][field] = value
    return found


def test_what_a_guest_reports_is_read():
    found = verdict(json.dumps(GOOD))
    assert found.generation == 3
    assert found.nics[MGMT].gateways == {"10.0.0.1": ProbeAnswer("answered", OTHER)}
    assert found.nics[RAIL].addresses == {"172.16.1.11": ProbeAnswer("free")}
    assert rules(GOOD) == []
    assert list(unprobed(found)) == []


@pytest.mark.parametrize(
    ("found", "rule"),
    [
        (changed(RAIL, "addresses", {"172.16.1.11": f"conflict {OTHER}"}), "guest.conflict"),
        (changed(RAIL, "addresses", {"172.16.1.11": "conflict"}), "guest.conflict"),
        (changed(RAIL, "addresses", {"172.16.1.11": "absent"}), "guest.address-missing"),
        (changed(RAIL, "addresses", {}), "guest.address-missing"),
        (changed(MGMT, "gateways", {"10.0.0.1": "silent"}), "guest.gateway-silent"),
        (changed(MGMT, "gateways", {}), "guest.gateway-silent"),
        (changed(RAIL, "routing", "no rule from 172.16.1.11 lookup 101"), "guest.routing"),
        (changed(RAIL, "mtu", 1500), "guest.mtu"),
        (changed(RAIL, "name", ""), "guest.nic-missing"),
        ({**GOOD, "nics": {MGMT: GOOD["nics"][MGMT]}}, "guest.nic-missing"),
        ({**GOOD, "generation": 2}, "guest.generation"),
    ],
)
def test_what_stands_against_its_use_is_a_problem(found, rule):
    assert rules(found) == [rule]


def test_a_conflict_names_the_address_and_the_other_station():
    (found,) = ready_problems(
        VM, verdict(json.dumps(changed(RAIL, "addresses", {"172.16.1.11": f"conflict {OTHER}"}))), NICS, 3
    )
    assert "172.16.1.11" in found.message
    assert OTHER in found.message


def test_what_was_not_probed_is_no_problem_but_is_named():
    found = changed(MGMT, "gateways", {"10.0.0.1": "not probed: the link is down"})
    assert rules(found) == []
    assert list(unprobed(verdict(json.dumps(found)))) == ["mgmt: 10.0.0.1 was not probed: the link is down"]
    none = {"generation": 3, "not_probed": "no Python interpreter"}
    assert rules(none) == []
    assert list(unprobed(verdict(json.dumps(none)))) == ["no address was probed: no Python interpreter"]


def test_guests_with_one_machine_id_are_a_problem():
    ids = {"trn-01": "0a0b0c0d", "trn-02": "ffffffff", "trn-03": "0a0b0c0d", "trn-04": "", "trn-05": ""}
    guests = {
        Target("vm", vm, f"VirtualMachine:{vm}"): verdict(json.dumps({**GOOD, "machine": i})) for vm, i in ids.items()
    }
    found = list(machine_problems(guests))
    assert [(p.target.name, p.rule) for p in found] == [("trn-01", "guest.machine-id"), ("trn-03", "guest.machine-id")]
    assert "trn-03" in found[0].message


@pytest.mark.parametrize(
    "text",
    [
        "",
        "3",
        "---",
        "{",
        "[]",
        "{}",
        '{"generation":3}',
        '{"generation":"3","not_probed":"x"}',
        '{"generation":0,"not_probed":"x"}',
        json.dumps({**GOOD, "more": 1}),
        json.dumps(changed(RAIL, "addresses", {"172.16.1.11": "perhaps"})),
        json.dumps(changed(RAIL, "addresses", {"172.16.1.11": "conflict with someone"})),
        json.dumps(changed(RAIL, "addresses", {"rail": "free"})),
        json.dumps(changed(RAIL, "addresses", ["free"])),
        json.dumps(changed(RAIL, "mtu", "9000")),
        json.dumps(GOOD)[:-9],
    ],
)
def test_a_malformed_key_is_refused_in_a_sentence(text):
    with pytest.raises(ValueError, match=r"guestinfo\.vsphere-ai\.ready is malformed: .+"):
        verdict(text)
