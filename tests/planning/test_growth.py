"""Growth of planning with the estate, in counted operations: no test here looks at a clock."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import pytest
from support.estates import made, vm, wants
from support.gpu_growing import HALF, WHOLE, gpu_estate
from support.growing import Calls, esx, exponent, of_vms, operations, upgraded

from vsphere_ai.language.playbooks.play import Rolling
from vsphere_ai.model.estate.observed import Layered
from vsphere_ai.model.facts import MALFORMED, Estate
from vsphere_ai.model.steps import Step
from vsphere_ai.model.view import View
from vsphere_ai.planning.document import digest, dumps, plan_document
from vsphere_ai.planning.planner import PlanContext, again, make_plan, remaining
from vsphere_ai.reading.scope import depth_for
from vsphere_ai.report.plans.plan_text import Beside, plan_text
from vsphere_ai.resources import kinds
from vsphere_ai.resources.host_graphics import HostGraphics
from vsphere_ai.resources.vgpu import Vgpu
from vsphere_ai.resources.vm_hardware import VmHardware

SIZES = (1_000, 2_000, 4_000, 8_000)
WHY = f"{MALFORMED}: it lacks 'key' (KeyError)"
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
    """Each VM is refused by its own kind."""
    sizes = (100, 200, 400, 800)
    counts = []
    for size in sizes:
        wanted = {vm(n): wants(VmHardware(version=11)) for n in range(1, size + 1)}
        counts.append(operations(lambda e, w=wanted: made(e, w), of_vms(size, even=True)))
    assert exponent(sizes, counts) <= 1.1


@pytest.mark.parametrize("cluster_of", [8, 1_000])
def test_planning_hosts_without_room_does_not_grow_faster_than_their_number(cluster_of):
    hosts, counts = (8, 16, 32, 64), []
    for count in hosts:
        found = gpu_estate(count, vms=3, cluster_of=cluster_of)
        wanted = {vm(n): wants(Vgpu(profiles=(WHOLE,))) for n in range(1, 3 * count + 1)}
        counts.append(operations(lambda e, w=wanted: made(e, w), found))
        assert {p.rule for p in made(found, wanted).problems} == {"capacity.no-room"}
    assert exponent(hosts, counts) <= 1.1


@pytest.mark.parametrize("cluster_of", [8, 1_000])
@pytest.mark.parametrize(("vms", "at_a_time"), [(1, 1), (2, 1), (1, 4)])
def test_planning_moves_of_vms_with_vgpus_does_not_grow_faster_than_the_hosts(cluster_of, vms, at_a_time):
    """In clusters of eight, or in one of all hosts: a host is not asked for each that its VMs do not go to."""
    hosts, counts = (16, 32, 64, 128), []
    how = wants(rolling=Rolling(evacuate="vmotion", max_unavailable=at_a_time))
    for count in hosts:
        found, plans = gpu_estate(count, vms=vms, profile=HALF, cluster_of=cluster_of), []
        wanted = {esx(n): how for n in range(1, count + 1)}
        work = {h: [Step(target=h, summary="work", needs_maintenance=True)] for h in wanted}
        plan = lambda e, w=wanted, s=work: make_plan(w, e, kinds(), besides=PlanContext(s))  # noqa: E731
        counts.append(operations(lambda e, p=plans, plan=plan: p.append(plan(e)), found))
        assert plans[0].problems == ()
        assert len(plans[0].impact.migrations) >= vms * count
    assert exponent(hosts, counts) <= 1.1


def test_planning_moves_by_drs_does_not_grow_faster_than_a_cluster():
    """For each VM one host that takes it is enough."""
    hosts, counts = (16, 32, 64, 128), []
    how = wants(HostGraphics(default_type="shared"), rolling=Rolling(evacuate="vmotion"))
    for count in hosts:
        found, plans = gpu_estate(count, vms=2, cluster_of=1_000), []
        wanted = {esx(n): how for n in range(1, count + 1)}
        counts.append(operations(lambda e, w=wanted, p=plans: p.append(made(e, w)), found))
        assert plans[0].problems == ()
        assert len(plans[0].impact.moves) == 2 * count
    assert exponent(hosts, counts) <= 1.1


class Walked(tuple):
    """Hosts that count how many of them are walked over."""

    times = 0

    def __iter__(self):
        Walked.times += len(self)
        return super().__iter__()


def test_hosts_around_vms_are_walked_over_once_for_all_of_a_cluster(monkeypatch):
    found, hosts_in = of_vms(800), Estate.hosts_in
    alike = {parent: Walked(hosts_in(found, parent)) for parent in found._hosts_by_parent}
    monkeypatch.setattr(Estate, "hosts_in", lambda _, parent: alike.get(parent, ()))
    Walked.times = 0
    depth = depth_for(found, upgraded(800))
    assert depth.hosts == frozenset(h.ref for h in found.hosts)
    assert Walked.times <= 3 * len(found.hosts)


class Compared(str):
    """A reference that counts how often any is compared."""

    times = 0

    def __eq__(self, other):
        Compared.times += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_values_that_cannot_be_read_do_not_cost_more_the_more_there_are():
    """Each is looked for among those of its own object only."""
    sizes, counts, operated = (100, 200, 400), [], []
    for size in sizes:
        found, plans = of_vms(size, even=True), []
        lost = [replace(found[vm(n).ref], ref=Compared(vm(n).ref)) for n in range(1, size + 1, 2)]
        lost = [replace(f.having({"config.extraConfig": None}), unreadable={"config.extraConfig": WHY}) for f in lost]
        wanted = {vm(n): wants(VmHardware(version=19)) for n in range(1, size + 1)}
        given, Compared.times = found.with_objects(lost), 0
        operated.append(operations(lambda e, w=wanted, p=plans: p.append(made(e, w)), given))
        counts.append(Compared.times)
        assert len(plans[0].problems) == len(lost)
    assert exponent(sizes, counts) <= 1.1
    assert exponent(sizes, operated) <= 1.1


def test_values_that_are_left_out_are_not_copied_for_each_other(monkeypatch):
    """What is laid over an estate is laid over it once, whatever was tried before."""
    sizes, counts = (40, 80, 160), []
    own = Layered._own
    for size in sizes:
        copied = []
        monkeypatch.setattr(Layered, "_own", lambda self, c=copied: c.extend(self._record.entries) or own(self))
        found = of_vms(size, even=True)
        bad = [
            found[vm(n).ref].having({"config.hardware.device": ({"_typeName": "VirtualVmxnet3Vrdma"},)})
            for n in range(1, size + 1)
        ]
        plan = made(found.with_objects(bad), upgraded(size))
        assert len(plan.problems) >= size
        counts.append(1 + len(copied))
    assert exponent(sizes, counts) <= 1.1
