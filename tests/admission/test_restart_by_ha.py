"""A restart by vSphere HA: what it asks of a host and what not; and a swap file that is there before."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.admission_farm import CLUSTER, HOST, MB, POOL, RUNNING, STORE, answer, farm, gb, vm

from vsphere_ai.admission.machine import Bounds, Machine

OPTION = "das.respectvmvmantiaffinityrules"


def cluster(*, rules=(), das=(), drs=()):
    return {
        "configurationEx": {
            "rule": rules,
            "drsConfig": {"enabled": True, "option": tuple({"key": k, "value": v} for k, v in drs)},
            "dasConfig": {
                "enabled": True,
                "admissionControlEnabled": True,
                "admissionControlPolicy": {
                    "_typeName": "ClusterFailoverResourcesAdmissionControlPolicy",
                    "cpuFailoverResourcesPercent": 99,
                    "memoryFailoverResourcesPercent": 99,
                },
                "option": tuple({"key": k, "value": v} for k, v in das),
            },
        }
    }


def between(kind):
    return {
        "_typeName": f"Cluster{kind}RuleSpec",
        "name": "pair",
        "enabled": True,
        "mandatory": True,
        "vm": ("VirtualMachine:new", "VirtualMachine:other"),
    }


def test_neither_a_pool_nor_admission_control_is_asked():
    nothing = {
        "config": {"memoryAllocation": {"reservation": 0, "limit": -1, "expandableReservation": False}},
        "runtime": {"memory": {"unreservedForVm": 0, "reservationUsed": 0}},
    }
    situation, machine = farm(pool=nothing, cluster=cluster()), vm(pool=POOL, reserved_mb=gb(16))
    assert answer(situation, machine)[2] >= {"admission.pool", "admission.ha"}
    assert answer(situation, machine, "ha_restart") == ("yes", set(), set())
    large = replace(machine, reserved_mb=gb(500), memory_mb=gb(500))
    assert answer(situation, large, "ha_restart")[:2] == ("no", {"InsufficientHostMemoryCapacityFault"})


@pytest.mark.parametrize(
    ("option", "verdict"), [("true", "no"), (" TRUE", "no"), ("false", "yes"), (None, "unknown"), ("", "unknown")]
)
def test_whether_vms_are_kept_apart_is_an_option_of_the_cluster(option, verdict):
    das = () if option is None else ((OPTION, option),)
    told, faults, rules = answer(farm(cluster=cluster(rules=(between("AntiAffinity"),), das=das)), vm(), "ha_restart")
    assert (told, faults) == (verdict, {"RuleViolation"} if verdict == "no" else set())
    assert "admission.vm-rule" in rules


def test_vms_are_never_kept_together():
    situation = farm(cluster=cluster(rules=(between("Affinity"),), das=((OPTION, "true"),)))
    situation.leave(RUNNING.ref)
    situation.arrive(RUNNING, "HostSystem:elsewhere")
    assert "RuleViolation" in answer(situation, vm())[1]
    told, _, rules = answer(situation, vm(), "ha_restart")
    assert told == "yes"
    assert "admission.vm-rule" in rules


@pytest.mark.parametrize("option", ["MaxVCPUsPerCore", "MaxVcpusPerClusterPct"])
def test_limits_of_drs_leave_a_restart_unknown(option):
    limit = "1" if option == "MaxVCPUsPerCore" else "100"
    situation = farm(cluster=cluster(drs=((option, limit),)))
    assert situation.cluster(HOST).ref == CLUSTER
    assert "NoCompatibleHost" in answer(situation, vm(cpus=100))[1]
    assert answer(situation, vm(cpus=100), "ha_restart") == ("unknown", set(), {"admission.vcpu-share"})
    assert answer(situation, vm(), "ha_restart")[0] == "yes"


@pytest.mark.parametrize(("free_gb", "verdict"), [(7, "no"), (8, "yes")])
def test_a_swap_file_that_goes_with_its_vm_is_free_once(free_gb, verdict):
    """A VM with a swap file of 8 GB is powered off to come back with one of 16 GB."""
    store = {"summary": {"type": "VMFS", "freeSpace": gb(free_gb) * MB}, "host": ({"key": HOST, "mountInfo": {}},)}
    ran = Machine(
        "VirtualMachine:other", "other", 4, 1, gb(16), gb(8), Bounds(100, 100), home=STORE, datastores=(STORE,)
    )
    situation, wanted = farm(store=store, running=(ran,)), replace(ran, reserved_mb=0)
    assert answer(situation, wanted, "power_cycle")[0] == verdict
    off = situation.copy()
    off.leave(ran.ref)
    assert answer(off, wanted, "power_cycle")[0] == verdict
    assert answer(off, ran, "ha_restart")[0] == "yes", "its swap file is where it was"
