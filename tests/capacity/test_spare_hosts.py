"""VMs that have to find GPUs again after hosts were lost."""

from __future__ import annotations

import itertools

import pytest
from support.capacity_estates import small
from support.capacity_judges import pci

from vsphere_ai.capacity import assign, milp, power_on_order, spare_hosts
from vsphere_ai.capacity.host import HostGpus
from vsphere_ai.capacity.power_on_order import Budget, every_end
from vsphere_ai.capacity.solve import solve
from vsphere_ai.capacity.verdict import Fit, GpuHosts, NoFit, Undecided, VmDemand, occupied
from vsphere_ai.gpu.catalog import board
from vsphere_ai.gpu.vgpus.slot import GpuSlot, StayingVgpu

A100 = board("a100-40gb")
HOSTS = frozenset({"esx1"})
TWO = frozenset({"esx1", "esx2"})


def gpu(mode="mig", number=0, host="esx1", of=A100, **more):
    return GpuSlot(host, pci(number), of, mode, **more)


def vms(*profiles, hosts=HOSTS):
    """One VM per profile, named by number."""
    return [VmDemand(f"vm{n}", (p,) if isinstance(p, str) else p, hosts) for n, p in enumerate(profiles)]


def test_vms_that_run_restart_elsewhere():
    busy = gpu(host="esx1", running=(StayingVgpu("old", "grid_a100-4-20c", 0),))
    old = VmDemand("old", ("grid_a100-4-20c",), TWO, running_on="esx1")
    free = gpu(host="esx2")
    assert isinstance(solve(GpuHosts((busy, free)), [old], spare_hosts=1), Fit)
    new = VmDemand("new", ("grid_a100-4-20c",), frozenset({"esx2"}))
    answer = solve(GpuHosts((busy, free)), [old, new], spare_hosts=1)
    assert isinstance(answer, NoFit)
    assert answer.explanation.startswith("after the loss of esx1: ")
    assert (answer.lost, answer.exact) == (("esx1",), True)


THREE = frozenset({"esx0", "esx1", "esx2"})


def running_estate(*gpus_of_hosts):
    """GPUs of hosts, each None or (profile, start) of a VM that runs on it, and those VMs as demands."""
    slots, old = [], []
    for host, running in enumerate(gpus_of_hosts):
        for number, held in enumerate(running):
            vms_on = ()
            if held:
                vms_on = (StayingVgpu(f"old{host}{number}", f"grid_a100-{held[0]}", held[1]),)
                old.append(VmDemand(vms_on[0].vm, (vms_on[0].profile,), THREE, running_on=f"esx{host}"))
            slots.append(gpu(number=number, host=f"esx{host}", running=vms_on))
    return GpuHosts(tuple(slots)), old


def test_a_first_assignment_that_does_not_survive_is_replaced():
    farm_, old = running_estate([("1-5c", 6), None], [("1-5c", 6), None], [("1-5c", 0), ("2-10c", 2)])
    new = vms(*(f"grid_a100-{s}c" for s in ("3-20", "7-40", "4-20")), hosts=THREE)
    first, final = solve(farm_, new), solve(farm_, [*old, *new], spare_hosts=1)
    assert isinstance(final, Fit)
    assert final != first
    for lost in THREE:
        moved = [d for d in new if final.assignment[d.name][0] == lost]
        moved += [VmDemand(d.name, d.profiles, THREE) for d in old if d.running_on == lost]
        elsewhere = [VmDemand(d.name, d.profiles, THREE - {lost}) for d in moved]
        assert isinstance(solve(occupied(farm_, final).without([lost]), elsewhere), Fit)


def test_assignments_are_tried_one_by_one_when_mending_does_not_help(monkeypatch):
    farm_, old = running_estate([("3-20c", 4), None], [("1-5c", 6), ("1-5c", 0)], [None])
    new = vms(*(f"grid_a100-{s}c" for s in ("1-5", "7-40", "3-20", "2-10")), hosts=THREE)
    answer = solve(farm_, [*old, *new], spare_hosts=1)
    assert isinstance(answer, Fit)
    assert answer.exact
    assert spare_hosts.first_failure(farm_, [*old, *new], answer, [frozenset({h}) for h in THREE]) is None
    # cut short, it says that it does not know
    monkeypatch.setattr(spare_hosts, "_fixed", lambda *_: ())
    monkeypatch.setattr(assign, "ROUNDS", 0)
    answer = solve(farm_, [*old, *new], spare_hosts=1)
    assert isinstance(answer, Undecided)
    assert answer.explanation.startswith("no assignment was found that survives the loss of esx")


def test_two_spare_hosts():
    slots = tuple(gpu(host=f"esx{n}") for n in range(3))
    three = frozenset({"esx0", "esx1", "esx2"})
    assert isinstance(solve(GpuHosts(slots), vms("grid_a100-7-40c", hosts=three), spare_hosts=2), Fit)
    assert isinstance(solve(GpuHosts(slots), vms(*["grid_a100-7-40c"] * 2, hosts=three), spare_hosts=2), NoFit)


