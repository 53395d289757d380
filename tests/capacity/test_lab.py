"""Every verdict confirmed by powering VMs on in the lab, which knows nothing of the solver."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.capacity_judges import (
    MIG,
    SLICED,
    demands,
    farm,
    names,
    powers_on,
    some_assignment_survives,
    some_order_powers_on,
)

from vsphere_ai.capacity.solve import solve
from vsphere_ai.capacity.verdict import Fit, NoFit, occupied


def judged(hosts, wanted, policy):
    """The answer, once the lab has confirmed it: every place of a fit, every order of a refusal."""
    answer = solve(farm(hosts, policy), demands(wanted, hosts))
    assert answer.exact
    if isinstance(answer, Fit):
        got = powers_on(hosts, wanted, answer.assignment, policy)
        assert {
            vm: tuple((p.gpu, p.profile, p.start) for p in given) for vm, (_, given) in answer.assignment.items()
        } == got
    else:
        assert not some_order_powers_on(hosts, wanted, policy)
    return answer


def test_every_mix_of_five_profiles_on_one_gpu():
    fits = 0
    sizes = names("1-5c", "1-10c", "2-10c", "3-20c", "4-20c")
    for counts in itertools.product(range(0, 5, 2), range(3), range(3), range(3), range(2)):
        wanted = {f"{s}-{n}": (s,) for s, count in zip(sizes, counts, strict=True) for n in range(count)}
        fits += isinstance(judged({"esx1": [True]}, wanted, "performance"), Fit)
    assert fits > 25


@pytest.mark.parametrize("policy", ["performance", "consolidation"])
def test_every_mix_of_sizes_on_two_time_sliced_gpus(policy):
    fits = 0
    for counts in itertools.product(range(3), range(0, 5, 2), range(0, 6, 5), range(0, 4, 3)):
        wanted = {
            f"{s}-{n}": (s,)
            for s, count in zip(names("40c", "20c", "10c", "8c"), counts, strict=True)
            for n in range(count)
        }
        fits += isinstance(judged({"esx1": [False, False]}, wanted, policy), Fit)
    assert fits > 5


@st.composite
def questions(draw):
    hosts = {f"esx{n}": draw(st.lists(st.booleans(), min_size=1, max_size=2)) for n in range(draw(st.integers(1, 2)))}
    pool = names(*draw(st.lists(st.sampled_from([*MIG, *SLICED]), min_size=1, max_size=4, unique=True)))
    profiles = st.lists(st.sampled_from(pool), min_size=1, max_size=2)
    wanted = draw(st.lists(profiles, min_size=1, max_size=7))
    return (
        hosts,
        {f"vm{n}": tuple(p) for n, p in enumerate(wanted)},
        draw(st.sampled_from(["performance", "consolidation"])),
    )


@settings(max_examples=150, deadline=None, derandomize=True)
@given(questions())
def test_fits_and_does_not_fit_are_confirmed_by_the_lab(question):
    judged(*question)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(questions(), st.data())
def test_a_vm_less_never_makes_it_not_fit(question, data):
    hosts, wanted, policy = question
    if isinstance(solve(farm(hosts, policy), demands(wanted, hosts)), Fit):
        gone = data.draw(st.sampled_from(sorted(wanted)))
        fewer = {vm: p for vm, p in wanted.items() if vm != gone}
        assert isinstance(solve(farm(hosts, policy), demands(fewer, hosts)), Fit)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(questions())
def test_with_a_spare_host_the_vms_of_any_lost_host_power_on_elsewhere(question):
    hosts, wanted, policy = question
    answer = solve(farm(hosts, policy), demands(wanted, hosts), spare_hosts=1)
    if isinstance(answer, NoFit):
        lost = set(answer.lost)
        left = {h: modes for h, modes in hosts.items() if h not in lost}
        if lost and answer.exact:
            assert not left or not some_order_powers_on(left, wanted, policy)
        return
    after = occupied(farm(hosts, policy), answer)
    for lost in hosts:
        moved = [d for d in demands(wanted, [h for h in hosts if h != lost]) if answer.assignment[d.name][0] == lost]
        assert isinstance(solve(after.without([lost]), moved), Fit)


@st.composite
def small_questions(draw):
    hosts = {f"esx{n}": draw(st.sampled_from([(True,), (True,), (False,), (True, False)])) for n in range(3)}
    pool = names(*draw(st.lists(st.sampled_from([*MIG, "40c", "20c"]), min_size=1, max_size=3, unique=True)))
    wanted = draw(st.lists(st.lists(st.sampled_from(pool), min_size=1, max_size=2), min_size=2, max_size=4))
    return {h: list(modes) for h, modes in hosts.items()}, {f"vm{n}": tuple(p) for n, p in enumerate(wanted)}


@settings(max_examples=60, deadline=None, derandomize=True)
@given(small_questions())
def test_a_spare_host_is_judged_by_trying_every_assignment(question):
    hosts, wanted = question
    answer = solve(farm(hosts), demands(wanted, hosts), spare_hosts=1)
    assert answer.exact
    fits = isinstance(answer, Fit)
    assert fits == some_assignment_survives(hosts, wanted)
