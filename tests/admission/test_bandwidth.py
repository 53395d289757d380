"""The requirement `admission.bandwidth`: worked examples of what adapters reserve on the NICs of a host."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.admission_farm import RUNNING, answer, farm, vm

from vsphere_ai.admission.base import RUNS
from vsphere_ai.admission.machine import machine_of
from vsphere_ai.admission.requirements.bandwidth import FAULT, PROXIES
from vsphere_ai.fabric import nioc
from vsphere_ai.model.facts import Facts

RULE = "admission.bandwidth"
SWITCH, WIDE, NARROW = "DistributedVirtualSwitch:s", "DistributedVirtualPortgroup:w", "DistributedVirtualPortgroup:n"


def network(reserved=100, *, on=True):
    """A switch with so many Mbit/s for VMs on each NIC, a port group on both uplinks, and one on the first only."""
    traffic = ({"key": "virtualMachine", "allocationInfo": {"reservation": reserved}},)
    config = {nioc.ENABLED: on, nioc.VERSION: "version3", nioc.TRAFFIC: traffic}
    first = {"uplinkTeamingPolicy": {"uplinkPortOrder": {"activeUplinkPort": ("Uplink 1",), "standbyUplinkPort": ()}}}
    own = {"config.distributedVirtualSwitch": SWITCH}
    return (
        Facts(SWITCH, {"name": "dvs", "uuid": "50 0a", **config}),
        Facts(WIDE, {"name": "wide", **own}),
        Facts(NARROW, {"name": "narrow", **own, "config.defaultPortConfig": first}),
    )


def nics(*names):
    ports = tuple({"key": str(n), "value": f"Uplink {n}"} for n in (1, 2))
    specs = tuple({"pnicDevice": name, "uplinkPortKey": str(n)} for n, name in enumerate(names, 1))
    return {PROXIES: ({"dvsUuid": "50 0a", "uplinkPort": ports, "spec": {"backing": {"pnicSpec": specs}}},)}


def reserving(*parts):
    return replace(vm(), bandwidth=parts)


BOTH = nics("vmnic0", "vmnic1")


@pytest.mark.parametrize(
    ("there", "own", "host", "verdict"),
    [
        pytest.param((), [(WIDE, 100)], BOTH, "yes", id="all of a NIC"),
        pytest.param((), [(WIDE, 100), (WIDE, 100)], BOTH, "yes", id="all of both"),
        pytest.param([(WIDE, 100)], [(WIDE, 100)], BOTH, "yes", id="another VM has one of them"),
        pytest.param([(WIDE, 150)], [(WIDE, 60)], BOTH, "no", id="more than both have"),
        pytest.param((), [(WIDE, 101)], BOTH, "no", id="an adapter sends over one NIC"),
        pytest.param([(WIDE, 60), (WIDE, 60)], [(WIDE, 60)], BOTH, "unknown", id="a part of each is left"),
        pytest.param([(WIDE, 60)], [(NARROW, 60)], BOTH, "yes", id="the other one goes out by the second NIC"),
        pytest.param([(NARROW, 60)], [(NARROW, 60)], BOTH, "no", id="both go out by the first NIC"),
        pytest.param((), [(WIDE, 1)], nics(), "no", id="a member without a NIC"),
        pytest.param((), [(WIDE, 1)], {PROXIES: ()}, "no", id="no member"),
        pytest.param((), [(WIDE, 1)], {}, "unknown", id="its switches were not read"),
        pytest.param([(WIDE, 500)], [], BOTH, "yes", id="a VM that reserves nothing"),
    ],
)
@pytest.mark.parametrize("occasion", sorted(RUNS))
def test_reservations_find_room_on_the_nics(there, own, host, verdict, occasion):
    other = replace(RUNNING, bandwidth=tuple(there))
    told, faults, rules = answer(farm(objects=network(), running=(other,), **host), reserving(*own), occasion)
    assert (RULE in rules, FAULT in faults) == (verdict != "yes", verdict == "no")
    assert (told == "no") == (verdict == "no")


def test_without_network_io_control_nothing_is_reserved():
    assert RULE not in answer(farm(objects=network(on=False), **nics()), reserving((WIDE, 500)))[2]


def test_what_adapters_reserve():
    port = {"port": {"portgroupKey": "w"}}
    devices = (
        {"_typeName": "VirtualVmxnet3", "backing": port, "resourceAllocation": {"reservation": 70}},
        {"_typeName": "VirtualVmxnet3", "backing": port, "resourceAllocation": {"reservation": 0}},
        {"_typeName": "VirtualSriovEthernetCard", "backing": port, "resourceAllocation": {"reservation": 70}},
        {"_typeName": "VirtualDisk", "backing": {}},
    )
    assert machine_of(Facts("VirtualMachine:v", {"config.hardware.device": devices})).bandwidth == ((WIDE, 70),)
