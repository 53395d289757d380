"""Hosts whose GPUs have room that no power-on order uses: other assignments are tried."""

from __future__ import annotations

import pytest
from support.capacity_judges import pci

from vsphere_ai.capacity import assign, first_fit, place, power_on_order, restart
from vsphere_ai.capacity.solve import solve
from vsphere_ai.capacity.verdict import Fit, GpuHosts, NoFit, Undecided, VmDemand
from vsphere_ai.gpu.catalog import board
from vsphere_ai.gpu.vgpus.slot import GpuSlot

TWO = frozenset({"esx1", "esx2"})
SLOTS = tuple(GpuSlot(h, pci(n), board("a100-40gb"), "mig") for h in sorted(TWO) for n in range(2))
PAIR = ("grid_a100-3-20c",) * 2


class Never(first_fit.FirstFit):
    def place(self, *_):
        return None


@pytest.fixture
def refusing(monkeypatch):
    """Hosts on which no order is found for VMs a test names."""
    real = place.find_order

    def refuse(test):
        for module in (power_on_order, place):
            monkeypatch.setattr(
                module, "find_order", lambda host, vms, *more: None if test(host, vms) else real(host, vms, *more)
            )
        # the first fit powers VMs on without looking for an order, which these hosts would refuse
        for module in (place, restart):
            monkeypatch.setattr(module, "FirstFit", Never)

    return refuse


def vms(*profiles, hosts=TWO):
    return [VmDemand(f"vm{n}", p, hosts) for n, p in enumerate(profiles)]


def test_vms_with_one_vgpu_make_way(refusing):
    refusing(lambda host, vms: len(vms) > 1)
    answer = solve(GpuHosts(SLOTS), vms(PAIR, PAIR[:1]))
    assert isinstance(answer, Fit)
    assert answer.exact
    assert {host for host, _ in answer.assignment.values()} == TWO


def test_where_every_assignment_was_tried_the_refusal_is_certain(refusing):
    refusing(lambda host, vms: len(vms) > 1)
    answer = solve(GpuHosts(SLOTS), vms(PAIR, PAIR, PAIR[:1]))
    assert isinstance(answer, NoFit)
    assert answer.exact
    assert answer.no_order
    assert "in no power-on order" in answer.explanation
    # and after a loss it is no room at all
    refusing(lambda host, vms: len(vms) > 1 or any(s.running for s in host.slots))
    lost = solve(GpuHosts(SLOTS), vms(PAIR, PAIR), spare_hosts=1)
    assert isinstance(lost, NoFit)
    assert "in no power-on order" in lost.explanation


@pytest.mark.parametrize("home", [TWO, frozenset({"esx1"})])
def test_in_a_large_estate_those_with_one_vgpu_make_way_then_those_with_several(monkeypatch, refusing, home):
    monkeypatch.setattr(place, "EXACT_GPUS", 1)
    monkeypatch.setattr(assign, "EXACT_GPUS", 1)
    refusing(lambda host, vms: len(vms) > 1)
    answer = solve(GpuHosts(SLOTS), [*vms(PAIR), VmDemand("one", PAIR[:1], home)])
    assert isinstance(answer, Fit)
    assert answer.exact
    assert {host for host, _ in answer.assignment.values()} == TWO


def test_an_order_found_by_the_long_search_is_the_one_to_follow(monkeypatch):
    monkeypatch.setattr(place, "find_order", lambda *_: None)
    sizes = ("grid_a100-2-10c", "grid_a100-2-10c", "grid_a100-3-20c")
    answer = solve(GpuHosts(SLOTS[:1]), vms(*((s,) for s in sizes), hosts=frozenset({"esx1"})))
    assert isinstance(answer, Fit)
    assert (answer.exact, answer.order[0]) == (True, "vm2")


def test_after_many_refusals_nothing_is_certain(monkeypatch, refusing):
    monkeypatch.setattr(assign, "ROUNDS", 1)
    refusing(lambda host, vms: len(vms) > 1)
    answer = solve(GpuHosts(SLOTS), vms(PAIR, PAIR, PAIR[:1]))
    assert isinstance(answer, Undecided)
    assert answer.no_order
    assert {host for host, _ in answer.assignment.values()} == TWO
