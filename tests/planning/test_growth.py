"""Growth of planning with the estate, in counted operations: no test here looks at a clock."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import pytest
from support.estates import made, vm, wants
from support.gpu_growing import HALF, WHOLE, gpu_estate
from support.growing import Calls, esx, exponent, of_vms, operations, upgraded

from vsphere_ai.language.play import Rolling
from vsphere_ai.model.facts import Estate
from vsphere_ai.model.view import View
from vsphere_ai.planning.document import digest, dumps, plan_document
from vsphere_ai.planning.planner import again, remaining
from vsphere_ai.report.plan_text import Beside, plan_text
from vsphere_ai.resources import kinds
from vsphere_ai.resources.host_graphics import HostGraphics
from vsphere_ai.resources.vgpu import Vgpu
from vsphere_ai.resources.vm_hardware import VmHardware

SIZES = (1_000, 2_000, 4_000, 8_000)
SHARED_DIRECT = HostGraphics(default_type="shared_direct")


def counted(sizes, estate_of, wanted_of):
    """The operations that a plan takes at each size; every one of these plans can be carried out."""
    counts = []
    for size in sizes:
        estate, wanted, plans = estate_of(size), wanted_of(size), []
        counts.append(operations(lambda e, w=wanted, p=plans: p.append(made(e, w)), estate))
        assert plans[0].problems == ()
        assert plans[0].steps
    return counts


def test_planning_does_not_grow_faster_than_the_estate():
    assert exponent(SIZES, counted(SIZES, of_vms, lambda size: upgraded(50))) <= 1.1


def test_planning_does_not_grow_faster_than_the_playbook():
    sizes = (200, 400, 800, 1_600)
    counts = counted(sizes, lambda size: of_vms(size, even=True), lambda size: upgraded(size // 10))
    assert exponent(sizes, counts) <= 1.1


def test_planning_reboots_does_not_grow_faster_than_their_number():
    sizes = (200, 400, 800)
    wanted = lambda size: {esx(n): wants(SHARED_DIRECT) for n in range(1, size // 20 + 1)}  # noqa: E731
    assert exponent(sizes, counted(sizes, lambda size: of_vms(size, even=True), wanted)) <= 1.1


def test_planning_does_not_grow_faster_than_a_cluster_whose_vms_all_change():
    """Each VM can run on each host: what hosts decide is worked out once for all VMs that are alike."""
    sizes = (200, 400, 800)
    assert exponent(sizes, counted(sizes, of_vms, upgraded)) <= 1.1


def test_a_plan_is_written_and_shown_in_proportion_to_its_steps():
    sizes, written, shown, operated = (200, 400, 800), [], [], []
    for size in sizes:
        plan = made(of_vms(size, even=True), upgraded(size))
        with Calls() as calls:
            written.append(len(dumps(plan_document(plan))))
            shown.append(len(plan_text(plan, digest(plan), beside=Beside(full=True))))
        operated.append(calls.count)
    assert exponent(sizes, written) <= 1.1
    assert exponent(sizes, shown) <= 1.1
    assert exponent(sizes, operated) <= 1.1


@pytest.mark.parametrize("of", [remaining, again])
def test_reading_back_one_target_takes_no_more_operations_in_a_large_estate(of):
    """A run knows what its estate lists; what it reads again of a target changes nothing there."""
    wanted = upgraded(100)

    def read_back(estate):
        now = estate.with_objects((replace(estate[vm(1).ref]),))
        assert of(wanted, now, kinds(), vm(1))

    operations(read_back, of_vms(100))  # what is found out once for all, such as the modules of the kinds
    small, medium, large = (operations(read_back, of_vms(size)) for size in (100, 1_000, 10_000))
    assert 0 < small == medium == large


def test_a_view_with_one_more_planned_state_does_not_copy_the_others():
    """All views are kept: copies of what is planned before would fill the memory."""
    state, sizes = VmHardware(version=20), (500, 4_000)
    used = []
    for size in sizes:
        view, kept = View(Estate(of_vms(100).about, {}), {}), []
        tracemalloc.start()
        for number in range(size):
            view = view.with_planned(f"VirtualMachine:vm-{number}", state)
            kept.append(view)
        used.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
        assert view.is_planned("VirtualMachine:vm-0", "hardware")
        assert not kept[0].is_planned("VirtualMachine:vm-1", "hardware")
    assert exponent(sizes, used) <= 1.2  # tables grow in steps; copies of all before would be 2


def test_planning_refusals_does_not_grow_faster_than_their_number():
    """Each VM is refused by its own kind, and all hosts by the capacity of their GPUs."""
    sizes = (100, 200, 400)
    counts = []
    for size in sizes:
        wanted = {vm(n): wants(VmHardware(version=11)) for n in range(1, size + 1)}
        counts.append(operations(lambda e, w=wanted: made(e, w), of_vms(size, even=True)))
    assert exponent(sizes, counts) <= 1.1
    hosts, counts = (8, 16, 32), []
    for count in hosts:
        found = gpu_estate(count, vms=3)
        wanted = {vm(n): wants(Vgpu(profiles=(WHOLE,))) for n in range(1, 3 * count + 1)}
        counts.append(operations(lambda e, w=wanted: made(e, w), found))
        assert {p.rule for p in made(found, wanted).problems} == {"capacity.no-room"}
    assert exponent(hosts, counts) <= 1.1


def test_planning_moves_of_vms_with_vgpus_does_not_grow_faster_than_the_clusters():
    hosts, counts = (16, 32, 64), []
    how = wants(HostGraphics(default_type="shared"), rolling=Rolling(evacuate="vmotion"))
    for count in hosts:
        found, plans = gpu_estate(count, vms=1, profile=HALF, cluster_of=8), []
        wanted = {esx(n): how for n in range(1, count + 1)}
        counts.append(operations(lambda e, w=wanted, p=plans: p.append(made(e, w)), found))
        assert len(plans[0].impact.migrations) >= count
    assert exponent(hosts, counts) <= 1.1
