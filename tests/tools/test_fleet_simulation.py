"""The simulation of fleets: its rules hold at every moment, the guide's formulas within their bounds, and its table."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import fleet_simulation as simulation  # noqa: E402 - a script, not a package
from fleet_simulation import Fleet, Simulation  # noqa: E402

GUIDE = ROOT / "docs" / "how-to" / "many-vcenters.md"
SMALL = Fleet("small", sites=3, clusters=4, hosts=5, parallel=32, steps=(10.0, 5.0, 60.0))
CASES = [
    SMALL,
    replace(SMALL, max_unavailable=2),
    replace(SMALL, parallel=2),
    replace(SMALL, budget=1),
    replace(SMALL, budget=5, spread=0.5),
    replace(SMALL, losses=7, takeover=30.0),
    replace(SMALL, budget=4, parallel=1, losses=3, spread=0.3),
]


@pytest.mark.parametrize("fleet", CASES, ids=str)
def test_rules_and_formulas_hold_in_a_small_fleet(fleet):
    seen = Simulation(fleet).run()
    assert list(simulation.faults(fleet, seen)) == []
    assert seen.takeovers <= fleet.losses


def test_it_is_exact_where_that_can_be_told_by_hand():
    """One cluster: five windows of 75 s, one after the other; a budget of one: all sixty of them."""
    assert Simulation(SMALL).run().seconds == 5 * 75
    assert Simulation(replace(SMALL, budget=1)).run().seconds == 60 * 75
    assert Simulation(replace(SMALL, max_unavailable=5, parallel=20)).run().seconds == 75
    assert Simulation(replace(SMALL, sites=1, clusters=1, losses=1, takeover=1000)).run().seconds > 1000


def test_the_same_seed_gives_the_same_campaign_and_another_one_another():
    uneven = replace(SMALL, spread=0.5, losses=4)
    assert Simulation(uneven).run() == Simulation(uneven).run()
    assert Simulation(uneven).run() != Simulation(replace(uneven, seed=2)).run()


def test_what_breaks_a_rule_or_a_formula_is_found():
    seen = Simulation(SMALL).run()
    assert list(simulation.faults(replace(SMALL, budget=3), seen)), "twelve were out at once"
    assert list(simulation.faults(replace(SMALL, hosts=6), seen)), "not all hosts"
    assert list(simulation.faults(SMALL, replace(seen, seconds=seen.seconds * 2))), "much later than the formula"
    assert list(simulation.faults(SMALL, replace(seen, seconds=seen.seconds - 1))), "sooner than possible"


def test_hosts_that_wait_go_in_the_order_in_which_they_asked():
    """With a budget below the number of vCenters, each has had a window before any has its second one."""

    order = []

    class Noted(Simulation):
        def _start(self, site):
            if site.ready and site.ready[-1].at == 0:
                order.append(self.sites.index(site))
            super()._start(site)

    Noted(replace(SMALL, sites=4, clusters=1, budget=2)).run()
    assert sorted(order[:4]) == [0, 1, 2, 3]


def test_the_table_of_the_guide_is_what_the_simulation_prints():
    found = [(fleet, Simulation(fleet).run()) for fleet in simulation.CASES]
    assert [each for fleet, seen in found for each in simulation.faults(fleet, seen)] == []
    assert simulation.table(found) in GUIDE.read_text("utf-8"), "run: python bench/fleet_simulation.py"


@pytest.mark.parametrize(
    ("row", "scale", "said"),
    [
        ("run: requests", 1, 56),
        ("plan: read from vCenter", 1000, 83),
        ("run: read from vCenter", 1000, 315),
        ("steps", 1, 28),
        ("journal", 1, 29),
        ("saved plan", 1, 27),
    ],
)
def test_costs_per_host_in_the_guide_follow_from_what_was_measured(row, scale, said):
    """The last column is the difference of the two sizes divided by the 48 hosts between them."""
    line = next(each for each in GUIDE.read_text("utf-8").splitlines() if each.startswith(f"| {row} |"))
    small, large, each = (cell.split()[0].replace(",", "") for cell in line.split("|")[2:5])
    assert (float(large) - float(small)) / 48 * scale == pytest.approx(said, rel=0.02)
    assert float(each) == said