def losses_of(hosts):
    return [frozenset({h}) for h in sorted(hosts)]


def test_a_large_estate_is_fixed_where_it_does_not_survive(monkeypatch):
    monkeypatch.setattr(spare_hosts, "EXACT_GPUS", 1)
    farm_, old = running_estate([("1-5c", 6), None], [("1-5c", 6), None], [("1-5c", 0), ("2-10c", 2)])
    new = vms(*(f"grid_a100-{s}c" for s in ("3-20", "7-40", "4-20")), hosts=THREE)
    answer = solve(farm_, [*old, *new], spare_hosts=1)
    assert isinstance(answer, Fit)
    assert spare_hosts.first_failure(farm_, [*old, *new], answer, losses_of(THREE)) is None


def test_the_loss_of_one_host_is_told_in_words():
    busy = [gpu(host=h, running=(StayingVgpu(f"old-{h}", "grid_a100-7-40c", 0),)) for h in ("esx1", "esx2")]
    old = [VmDemand(f"old-{h}", ("grid_a100-7-40c",), TWO, running_on=h) for h in ("esx1", "esx2")]
    answer = solve(GpuHosts(tuple(busy)), old, spare_hosts=1)
    assert isinstance(answer, NoFit)
    assert (answer.lost, answer.exact) == (("esx1",), True)


def every_assignment(farm_, demands):
    """Every way to put the new VMs on hosts and to power them on there."""
    new = [d for d in demands if d.running_on is None]
    for homes in itertools.product(*(sorted(d.hosts) for d in new)):
        ends = []
        for name, slots in farm_.hosts.items():
            here = {d.name: tuple(sorted(d.profiles)) for d, home in zip(new, homes, strict=True) if home == name}
            ends.append([(name, s) for s in every_end(HostGpus(slots, "performance"), here, Budget(100_000))])
        for chosen in itertools.product(*ends):
            yield Fit({vm: (host, given) for host, spread in chosen for vm, given in spread.items()})


@pytest.mark.parametrize("seed", [24, 138, 458, 532, 619, 784, 2367, 2395, 4753])
def test_the_programme_decides_where_mending_does_not(monkeypatch, seed):
    """Seeds that take the different ways through it: other ends, no orders, assignments ruled out one by one."""
    monkeypatch.setattr(spare_hosts, "_fixed", lambda *_: ())
    farm_, demands = small(seed)
    answer = solve(farm_, demands, spare_hosts=1)
    assert answer.exact
    if isinstance(answer, Fit):
        assert spare_hosts.first_failure(farm_, demands, answer, losses_of(THREE)) is None
    else:
        assert not any(
            spare_hosts.first_failure(farm_, demands, fit, losses_of(THREE)) is None
            for fit in every_assignment(farm_, demands)
        )


@pytest.mark.parametrize("seed", [24, 138, 458])
def test_mending_saves_time_only(monkeypatch, seed):
    answer = solve(*small(seed), spare_hosts=1)
    monkeypatch.setattr(spare_hosts, "FIXES", 0)
    other = solve(*small(seed), spare_hosts=1)
    assert (type(other), other.exact) == (type(answer), answer.exact)
    # too large for the programme, it says that it does not know
    monkeypatch.setattr(spare_hosts, "EXACT_GPUS", 1)
    monkeypatch.setattr(spare_hosts, "_fixed", lambda *_: ())
    assert not solve(*small(seed), spare_hosts=1).exact


def test_orders_that_are_too_many_to_try_leave_it_undecided(monkeypatch):
    monkeypatch.setattr(spare_hosts, "_fixed", lambda *_: ())
    monkeypatch.setattr(power_on_order, "ORDER_STEPS", 0)
    assert isinstance(solve(*small(2367), spare_hosts=1), Undecided)


@pytest.mark.parametrize("seed", [18, 57, 70, 82, 24, 138, 458])
def test_the_early_proof_saves_time_only(monkeypatch, seed):
    answer = solve(*small(seed), spare_hosts=1)
    monkeypatch.setattr(spare_hosts, "_nowhere", lambda *_: None)
    monkeypatch.setattr(spare_hosts, "FIXES", 2)
    other = solve(*small(seed), spare_hosts=1)
    assert (type(other), other.exact) == (type(answer), True)


def test_what_a_host_cannot_do_is_ruled_out_for_that_host_and_not_assignment_by_assignment(monkeypatch):
    asked, solved = [], milp.Programme.solve
    monkeypatch.setattr(milp.Programme, "solve", lambda self: asked.append(self) or solved(self))
    answer = solve(*small(5033), spare_hosts=1)
    assert (type(answer), answer.exact) == (NoFit, True)
    assert len(asked) < 100  # 187 when every assignment was ruled out by itself
