"""Budget of hosts over several runs: taken, given back, and refused once all that are out stay out."""

from __future__ import annotations

from vsphere_ai.execution.host_budget import LocalBudget


def test_hosts_of_all_runs_count_and_none_twice():
    budget = LocalBudget(2)
    assert budget.take("a", "h1")
    assert budget.take("a", "h1"), "it is counted already"
    assert budget.take("b", "h1"), "the same reference in another vCenter is another host"
    assert not budget.take("b", "h2")
    budget.give("a", "h1")
    assert budget.take("b", "h2")


def test_what_is_out_already_counts_beyond_the_budget():
    budget = LocalBudget(1)
    assert budget.take("a", "h1", force=True)
    assert budget.take("b", "h1", force=True)
    assert not budget.take("a", "h2")
    budget.give("b", "h1")
    assert not budget.take("a", "h2")


def test_it_refuses_only_when_nothing_can_come_back():
    budget = LocalBudget(2)
    budget.take("a", "h1")
    budget.take("b", "h1")
    budget.idle("a", idle=True)
    assert not budget.refusal(), "b may bring its host back"
    budget.idle("b", idle=True)
    assert "2 of at most 2" in budget.refusal()
    budget.idle("b", idle=False)
    assert not budget.refusal()
