"""VM or iron: two VMs change hosts, and the slowdown follows the VM or stays with the host."""

from __future__ import annotations

import random
from dataclasses import replace
from statistics import median

import pytest
from support.slow_farms import farm

from vsphere_ai.benchmarks.slow_part.crossover import ANSWERS, crossover
from vsphere_ai.benchmarks.slow_part.trials import Judge


def answered(nodes, slow, seed, slowdown=0.25, runs=1):
    """Carry out a crossover on hosts and VMs of which some are slow; returns the answer and the number of trials."""
    rng = random.Random(seed)
    at = {node.vm: node.host for node in nodes}
    swap = crossover(nodes[0], nodes[1], (nodes[2].vm, nodes[3].vm), Judge(slowdown, runs))

    def measured():
        found = {}
        for trial in swap.trials:
            parts = {each for vm in trial.vms for each in (vm, at[vm])}
            level = 190.0 * (1 - slowdown * bool(parts & slow))
            found[trial] = median(rng.gauss(level, 0.03 * level) for _ in range(trial.runs))
        return found

    before, after, count = measured(), None, 2
    if swap.is_reproduced(before):
        at.update((move.vm, move.host) for move in swap.moves)
        after, count = measured(), 4
        assert {at[move.vm] for move in swap.moves} == {move.host for move in swap.moves}
    return swap.answer(before, after), count


@pytest.mark.parametrize(("slowdown", "runs"), [(0.25, 1), (0.15, 3)])
@pytest.mark.parametrize("answer", ["vm", "host", "both", "not-reproduced"])
def test_the_planted_side_is_named_in_four_trials(answer, slowdown, runs):
    nodes = farm(4)
    slow = {"vm": {nodes[0].vm}, "host": {nodes[0].host}, "both": {nodes[0].vm, nodes[0].host}}.get(answer, set())
    found = [answered(nodes, slow, seed, slowdown, runs) for seed in range(100)]
    assert {each for each, _ in found} == {answer}
    assert max(count for _, count in found) <= 4
    assert answer in ANSWERS


def test_a_slowdown_of_the_two_together_is_neither():
    nodes = farm(4)
    swap = crossover(nodes[0], nodes[1], ("vm-002", "vm-003"), Judge())
    one, other = swap.trials
    assert swap.answer({one: 140.0, other: 190.0}, {one: 188.0, other: 189.0}) == "neither"
    assert swap.answer({one: 140.0, other: 190.0}, {one: 188.0, other: None}) == "not-measured"
    assert swap.answer({one: None, other: 190.0}, None) == "not-measured"


def test_vgpus_move_running_and_whole_devices_powered_off():
    nodes = farm(4)
    vgpus = [replace(n, gpus=tuple(replace(g, profile="nvidia_a100-40c") for g in n.gpus)) for n in nodes]
    for of, cold in ((nodes, True), (vgpus, False)):
        swap = crossover(of[0], of[1], ("vm-002", "vm-003"), Judge())
        assert [(m.vm, m.host, m.cold) for m in swap.moves] == [
            ("vm-000", "esx001.lab.local", cold),
            ("vm-001", "esx000.lab.local", cold),
        ]


def test_a_swap_on_one_host_or_with_itself_is_refused():
    nodes = farm(4, per_host=2)
    with pytest.raises(ValueError, match="one host"):
        crossover(nodes[0], nodes[1], ("vm-002", "vm-003"), Judge())
    with pytest.raises(ValueError, match="partners"):
        crossover(nodes[0], nodes[2], ("vm-002", "vm-003"), Judge())


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ("vm", "fail"),
        ("host", "fail"),
        ("both", "fail"),
        ("neither", "unknown"),
        ("not-reproduced", "pass"),
        ("not-measured", "unknown"),
    ],
)
def test_an_answer_is_a_finding_about_the_slow_side(answer, verdict):
    nodes = farm(4)
    swap = crossover(nodes[0], nodes[1], ("vm-002", "vm-003"), Judge())
    found = swap.finding(answer)
    name = nodes[0].host if answer == "host" else nodes[0].vm
    assert (found.verdict, found.target.name) == (verdict, name)
    assert bool(found.evidence) == (answer in ("host", "both")), "only parts of the host may be why"
