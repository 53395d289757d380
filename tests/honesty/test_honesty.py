"""A slice of `make honesty` on small farms: every fault alone, most strikes alone, and some cases drawn freely."""

from __future__ import annotations

import pytest
from honesty import cases
from honesty.judge import Court
from honesty.labs import Labs
from honesty.report import outcome
from reliability.harness import Tool
from support.seeds import by_level

pytestmark = pytest.mark.lab
SEED = 1
ALONE = {name: number for number, name in enumerate(cases.alone())}
MORE = range(len(ALONE), len(ALONE) + by_level(5, 50))
ELSEWHERE = {
    "a reply is lost", "replies are lost", "a reply never comes", "a reply breaks off", "half a reply",
    "a reply is no XML", "connections break", "the proxy answers 503", "the proxy answers 401", "sessions end",
    "slow", "maintenance mode is not reached",
    "a clone's reply is lost", "a clone's task is gone", "leases are lost", "rules are gone", "a gateway is silent",
    "a destruction's reply is lost",
    "a name that another VM has", "a source that is not there", "a source that runs", "a snapshot that is not there",
    "a linked clone with a larger disk", "an MTU above that of the switch", "a pool without room",
    "more VMs than hosts, always apart", "rules without DRS", "hosts that are not there",
}  # fmt: skip
"""What only `make honesty` draws: strikes of the connection, which `tests/reliability` breaks in every place, one that
takes more than a minute (`tests/e2e/test_maintenance_wait.py` has it), and faults of sets of which
`tests/e2e/test_vm_sets.py` and `test_vm_set_rules.py` see that they are refused."""


@pytest.fixture(scope="module")
def court(tmp_path_factory):
    folder = tmp_path_factory.mktemp("honesty")
    (folder / "said").mkdir()
    labs, tool = Labs(), Tool(folder / "said")
    yield Court(labs, tool, folder)
    tool.close()
    labs.close()


def judged(court, number):
    """Judge a case; fail with all that was said if it broke a promise."""
    verdict = court.judge(cases.case(SEED, number, cases.small))
    assert not verdict.wrong, outcome(verdict, SEED, number).text
    return verdict


@pytest.mark.parametrize("name", sorted(cases.FAULTS.keys() - ELSEWHERE))
def test_every_fault_alone(court, name):
    verdict = judged(court, ALONE[name])
    assert [f.name for f in verdict.case.faults] == [name]
    assert verdict.planned >= 0


@pytest.mark.parametrize("name", sorted(cases.STRIKES.keys() - ELSEWHERE))
def test_a_strike_alone(court, name):
    """A strike that nothing met would prove nothing."""
    assert judged(court, ALONE[name]).struck > 0


@pytest.mark.parametrize("number", MORE)
def test_none_or_two_at_once_or_while_it_runs(court, number):
    assert judged(court, number).applied >= 0


@pytest.mark.parametrize("number", range(cases.PRESSED, cases.PRESSED + by_level(6, 40)))
def test_where_little_is_left(court, number):
    assert judged(court, number).planned >= 0


@pytest.mark.parametrize("number", range(cases.NO_REBOOT, cases.NO_REBOOT + by_level(4, 40)))
def test_windows_without_a_reboot(court, number):
    assert judged(court, number).planned >= 0
