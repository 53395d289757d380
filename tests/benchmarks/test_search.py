"""Searches for slow parts on simulated sets of VMs, against what was planted."""

from __future__ import annotations

import random
from dataclasses import replace
from math import ceil, log2, sqrt

import pytest
from support.slow_farms import Fleet, Planted, farm

from vsphere_ai.benchmarks.slow_part.bisect import Cell, SlowCell, narrow
from vsphere_ai.benchmarks.slow_part.search import search
from vsphere_ai.benchmarks.slow_part.trials import Judge, Trial, can_share, together
from vsphere_ai.benchmarks.slow_part.verdict import accused

SEEDS = 100


def switches(nodes):
    return sorted({rail.switch_port.split()[0] for node in nodes for rail in node.rails})


def plant(kind, nodes, rng, slowdown):
    vms, rails, gpus = [n.vm for n in nodes], range(8), range(8)
    made = {
        "healthy": lambda: {},
        "one VM": lambda: {"vms": (rng.choice(vms),)},
        "two VMs": lambda: {"vms": tuple(rng.sample(vms, 2))},
        "a GPU": lambda: {"gpus": ((rng.choice(vms), rng.choice(gpus)),)},
        "an uplink": lambda: {"rails": ((rng.choice(vms), rng.choice(rails)),)},
        "a switch pair": lambda: {"links": (tuple(rng.sample(switches(nodes), 2)),)},
        "a rail of all": lambda: {"fabric_rails": (rng.choice(rails),)},
    }
    return Planted(slowdown=slowdown, **made[kind]())


def verdict_of(outcome):
    return {
        "vms": {e.vm for e in outcome.vms if e.layer == "vm"},
        "gpus": {(e.vm, g) for e in outcome.vms if e.layer == "gpu" for g in e.gpus},
        "rails": {(e.vm, e.rail) for e in outcome.vms if e.layer == "rail"},
        "inside": {e.vm for e in outcome.vms if e.layer == "inside"},
        "links": {frozenset((e.one.name, e.other.name)) for e in outcome.links},
        "fabric_rails": set(outcome.rails),
        "rest": {*outcome.unresolved, *(["all"] * outcome.all_slow)},
    }


def truth_of(planted):
    return {
        "vms": set(planted.vms),
        "gpus": set(planted.gpus),
        "rails": set(planted.rails),
        "inside": set(),
        "links": {frozenset(pair) for pair in planted.links},
        "fabric_rails": set(planted.fabric_rails),
        "rest": set(),
    }


KINDS = ("healthy", "one VM", "two VMs", "a GPU", "an uplink", "a switch pair", "a rail of all")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("slowdown", "runs"), [(0.25, 1), (0.15, 3)])
@pytest.mark.parametrize("count", [16, 64, 256])
def test_what_is_planted_is_found(count, slowdown, runs, kind):
    right, most_rounds, most_trials = 0, 0, 0
    for seed in range(SEEDS):
        rng = random.Random(f"{seed} {count}")
        nodes = farm(count, per_host=rng.choice([1, 1, 2]))
        planted = plant(kind, nodes, rng, slowdown)
        fleet = Fleet(nodes, planted, seed)
        outcome = fleet.run(search(nodes, Judge(slowdown, runs)))
        found, truth = verdict_of(outcome), truth_of(planted)
        right += found == truth
        guilty = {*planted.vms, *(vm for vm, _ in (*planted.gpus, *planted.rails))}
        assert {e.vm for e in outcome.vms} <= guilty, "a healthy VM is accused"
        most_rounds, most_trials = max(most_rounds, len(fleet.rounds)), max(most_trials, fleet.trials)
    bad = 0 if kind == "healthy" else 2 if kind == "two VMs" else 1
    assert right >= 0.99 * SEEDS
    assert most_rounds <= log2(count) + 4
    # three screens of about √N groups
    assert most_trials <= 2 * bad * log2(count) + 3 * ceil(sqrt(count)) + 12


@pytest.mark.parametrize("kind", ["healthy", "one VM", "a GPU", "an uplink"])
@pytest.mark.parametrize("count", [3, 4, 5, 8])
def test_of_few_vms_every_pair_is_measured(count, kind):
    right = 0
    for seed in range(SEEDS):
        rng = random.Random(f"{seed} {count} few")
        nodes = farm(count)
        planted = plant(kind, nodes, rng, 0.25)
        fleet = Fleet(nodes, planted, seed)
        right += verdict_of(fleet.run(search(nodes, Judge(0.25, 3)))) == truth_of(planted)
    assert right >= 0.99 * SEEDS


def test_of_two_vms_none_can_be_named():
    nodes = farm(2)
    slow = Fleet(nodes, Planted(vms=("vm-001",)), noise=0.0)
    outcome = slow.run(search(nodes, Judge(reference=190.0)))
    assert outcome.unresolved == ("vm-000", "vm-001")
    assert Fleet(nodes, Planted()).run(search(nodes, Judge(reference=190.0))).is_clean


def test_three_slow_vms_and_a_slow_link_at_once():
    nodes = farm(64)
    planted = Planted(vms=("vm-003", "vm-021", "vm-050"), links=(("leaf00", "leaf02"),))
    fleet = Fleet(nodes, planted, seed=5)
    outcome = fleet.run(search(nodes, Judge(reference=190.0)))
    assert verdict_of(outcome) == truth_of(planted)


def test_without_known_switches_and_hosts_the_vm_is_found():
    nodes = [replace(n, host="", rails=tuple(replace(r, switch_port="") for r in n.rails)) for n in farm(32)]
    planted = Planted(vms=("vm-017",))

    class Blind(Fleet):
        def is_slow(self, trial):
            return "vm-017" in trial.vms and len(trial.vms) > 1

    assert verdict_of(Blind(nodes, planted).run(search(nodes, Judge()))) == truth_of(planted)


