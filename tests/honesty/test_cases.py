"""The cases: the same for the same seed, and nothing that can go wrong is left out."""

from __future__ import annotations

import pytest
import yaml
from honesty import cases, faults
from honesty.strikes import STRIKES

from vsphere_ai.lab.faults.rules import ON_GUESTS, WORDS

ALONE = cases.alone()


def test_the_same_seed_gives_the_same_case():
    assert [cases.case(5, n).scenario() for n in range(60)] == [cases.case(5, n).scenario() for n in range(60)]
    assert cases.case(5, 70).playbook() != cases.case(6, 70).playbook()


def test_every_fault_has_its_case_alone_and_both_answers_are_due():
    """What may not be refused is as much of the promise as what has to be."""
    drawn = [cases.case(1, n) for n in range(300)]
    assert [f.name for c in drawn[: len(faults.FAULTS)] for f in c.faults] == sorted(faults.FAULTS)
    due = {any(f.spoils(c, f.about) for f in c.faults) for c in drawn if not c.strikes}
    assert due == {True, False}
    possible = sum(not any(f.spoils(c, f.about) for f in c.faults) for c in drawn)
    assert 90 < possible < 210


def test_a_case_is_written_as_files_that_repeat_it(tmp_path):
    made = cases.case(1, 3)
    made.write(tmp_path)
    assert {p.name for p in tmp_path.iterdir()} >= {"scenario.yml", "playbook.yml"}
    from vsphere_ai.lab.scenario_file import load

    assert len(load(tmp_path / "scenario.yml").hosts) == len(made.hosts)
    assert len(yaml.safe_load((tmp_path / "playbook.yml").read_text())) == len(made.plays)


@pytest.mark.parametrize("draw", [cases.drawing.draw, cases.small])
def test_every_strike_has_its_case_alone_in_which_there_is_something_to_strike(draw):
    for number in range(len(faults.FAULTS), len(ALONE)):
        made = cases.case(1, number, draw)
        assert made.strikes == [STRIKES[ALONE[number]].rule]
        assert not made.faults
        assert STRIKES[ALONE[number]].met(made)


def test_every_fault_of_the_lab_is_drawn():
    """What the lab can do wrong happens before planning or during the run of some case that has nothing else.

    `hold` is a `hang` that lets go when a test says so. The first boot of a guest is of VMs that a run makes; the
    farms of these cases have their VMs. What vCenter's own checks answer otherwise than the plan is a finding of it,
    and is no fault of the farm (`tests/e2e/test_second_opinion.py`).
    """
    first_boot = {word for word, methods in ON_GUESTS.items() if "PowerOnVM_Task" in methods}
    before = {"certificate": "cert-swap", "away": "power-loss", "alarm": "raise-alarm", "maintenance": ""}
    drawn = [cases.case(seed, n) for seed in range(5) for n in range(len(ALONE))]
    rules = [rule["do"] for case in drawn for rule in (*case.rules, *case.strikes)]
    words = {str(next(iter(do)) if isinstance(do, dict) else do) for do in rules}
    words |= {before[what] for case in drawn for what, _ in case.before}
    assert WORDS.keys() - words == {"hold", "check-finds", "check-passes", *first_boot} - {
        "address-taken",
        "gateway-silent",
    }
