"""Resource pools while hosts are out of service: the pool of the cluster has less to give to those that expand."""

from __future__ import annotations

import pytest
from support.admission_farm import CLUSTER, HARDWARE, MB, POOL, answer, farm, gb, vm

from vsphere_ai.model.facts import Facts

ROOT, OTHER = "ResourcePool:root", "HostSystem:other"
LOST = 1_024_000
"""MB that the other host has for VMs."""


def usage(free_mb, reservation=0, *, expandable=True, free_mhz=0):
    allocation = {"reservation": reservation, "limit": -1, "expandableReservation": expandable}
    return {
        "config": {"memoryAllocation": allocation, "cpuAllocation": allocation},
        "runtime": {
            "memory": {"reservationUsed": 0, "unreservedForVm": free_mb * MB},
            "cpu": {"reservationUsed": 0, "unreservedForVm": free_mhz},
        },
    }


def estate(own, root_free_mb, **more):
    """A cluster of two hosts whose pool has so much left, and a pool below it."""
    root = Facts(
        ROOT, {"name": "Resources", "owner": CLUSTER, "parent": CLUSTER, **usage(root_free_mb, expandable=False)}
    )
    other = Facts(OTHER, {**HARDWARE, "name": "other", **more})
    return farm(pool=own, objects=(root, other))


@pytest.mark.parametrize(
    ("own", "root_free_mb", "verdict"),
    [
        pytest.param(usage(LOST + gb(20)), LOST + gb(20), "yes", id="enough is left"),
        pytest.param(usage(LOST + gb(10)), LOST + gb(10), "no", id="too little is left"),
        pytest.param(usage(gb(20), gb(20), expandable=False), gb(10), "yes", id="what is its own stays"),
        pytest.param(usage(gb(20) + gb(10), gb(20)), gb(10), "unknown", id="between what is its own and nothing"),
    ],
)
def test_an_expandable_pool_has_less_while_a_host_is_out_of_service(own, root_free_mb, verdict):
    situation, machine = estate(own, root_free_mb), vm(reserved_mb=gb(16), pool=POOL)
    assert answer(situation, machine)[0] == "yes"
    situation.down = frozenset({OTHER})
    told, faults, _ = answer(situation, machine)
    assert (told, faults) == (verdict, {"InsufficientMemoryResourcesFault"} if verdict == "no" else set())
    assert answer(situation, machine, "evacuate")[0] == "yes", "it keeps what it has"


def test_vms_without_a_pool_of_their_own_are_in_that_of_the_cluster():
    situation, machine = estate(usage(0), LOST + gb(10)), vm(reserved_mb=gb(16), pool=ROOT)
    assert answer(situation, machine)[0] == "yes", "what its host has left decides"
    situation.down = frozenset({OTHER})
    assert answer(situation, machine)[:2] == ("no", {"InsufficientMemoryResourcesFault"})


def test_a_host_that_was_not_in_service_takes_nothing_away():
    situation = estate(usage(gb(20)), gb(20), **{"runtime.inMaintenanceMode": True})
    situation.down = frozenset({OTHER})
    assert answer(situation, vm(reserved_mb=gb(16), pool=POOL))[0] == "yes"


def test_cpu_of_the_cluster_is_less_as_well():
    own = usage(LOST + gb(20), free_mhz=156_000 + 3_000)
    situation, machine = estate(own, LOST + gb(20)), vm(reserved_mhz=4_000, pool=POOL)
    root = situation.view.estate[ROOT]
    root.properties["runtime"]["cpu"]["unreservedForVm"] = 156_000 + 3_000
    assert answer(situation, machine)[0] == "yes"
    situation.down = frozenset({OTHER})
    assert answer(situation, machine)[:2] == ("no", {"InsufficientCpuResourcesFault"})
