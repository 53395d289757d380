"""VMkernel adapters for vMotion, on the host of a running VM and on the one that it moves to."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.admission_farm import HARDWARE, answer, farm, vm

from vsphere_ai.fabric.vmk import CARRIED, VNICS, carried, carries_vmotion, carrying
from vsphere_ai.model.facts import Facts

SOURCE = "HostSystem:source"
MOVING = replace(vm(), ref="VirtualMachine:moving", name="moving")


def net(vmotion=("vmk1",), stack="defaultTcpipStack"):
    """Two adapters of a host, and which of them carry vMotion."""
    devices = ("vmk0", "vmk1")
    every = tuple({"key": f"vmotion.{d}", "device": d} for d in devices)
    selected = tuple(f"vmotion.{d}" for d in vmotion)
    return {
        VNICS: tuple({"device": d, "spec": {"netStackInstanceKey": stack if d == "vmk1" else ""}} for d in devices),
        CARRIED: ({"nicType": "vmotion", "candidateVnic": every, "selectedVnic": selected},),
    }


BARE = {VNICS: (), CARRIED: ({"nicType": "vmotion", "candidateVnic": (), "selectedVnic": ()},)}


@pytest.mark.parametrize(
    ("source", "target", "verdict"),
    [
        pytest.param(net(), net(("vmk0",)), "yes", id="both"),
        pytest.param(net(), net(()), "no", id="not the target"),
        pytest.param(net(()), net(), "no", id="not the source"),
        pytest.param(net((), "vmotion"), net(), "yes", id="by its TCP/IP stack"),
        pytest.param({}, net(), "unknown", id="the source was not read"),
        pytest.param(net(), BARE, "unknown", id="no adapter was read, and no host is without one"),
    ],
)
@pytest.mark.parametrize("occasion", ["vmotion", "evacuate"])
def test_both_hosts_have_an_adapter_for_vmotion(source, target, verdict, occasion):
    there = Facts(SOURCE, {**HARDWARE, "name": "source", **source})
    moving = Facts(MOVING.ref, {"name": "moving", "runtime.host": SOURCE, "runtime.powerState": "poweredOn"})
    situation = farm(objects=(there, moving), **target)
    told, faults, rules = answer(situation, MOVING, occasion)
    assert (told, faults) == (verdict, {"VMotionNotConfigured"} if verdict == "no" else set())
    assert ("admission.vmotion-network" in rules) == (verdict != "yes")
    assert "admission.vmotion-network" not in answer(situation, MOVING, "power_on")[2]


def test_a_vm_that_stays_needs_none():
    there = Facts(SOURCE, {**HARDWARE, "name": "source"})
    situation = farm(objects=(there,), **net(()))
    (running,) = situation.on("HostSystem:h").values()
    assert "admission.vmotion-network" not in answer(situation, running, "evacuate")[2]


def test_what_adapters_will_carry():
    facts = Facts(SOURCE, net())
    moved = facts.having({CARRIED: carrying(facts.get(CARRIED), "vmk0", ("vmotion",))})
    assert carried(moved) == {"vmk0": ("vmotion",), "vmk1": ("vmotion",)}
    gone = moved.having({CARRIED: carrying(carrying(moved.get(CARRIED), "vmk0", ()), "vmk1", ())})
    assert carries_vmotion(gone) is False
    new = gone.having({CARRIED: carrying(gone.get(CARRIED), "vmk2", ("vmotion",))})
    assert carried(new) == {"vmk2": ("vmotion",)}
