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


def test_hosts_get_their_turn_in_the_order_in_which_they_were_asked_for():
    budget = LocalBudget(1)
    assert budget.take("a", "h1")
    assert not budget.take("b", "h1")
    assert not budget.take("c", "h1")
    budget.give("a", "h1")
    assert not budget.take("a", "h2"), "b and c wait for longer"
    assert not budget.take("c", "h1"), "b waits for longer"
    assert budget.take("b", "h1")
    budget.give("b", "h1")
    assert not budget.take("a", "h2")
    assert budget.take("c", "h1")
    budget.give("c", "h1")
    assert budget.take("a", "h2")


def test_a_run_that_asks_no_more_keeps_no_one_waiting():
    now = [0.0]
    budget = LocalBudget(1, lambda: now[0])
    assert budget.take("a", "h1")
    assert not budget.take("b", "h1")
    now[0] = 5.0
    assert not budget.take("c", "h1")
    budget.give("a", "h1")
    now[0] = 12.0
    assert budget.take("c", "h1"), "b was refused twelve seconds ago, and has not asked since"


def test_the_whole_room_is_used_where_several_wait():
    budget = LocalBudget(3)
    assert all(budget.take("a", f"h{n}") for n in range(3))
    assert not budget.take("b", "h1")
    assert not budget.take("c", "h1")
    for n in range(3):
        budget.give("a", f"h{n}")
    assert budget.take("a", "h4"), "there is room for three, and two wait"
    assert not budget.take("a", "h5")
    assert budget.take("c", "h1")
    assert budget.take("b", "h1")


def test_a_run_that_gets_a_host_after_all_brings_it_back():
    budget = LocalBudget(1)
    assert budget.take("a", "h1")
    budget.idle("b", idle=True)  # it has nothing in flight while it waits
    budget.give("a", "h1")
    assert budget.take("b", "h1")
    budget.idle("a", idle=True)
    assert not budget.refusal(), "b works on its host"