def test_everything_slow_against_a_known_reference_names_no_vm():
    nodes = farm(16, rails=1)
    fleet = Fleet(nodes, Planted(), healthy=120.0)
    outcome = fleet.run(search(nodes, Judge(reference=190.0)))
    assert (outcome.all_slow, outcome.vms, outcome.links) == (True, (), ())
    assert [each.kind for each in accused(outcome, nodes)] == ["all"]


def test_a_vm_without_measurement_is_found_and_not_passed():
    nodes = farm(16)

    class Silent(Fleet):
        def bandwidth(self, trial):
            return None if "vm-005" in trial.vms else super().bandwidth(trial)

    outcome = Silent(nodes, Planted()).run(search(nodes, Judge()))
    assert [e.vm for e in outcome.vms] == ["vm-005"]


def test_nothing_at_all_is_measured():
    class Dead(Fleet):
        def bandwidth(self, trial):
            return None

    for count in (2, 5, 16):
        nodes = farm(count)
        assert not Dead(nodes, Planted()).run(search(nodes, Judge())).is_clean


def test_a_slow_group_that_is_fast_again_was_transient():
    nodes = farm(16)

    class Once(Fleet):
        def is_slow(self, trial):
            return trial.why == "across" and "vm-000" in trial.vms

    outcome = Once(nodes, Planted()).run(search(nodes, Judge(reference=190.0)))
    assert (outcome.transient, outcome.is_clean) == (1, True)


def test_a_single_slow_pair_of_hosts_is_a_link():
    """Known to nothing but its own two VMs; the screens see it where a group has both."""
    nodes = [replace(n, rails=(replace(n.rails[0], switch_port=""),)) for n in farm(16)]

    class Pair(Fleet):
        def is_slow(self, trial):
            return {"vm-001", "vm-002"} <= set(trial.vms)

    outcome = Pair(nodes, Planted()).run(search(nodes, Judge(reference=190.0)))
    assert verdict_of(outcome)["links"] == {frozenset(("esx001.lab.local", "esx002.lab.local"))}
    assert outcome.vms == ()


def carried_out(running, answer):
    """Carry out a search; return what it found, and its rounds."""
    rounds, results = [], None
    while True:
        try:
            rounds.append(running.send(results))
        except StopIteration as done:
            return done.value, rounds
        results = {trial: answer(trial) for trial in rounds[-1]}


def test_bisection_pads_a_vm_that_would_be_alone():
    cells = [Cell(f"vm-{at}", (f"vm-{at}",)) for at in range(5)]
    good = [f"good-{at}" for at in range(6)]
    for bad in range(5):
        answer = lambda trial: 70.0 if f"vm-{bad}" in trial.vms else 100.0  # noqa: B023, E731
        found, rounds = carried_out(narrow(cells, Judge(reference=100.0), good), answer)
        assert found == (SlowCell(cells[bad]),)
        assert sum(map(len, rounds)) <= 8
        assert all(len(trial.vms) > 1 for trials in rounds for trial in trials)


def test_gpus_of_a_vm_can_be_measured_at_once_and_vms_not():
    assert can_share([Trial(("a",), gpus=(0, 1)), Trial(("a",), gpus=(2, 3))])
    assert not can_share([Trial(("a",), gpus=(0, 1)), Trial(("a",), gpus=(1, 2))])
    assert not can_share([Trial(("a",), gpus=(0, 1)), Trial(("a", "b"))])
    assert not can_share([Trial(("a", "b")), Trial(("b", "c"))])


def test_searches_side_by_side_wait_for_their_vms():
    def one(trial, times):
        for _ in range(times):
            yield (trial,)
        return trial.vms

    running = together([one(Trial(("a", "b")), 2), one(Trial(("b", "c")), 1), one(Trial(("d", "e")), 3)])
    found, rounds = carried_out(running, lambda trial: None)
    assert found == [("a", "b"), ("b", "c"), ("d", "e")]
    assert all(map(can_share, rounds))
    assert sum(map(len, rounds)) == 6
    assert len(rounds) == 3


def only(planted, nodes, seed=1):
    outcome = Fleet(nodes, planted, seed).run(search(nodes, Judge()))
    (found,) = accused(outcome, nodes)
    return found


def test_the_verdict_names_the_uplink_and_its_switch_port():
    found = only(Planted(rails=(("vm-009", 3),)), farm(16))
    assert (found.kind, found.vm, found.host) == ("uplink", "vm-009", "esx009.lab.local")
    assert (found.vmnic, found.switch_port, found.rdma_device) == ("vmnic7", "leaf02 Eth1/3", "mlx5_3")


def test_the_verdict_names_the_gpu_by_its_address_on_the_host():
    found = only(Planted(gpus=(("vm-009", 5),)), farm(16))
    assert (found.kind, found.vm, found.gpu) == ("gpu", "vm-009", 5)
    assert (found.pci, found.uuid) == ("0000:15:00.0", "GPU-9-5")


def test_the_verdict_names_a_host_whose_vms_are_all_slow():
    found = only(Planted(vms=("vm-008", "vm-009")), farm(32, per_host=2))
    assert (found.kind, found.host, found.vm) == ("host", "esx004.lab.local", "")


def test_the_verdict_names_the_ends_of_a_link_and_a_rail():
    assert set(only(Planted(links=(("leaf01", "leaf03"),)), farm(64)).ends) == {"leaf01", "leaf03"}
    assert "rail 6" in only(Planted(fabric_rails=(6,)), farm(64)).message
