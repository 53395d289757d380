"""Virtual functions of a host's NICs: how many there are now, what waits for a restart, and who has them."""

from __future__ import annotations

import pytest
from pydantic import ValidationError
from support.estates import ESX1, estate, guest, view, vm
from support.ethernet import NIC4, NIC5, card, function, machine
from support.judging import actions, judge, plan_one, rules, words
from support.plays import FUNCTIONS

from vsphere_ai.model.steps import Invoke
from vsphere_ai.resources.adapters import Adapters
from vsphere_ai.resources.sriov import Sriov

ALONE = FUNCTIONS

RDMA = "dvportgroup-1"


def on(*functions, **more):
    return estate(machine(ESX1, *functions, **more))


def want(**functions):
    return Sriov(functions={{"nic4": NIC4, "nic5": NIC5}.get(k, k): v for k, v in functions.items()})


def told(judged):
    return [
        (c["id"], c["sriovEnabled"], c["numVirtualFunction"], c["passthruEnabled"]) for c in judged.step.args["config"]
    ]


# -- what changes


def test_as_wanted():
    judged = judge(want(nic4=8), ESX1, on(function(NIC4, 8), function(NIC5, 2)))
    assert (judged.fields, judged.steps, judged.problems) == ({}, (), {})


def test_only_the_named_nics_are_set_in_one_call_with_a_restart():
    judged = judge(want(nic4=8, nic5=4), ESX1, on(function(NIC4, 8), function(NIC5)))
    assert judged.fields == {NIC5: (0, 4)}
    step = judged.step
    assert isinstance(step, Invoke)
    assert (step.method, step.path) == ("UpdatePassthruConfig", "configManager.pciPassthruSystem")
    assert step.needs_reboot
    assert step.needs_maintenance
    assert told(judged) == [(NIC5, True, 4, False)]
    assert step.summary == "set virtual functions: vmnic5 4"


def test_nothing_is_left_of_none():
    assert told(judge(want(nic4=0), ESX1, on(function(NIC4, 8)))) == [(NIC4, False, 0, False)]
    assert judge(want(nic4=0), ESX1, on(function(NIC4))).steps == ()


def test_a_change_that_waits_for_a_restart_needs_only_that():
    judged = judge(want(nic4=8), ESX1, on(function(NIC4, 0, configured=8)))
    assert words(judged.steps) == ["step"]
    assert judged.step.needs_reboot
    assert judged.fields[NIC4] == ("0 (after a restart: 8)", 8)


def test_one_waits_and_one_is_set():
    judged = judge(want(nic4=8, nic5=2), ESX1, on(function(NIC4, 0, configured=8), function(NIC5)))
    assert told(judged) == [(NIC5, True, 2, False)]
    assert judged.step.summary == "set virtual functions: vmnic4 8, vmnic5 2"


def test_the_restart_is_planned_once():
    plan = plan_one(on(function(NIC4)), ESX1, want(nic4=8))
    assert actions(plan, "reboot") == [ESX1]
    assert not plan.problems


# -- what blocks it


@pytest.mark.parametrize(
    ("wanted", "device", "rule"),
    [
        ({"nic4": 17}, function(NIC4), "sriov.too-many"),
        ({"0000:3b:00.0": 4}, function(NIC4), "sriov.nic"),
        ({"nic4": 4}, {"_typeName": "HostPciPassthruInfo", "id": NIC4, "passthruEnabled": False}, "sriov.not-capable"),
        ({"nic4": 4}, function(NIC4, passthruEnabled=True), "sriov.passthrough"),
        ({"nic4": 4}, function(NIC4, sriovCapable=False), "sriov.not-capable"),
    ],
)
def test_refused(wanted, device, rule):
    assert set(judge(want(**wanted), ESX1, on(device)).problems) == {rule}


def test_a_host_whose_devices_are_not_read():
    assert set(judge(want(nic4=4), ESX1, on(config__network__pnic=None)).problems) == {"sriov.unreadable"}


def with_vms(count, functions=4, power="poweredOn"):
    cards = tuple(card(4000 + n, RDMA, "VirtualSriovEthernetCard") for n in range(count))
    user = guest(vm(1), ESX1, config__hardware__device=cards, runtime__powerState=power)
    return estate(machine(ESX1, function(NIC4, functions)), user)


@pytest.mark.parametrize(
    ("held", "power", "wanted", "refused"),
    [(2, "poweredOn", 1, True), (2, "poweredOn", 2, False), (2, "poweredOff", 0, False), (1, "poweredOn", 0, True)],
)
def test_vms_keep_their_functions(held, power, wanted, refused):
    judged = judge(want(nic4=wanted), ESX1, with_vms(held, power=power))
    assert set(judged.problems) == ({"sriov.in-use"} if refused else set())
    if refused:
        assert "train-01" in judged.problems["sriov.in-use"].message


def test_vms_that_the_playbook_speaks_of_are_judged_there():
    said = {(vm(1).ref, "adapters"): Adapters(adapters=())}
    assert judge(want(nic4=1), ESX1, with_vms(2), stated=said).problems == {}


def test_a_vm_finds_the_functions_of_the_same_plan():
    from support.estates import made, wants

    from vsphere_ai.resources._helpers.network_adapter import NetworkAdapter

    user = guest(vm(1), ESX1)
    adapters = Adapters(adapters=(NetworkAdapter(type="sriov", port_group="dvpg-rdma"),))
    of = estate(machine(ESX1, function(NIC4)), user)
    assert rules(plan_one(of, vm(1), adapters)) == {("train-01", "sriov.no-vf")}
    assert not made(of, {ESX1: wants(want(nic4=1)), vm(1): wants(adapters)}).problems


# -- told


def test_shown_and_stated():
    of = on(function(NIC4, 4), function(NIC5, 0, configured=2))
    seen = view(of)
    state = seen.state(ESX1.ref, "sriov")
    assert state.functions == {NIC4: 4, NIC5: "0 (after a restart: 2)"}
    assert state.export(ESX1, seen, "playbook").state.functions == {NIC4: 4}
    assert state.export(ESX1, seen, "playbook").left_out == f"sriov left out: {NIC5} has 0 (after a restart: 2)"
    none = view(on(function(NIC4)))
    assert none.state(ESX1.ref, "sriov").export(ESX1, none, "playbook").state is None


@pytest.mark.parametrize("functions", [{"vmnic4": 4}, {NIC4: -1}, {NIC4: True}, {NIC4.upper() + "0": 1}])
def test_what_the_language_refuses(functions):
    with pytest.raises(ValidationError):
        Sriov(functions=functions)


# -- what the host does not say


def test_a_number_that_the_host_does_not_say_is_not_taken_for_none():
    nic = function(NIC4, 8)
    silent = {name: value for name, value in nic.items() if name != "maxVirtualFunctionSupported"}
    assert rules(judge(want(nic4=500), ESX1, on(silent))) == set()
    missing = {name: value for name, value in nic.items() if name != "numVirtualFunction"}
    judged = judge(want(nic4=8), ESX1, on(missing))
    assert judged.fields == {NIC4: ("not known", 8)}
