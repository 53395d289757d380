"""Power-ons that a DRS rule between VMs refuses today, and permits at another moment of the plan."""

from __future__ import annotations

import pytest
from planning.test_beside_windows import DIRECT, ESX3, SYSTEM, at, waits_for
from support.estates import CLUSTER, DRS, ESX1, ESX2, estate, guest, host, made, vm, wants

from vsphere_ai.language.playbooks.play import Rolling
from vsphere_ai.model.cluster_rules import APART, TOGETHER
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.steps import EnterMaintenance, Healthy, PowerOff, PowerOn
from vsphere_ai.resources.tuning import Tuning

MOVE, OFF = Rolling(evacuate="vmotion"), Rolling(evacuate="power_off")
CHANGED = wants(Tuning(cpus=16))


def ruled(kind, *homes, excluded=(), mandatory=False):
    """Three hosts, a VM on each of `homes`, and a rule for all VMs; those of `excluded` numbers DRS leaves alone."""
    vms = [vm(n) for n in range(1, len(homes) + 1)]
    rule = {"_typeName": kind, "name": "pair", "enabled": True, "mandatory": mandatory, "vm": [v.ref for v in vms]}
    overrides = [{"_typeName": "ClusterDrsVmConfigInfo", "key": vm(n).ref, "enabled": False} for n in excluded]
    config = {"drsConfig": DRS, "rule": (rule,), "drsVmConfig": tuple(overrides)}
    return estate(
        Facts(CLUSTER, {"name": "gpu-a", "parent": "Folder:group-h1", "configurationEx": config}),
        *(host(h, **SYSTEM) for h in (ESX1, ESX2, ESX3)),
        *(guest(v, home) for v, home in zip(vms, homes, strict=True)),
    )


def refusals(plan):
    return {(p.target, p.rule) for p in plan.problems}


def test_a_vm_is_changed_after_the_window_from_which_drs_has_to_bring_the_vm_it_is_kept_together_with():
    plan = made(ruled(TOGETHER, ESX1, ESX2), {ESX1: wants(DIRECT, rolling=MOVE), vm(2): CHANGED})
    assert not plan.problems
    assert waits_for(plan, at(plan, PowerOff, vm(2)), at(plan, Healthy, ESX1))


def test_it_is_refused_where_no_window_brings_the_other_vm():
    """Also where the rule does not bind the other one, which DRS may then move to any host."""
    assert refusals(made(ruled(TOGETHER, ESX1, ESX2), {vm(2): CHANGED})) == {(vm(2), "admission.vm-rule")}
    three = ruled(TOGETHER, ESX1, ESX2, ESX3)
    plan = made(three, {ESX1: wants(DIRECT, rolling=MOVE), vm(2): CHANGED})
    assert (vm(2), "admission.vm-rule") in refusals(plan)


def test_of_two_vms_that_are_off_the_one_that_the_rule_binds_powers_on_first():
    here = ruled(APART, ESX1, ESX1, excluded=(2,))
    for wanted in ({ESX1: wants(DIRECT, rolling=OFF)}, {vm(1): CHANGED, vm(2): CHANGED}):
        plan = made(here, wanted)
        assert not plan.problems
        assert waits_for(plan, at(plan, PowerOn, vm(2)), at(plan, PowerOn, vm(1)))
        assert waits_for(plan, at(plan, PowerOn, vm(1)), at(plan, PowerOff, vm(2)))


@pytest.mark.parametrize(("excluded", "mandatory"), [((), False), ((2,), True)])
def test_where_the_rule_binds_both_no_order_helps(excluded, mandatory):
    plan = made(ruled(APART, ESX1, ESX1, excluded=excluded, mandatory=mandatory), {ESX1: wants(DIRECT, rolling=OFF)})
    assert refusals(plan) == {(vm(1), "admission.vm-rule"), (vm(2), "admission.vm-rule")}


def test_one_that_stays_on_is_not_off_by_then():
    plan = made(ruled(APART, ESX1, ESX1, excluded=(2,)), {vm(1): CHANGED})
    assert refusals(plan) == {(vm(1), "admission.vm-rule")}


@pytest.mark.parametrize(("kind", "refused"), [(APART, False), (TOGETHER, True)])
def test_what_drs_has_moved_off_the_host_does_not_run_there_any_more(kind, refused):
    """The first VM is off for its own change while DRS moves the second one to some other host."""
    plan = made(ruled(kind, ESX1, ESX1), {ESX1: wants(DIRECT, rolling=MOVE), vm(1): CHANGED})
    assert refusals(plan) == ({(vm(1), "admission.vm-rule")} if refused else set())


@pytest.mark.parametrize("third", [OFF, MOVE])
def test_windows_follow_each_other_where_drs_could_bring_a_vm_back_before_the_other_one_is_on(third):
    """Both run on one host today, against the rule; the hosts may be out of service two at a time."""
    both = {"max_unavailable": 2}
    wanted = {
        ESX1: wants(DIRECT, rolling=MOVE.model_copy(update=both)),
        ESX3: wants(DIRECT, rolling=third.model_copy(update=both)),
        vm(1): CHANGED,
    }
    plan = made(ruled(APART, ESX1, ESX1), wanted)
    assert not plan.problems
    (roll,) = plan.impact.rolls
    assert (roll.at_a_time, roll.why) == (
        1, "1 host at a time, not 2: a DRS rule lets train-01 power on only before DRS moves other VMs",
    )  # fmt: skip
    assert waits_for(plan, at(plan, EnterMaintenance, ESX3), at(plan, PowerOn, vm(1)))


def test_they_do_not_where_no_rule_needs_it():
    both = {"max_unavailable": 2}
    hosts = {h: wants(DIRECT, rolling=OFF.model_copy(update=both)) for h in (ESX1, ESX3)}
    (roll,) = made(ruled(APART, ESX1, ESX2), hosts | {vm(2): CHANGED}).impact.rolls
    assert (roll.at_a_time, roll.why) == (2, "")


def test_an_order_that_contradicts_another_one_is_not_taken():
    """The second VM goes off and on with the window of its host; the first one would have to be on within it."""
    here = ruled(TOGETHER, ESX1, ESX2, excluded=(2,))
    plan = made(here, {ESX1: wants(DIRECT, rolling=OFF), ESX2: wants(DIRECT, rolling=OFF)})
    assert refusals(plan) == {(vm(1), "admission.vm-rule")}
    assert at(plan, EnterMaintenance, ESX2) > at(plan, Healthy, ESX1)
