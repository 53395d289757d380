"""Rules of sets beside windows, and power-ons tied to moments: which edges can be added, in how many looks."""

from __future__ import annotations

from itertools import pairwise

import pytest
from support.estates import ESX1, ESX2, estate, guest, host, vm
from support.growing import exponent

from vsphere_ai.model.cluster_rules import WantedRules
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Clone, ClusterRules, PowerOn, Step
from vsphere_ai.planning.scheduling import step_order
from vsphere_ai.planning.scheduling.rules_first import beside_windows
from vsphere_ai.planning.scheduling.step_order import can_be_ordered, that_can_be_added

DATACENTER = Target("datacenter", "DC0", "Datacenter:dc-1")
ON_1, ON_2, SOURCE = vm(1), vm(2), vm(3)
HERE = estate(host(ESX1), host(ESX2), guest(ON_1, ESX1), guest(ON_2, ESX2), guest(SOURCE, ESX2))


def rules(*vms, overridden=(), ready=False):
    wanted = WantedRules("n", tuple(v.ref for v in vms), "must", overridden=tuple(v.ref for v in overridden))
    return ClusterRules(target=DATACENTER, summary="rules", cluster="c", wanted=wanted, ready=ready)


def clone(of=ON_2, source=SOURCE, canary=""):
    return {
        of: [Clone(target=of, summary="clone", source=source.ref, folder="f", name=of.name, spec={}, canary=canary)]
    }


def come_first(step, windows, chains=None, by_drs=()):
    found = beside_windows([step], chains or {}, windows, [v.ref for v in by_drs], HERE)
    assert {*found.first, *found.later} == {step}
    return bool(found.first)


def test_rules_of_vms_that_are_there_come_first():
    assert come_first(rules(ON_1, ON_2), {ESX1, ESX2}, by_drs=[ON_1])


@pytest.mark.parametrize(
    ("windows", "chains", "first"),
    [
        ({ESX1}, clone(), True),
        ({ESX2}, clone(), False),
        ({ESX1}, clone(ON_2, ON_1), False),
        ({ESX1}, clone(canary=ON_1.ref), False),
        # a clone of another set
        ({ESX2}, clone(SOURCE), True),
    ],
)
def test_rules_wait_for_clones_that_wait_for_a_window(windows, chains, first):
    """Of the host of the new VM, or of its source; the guest of the first clone of an image is waited for."""
    assert come_first(rules(ON_1, ON_2), windows, chains) is first


def test_what_keeps_drs_from_a_move_comes_after_it():
    step = rules(ON_1, overridden=[ON_1])
    assert not come_first(step, {ESX1}, by_drs=[ON_1])
    assert come_first(step, {ESX1})
    begin, end = (PowerOn(target=ESX1, summary=word) for word in ("begin", "end"))
    found = beside_windows([step], {}, {ESX1}, [ON_1.ref], HERE)
    edges = found.edges({ON_1.ref: ESX1}, {}, {ESX1: [begin]}, {ESX1: [begin, end]})
    assert [*edges] == [(end, step)]


def test_moves_by_drs_and_by_the_run_wait_for_the_rules():
    step, begin, other = rules(ON_1), *(PowerOn(target=h, summary="begin") for h in (ESX1, ESX2))
    found, chains = beside_windows([step], {}, {ESX1, ESX2}, [], HERE), {ESX1: [begin], ESX2: [other]}
    assert [*found.edges({ON_1.ref: ESX1}, {}, chains, chains)] == [(step, begin)]
    assert [*found.edges({}, {ON_1.ref: ESX1}, chains, chains)] == [(step, begin)]
    assert [*found.edges({ON_2.ref: ESX2}, {}, chains, chains)] == []


def test_rules_once_guests_are_ready_are_not_waited_for():
    assert not come_first(rules(ON_1, ready=True), {ESX1})


# -- edges


def steps(number):
    return [[Step(target=vm(n), summary=str(n))] for n in range(number)]


def added(chains, groups, edges=()):
    return that_can_be_added(chains, [], edges, groups)


def test_what_fits_is_added_in_order():
    """The second group contradicts the first one, the last one what is there."""
    (a,), (b,), (c,) = chains = steps(3)
    assert added(chains, [[(a, b)], [(b, a)], [(b, c)], [(c, a)], []]) == [0, 2, 4]
    assert added(chains, [[(a, b)], [(b, c)]], [(c, a)]) == [0]
    assert added(chains, []) == []


def one_by_one(chains, groups):
    held, kept = [], []
    for at, group in enumerate(groups):
        if can_be_ordered(chains, [], [*held, *group]):
            held += group
            kept.append(at)
    return kept


@pytest.mark.parametrize("every", [3, 5, 16])
def test_it_is_what_adding_one_after_another_adds(every):
    chains = steps(40)
    flat = [chain[0] for chain in chains]
    groups = [[(b, a) if n % every == 0 else (a, b)] for n, (a, b) in enumerate(pairwise(flat))]
    groups += [[(flat[n], flat[0])] for n in range(1, 40, 7)]
    assert added(chains, groups) == one_by_one(chains, groups)


@pytest.mark.parametrize("contradicts", [0, 1])
def test_looks_at_all_steps_do_not_grow_with_the_groups(monkeypatch, contradicts):
    looks = []

    def counting(*given):
        looks[-1] += 1
        return can_be_ordered(*given)

    monkeypatch.setattr(step_order, "can_be_ordered", counting)
    sizes = (100, 200, 400, 800)
    for size in sizes:
        looks.append(0)
        chains = steps(size)
        groups = [[(a[0], b[0])] for a, b in pairwise(chains)]
        groups += [[(chains[-1][0], chains[0][0])]] * contradicts
        assert len(added(chains, groups)) == size - 1
    assert looks[-1] <= 1 + 2 * 10 * contradicts
    assert exponent(sizes, looks) < 0.5
