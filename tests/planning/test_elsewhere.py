"""Hosts that take VMs after the loss of another one: room on GPUs is not enough, each has to be admitted there."""

from __future__ import annotations

from dataclasses import replace

import pytest
from planning.test_capacity import guest, host, refs, view
from support import estates as make

from vsphere_ai.admission.gpus import question_of
from vsphere_ai.capacity.solve import solve
from vsphere_ai.capacity.verdict import Fit, NoFit, Undecided
from vsphere_ai.planning.capacity import problems_of
from vsphere_ai.planning.moves.admitted import final_situation
from vsphere_ai.planning.moves.elsewhere import Elsewhere, with_admission

LAN = "Network:network-1"
GB = 1 << 30
WHOLE, QUARTER = "grid_a100-7-40c", "grid_a100-1-5c"


def vm(number, profile=WHOLE, on=make.ESX1, memory_gb=64, **more):
    """A VM whose memory is all reserved, as its vGPU demands."""
    own = guest(number, profile, on=on, state="poweredOff")
    more = {"config.hardware.memoryMB": memory_gb << 10, "config.memoryReservationLockedToMax": True, **more}
    return replace(own, properties={**own.properties, **more})


def running(number, on, memory_gb):
    return make.guest(make.vm(number), on, config__hardware__memoryMB=memory_gb << 10,
                      config__memoryReservationLockedToMax=True)  # fmt: skip


def esx(target, memory_gb=1024, **more):
    return host(target, hardware__memorySize=memory_gb * GB, **more)


def spare(*facts, on=(1,)):
    """Rules and messages of what is against restarts after the loss of any host."""
    return [(p.target.name, p.rule, p.message) for p in problems_of(view(*facts), refs(*on), 1)]


def test_a_host_that_takes_the_vm_is_a_spare_one():
    assert spare(esx(make.ESX1), esx(make.ESX2), vm(1)) == []


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ((esx(make.ESX1, network=(LAN,)), esx(make.ESX2), vm(1, network=(LAN,))), "network"),
        ((esx(make.ESX1), esx(make.ESX2, summary__hardware__numCpuThreads=4), vm(1)), "4"),
        ((esx(make.ESX1), esx(make.ESX2, runtime__inMaintenanceMode=True), vm(1)), "maintenance mode"),
        ((esx(make.ESX1), esx(make.ESX2, memory_gb=32), vm(1)), "32 GB"),
        ((esx(make.ESX1), esx(make.ESX2, memory_gb=256), vm(1, memory_gb=128), running(5, make.ESX2, 200)), "202 GB"),
    ],
    ids=["network", "vcpus", "maintenance", "memory", "memory beside what runs"],
)
def test_a_host_with_free_gpus_that_does_not_take_the_vm_is_none(facts, why):
    ((name, rule, message),) = spare(*facts)
    assert (name, rule) == ("esx01", "capacity.no-spare")
    assert message.startswith("if esx01 failed, train-01 could not restart: ")
    assert "esx02: " in message
    assert why in message


def test_vms_of_a_host_have_to_restart_beside_each_other():
    two = vm(1, QUARTER, memory_gb=128), vm(2, QUARTER, memory_gb=128)
    small = esx(make.ESX2, memory_gb=200)
    assert spare(esx(make.ESX1), small, *two[:1]) == []
    ((_, rule, message),) = spare(esx(make.ESX1), small, *two, on=(1, 2))
    assert rule == "capacity.no-spare"
    assert "train-01, train-02 could not restart: esx02: " in message


def test_where_the_first_host_does_not_take_all_of_them_others_are_tried():
    two = vm(1, QUARTER, memory_gb=128), vm(2, QUARTER, memory_gb=128)
    others = esx(make.ESX2, memory_gb=200), esx(make.ESX3, memory_gb=200)
    assert spare(esx(make.ESX1), *others, *two, on=(1, 2)) == []


def test_memory_that_is_not_reserved_for_a_vgpu_is_no_matter_of_spare_hosts():
    assert spare(esx(make.ESX1), esx(make.ESX2), vm(1, **{"config.memoryReservationLockedToMax": False})) == []


# -- the verdict of `capacity`


def verdict(*facts, on=(1,), spare_hosts=0, occasion="power_on"):
    one = view(*facts)
    question = question_of(one, refs(*on))
    elsewhere = Elsewhere(final_situation(one, (), refs(*on)), occasion)
    narrowed = elsewhere.narrowed(question)
    answer = solve(narrowed.farm, narrowed.demands, spare_hosts=spare_hosts)
    return with_admission(answer, narrowed, elsewhere, spare_hosts)


def test_vms_are_placed_only_on_hosts_that_take_them():
    three = [vm(n) for n in (1, 2, 3)]  # two GPUs on each host
    assert isinstance(verdict(esx(make.ESX1), esx(make.ESX2), *three, on=(1, 2, 3)), Fit)
    refused = verdict(esx(make.ESX1), esx(make.ESX2, summary__hardware__numCpuThreads=4), *three, on=(1, 2, 3))
    assert isinstance(refused, NoFit)
    assert "; esx02: " in refused.explanation


def test_vms_that_fit_on_gpus_and_not_beside_each_other_are_not_decided():
    three = [vm(n, memory_gb=100) for n in (1, 2, 3)]
    found = verdict(esx(make.ESX1), esx(make.ESX2, memory_gb=60), *three, on=(1, 2, 3))
    assert isinstance(found, Undecided)
    assert found.explanation.startswith("on GPUs they fit, but esx02: ")


@pytest.mark.parametrize("small", [1, 2, 3])
def test_other_places_are_searched_where_the_first_ones_do_not_hold(small):
    """Only the small VM has the memory on esx02, whichever of them finds GPUs there first."""
    three = [vm(n, memory_gb=30 if n == small else 100) for n in (1, 2, 3)]
    found = verdict(esx(make.ESX1), esx(make.ESX2, memory_gb=60), *three, on=(1, 2, 3))
    assert isinstance(found, Fit)
    assert found.assignment[three[small - 1].ref][0] == "esx02"
    assert [found.assignment[v.ref][0] for v in three].count("esx01") == 2


def test_a_loss_after_which_vms_fit_on_gpus_only_is_not_decided():
    facts = esx(make.ESX1), esx(make.ESX2, memory_gb=60), vm(1, memory_gb=100)
    found = verdict(*facts, spare_hosts=1, occasion="ha_restart")
    assert isinstance(found, Undecided)
    assert found.lost == ("esx01",)
    assert found.explanation.startswith("after the loss of esx01 they fit on GPUs, but esx02: ")
    assert isinstance(verdict(esx(make.ESX1), esx(make.ESX2), facts[2], spare_hosts=1, occasion="ha_restart"), Fit)
