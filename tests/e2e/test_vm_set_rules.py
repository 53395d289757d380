"""Rules of sets on the lab: made after the clones and before power-on, kept up to date, and gone with the set."""

from __future__ import annotations

import pytest
from support.vm_sets import FARM, play

from vsphere_ai.app.estate.scope import EstateRequest
from vsphere_ai.app.estate.session import open_session

pytestmark = pytest.mark.lab
RECONFIGURE = "ReconfigureComputeResource_Task"
CARD = ("{name: mgmt, port_group: dvpg-lan, addresses: mgmt}",)


def placed(names, **placement):
    words = ", ".join(f"{key}: {value}" for key, value in placement.items())
    return play(names, cards=CARD, placement=f"{{{words}}}") if placement else play(names, cards=CARD)


def details(sets):
    """What each reconfigure of the cluster did."""
    return [e["detail"] for e in sets.ledger(call=RECONFIGURE)]


def test_rules_come_between_the_clones_and_the_power_ons(sets):
    sets.applied(placed("train-[01:02]", anti_affinity="must", hosts="esx0*", drs_override="until_ready"))
    calls = [e["call"] for e in sets.ledger() if e["call"] in ("CloneVM_Task", RECONFIGURE, "PowerOnVM_Task")]
    assert calls.count(RECONFIGURE) == 2
    first, last = calls.index(RECONFIGURE), len(calls) - 1 - calls[::-1].index(RECONFIGURE)
    assert "CloneVM_Task" not in calls[first:]
    assert calls[last:] == [RECONFIGURE]
    made, freed = details(sets)
    assert made == {
        "train-01": "add",
        "train-02": "add",
        "group vsphere-ai set train VMs": "add",
        "group vsphere-ai set train hosts": "add",
        "rule vsphere-ai set train apart": "add",
        "rule vsphere-ai set train hosts": "add",
    }
    assert freed == {"train-01": "remove", "train-02": "remove"}


def test_rules_follow_the_set(sets):
    sets.applied(placed("train-[01:02]", anti_affinity="should", hosts="[esx01*, esx02*]"))
    sets.applied(placed("train-[01:03]", anti_affinity="should", hosts="[esx01*, esx02*]"))
    assert details(sets)[1] == {"group vsphere-ai set train VMs": "edit", "rule vsphere-ai set train apart": "edit"}
    sets.applied(placed("train-[01:02]", anti_affinity="should", hosts="esx01*"), "--destroy", "1")
    assert details(sets)[2]["group vsphere-ai set train hosts"] == "edit"
    sets.applied(placed("train-[01:02]"))
    assert set(details(sets)[3].values()) == {"remove"}


def test_one_vm_has_no_rule_to_be_apart(sets):
    sets.applied(placed("train-01", anti_affinity="must"))
    assert not details(sets)


def test_vms_are_made_on_the_hosts_of_their_rule(sets):
    sets.applied(placed("train-[01:03]", hosts="esx02*", vm_host_rule="must"))
    assert {vm["host"] for name, vm in sets.vms().items() if name.startswith("train")} == {"esx02.lab.local"}


def test_more_vms_than_hosts_cannot_be_apart(sets):
    assert sets.refused(placed("train-[01:03]", anti_affinity="must")) == {"vm_set.no-room"}


def test_hosts_that_are_not_there(sets):
    assert sets.refused(placed("train-[01:02]", hosts="esx9*")) == {"vm_set.no-host"}


def test_overrides_that_are_kept_stay(sets):
    sets.applied(placed("train-[01:02]", drs_override="kept"))
    assert details(sets) == [{"train-01": "add", "train-02": "add"}]


@pytest.fixture
def farm(sets, make_lab, monkeypatch):
    """Another farm for the same inventory."""

    def make(text):
        sets.lab = make_lab(text)
        monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(sets.lab.directory))
        return sets

    return make


def test_rules_need_drs(farm):
    sets = farm(FARM.replace("drs: fullyAutomated", "drs: off"))
    assert sets.refused(placed("train-[01:02]", anti_affinity="should")) == {"vm_set.no-drs"}


def test_rules_of_others_are_not_changed(farm):
    rule = "{name: others, kind: anti-affinity, vms: [other-01, ubuntu-22.04]}"
    sets = farm(FARM.replace("drs: fullyAutomated", f"drs: fullyAutomated, rules: [{rule}]"))
    sets.applied(placed("train-[01:02]", anti_affinity="should"))
    sets.applied(placed("train-[01:02]"))
    assert [d for d in details(sets) if "rule others" in d] == []


def reconfigured(sets, **spec):
    """Another user changes the cluster; `spec` is made of the references by name."""
    with open_session(EstateRequest(inventory=sets.inventory)) as session:
        found = session.connection.vcenter.read({"ClusterComputeResource": ("name",), "VirtualMachine": ("name",)})
        refs = {facts.name: ref for ref, facts in found.items()}
        made = {name: make(refs) for name, make in spec.items()}
        args = {"spec": {"_typeName": "ClusterConfigSpecEx", **made}, "modify": True}
        session.connection.vcenter.run_task(refs["gpu-a"], RECONFIGURE, args, timeout=30)


def together(refs):
    rule = {"name": "together", "enabled": True, "vm": (refs["train-01"], refs["train-02"])}
    info = {"_typeName": "ClusterAffinityRuleSpec", **rule}
    return ({"_typeName": "ClusterRuleSpec", "operation": "add", "info": info},)


def test_a_rule_of_others_that_contradicts_is_found_while_planning(sets):
    sets.applied(placed("train-[01:02]"))
    reconfigured(sets, rulesSpec=together)
    assert sets.refused(placed("train-[01:02]", anti_affinity="should")) == {"vm_set.rule-conflict"}
    assert not sets.refused(placed("train-[01:02]", hosts="esx0*"))


def test_a_rule_that_someone_removed_is_made_again(sets):
    sets.applied(placed("train-[01:02]", anti_affinity="should"))
    reconfigured(sets, rulesSpec=lambda _: ({"_typeName": "ClusterRuleSpec", "operation": "remove", "removeKey": 1},))
    sets.applied(placed("train-[01:02]", anti_affinity="should"))
    assert details(sets)[-1] == {"rule vsphere-ai set train apart": "add"}
