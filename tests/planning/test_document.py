"""The plan as JSON, its digest, and the sealed file that a saved plan is."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.estates import ABOUT, ESX1, ESX2, estate, guest, host, made, vm, wants
from support.missions import DESIRED, finished_farm, plain_farm
from support.raising import refused
from support.seeds import by_level

from vsphere_ai.errors import Conflict, Mark, VsphereAiError
from vsphere_ai.language.inventories.inventory import Inventory
from vsphere_ai.language.playbooks.desired import desired
from vsphere_ai.language.playbooks.play import Play, Playbook, Stated, from_document
from vsphere_ai.model.finding import Finding
from vsphere_ai.model.world import World
from vsphere_ai.planning.document import (
    LONG,
    MOST_CHANGES,
    Approved,
    PlanDocument,
    changes_since,
    checksum,
    digest,
    dumps,
    open_saved,
    plan_document,
    saved_plan,
)
from vsphere_ai.planning.planner import CheckAnswer
from vsphere_ai.resources import kinds
from vsphere_ai.resources.host_graphics import HostGraphics
from vsphere_ai.resources.mig import Mig
from vsphere_ai.resources.pvrdma import Pvrdma, PvrdmaAdapter
from vsphere_ai.resources.pvrdma_host import PvrdmaHost

FIREWALL = PvrdmaHost(firewall=True)


@pytest.fixture(scope="module")
def plan():
    return made(plain_farm(), DESIRED)


def playbook(*states):
    mark = Mark("ai.yml", 3, 5)
    stated = tuple(Stated(s, mark) for s in states)
    return Playbook(
        "ai.yml",
        "abc",
        (Play("p", states[0].target if states else "host", "esx*", stated, mark=mark, pattern_mark=mark),),
    )


# -- the document


def test_the_document_survives_json(plan):
    document = plan_document(plan)
    assert json.loads(dumps(document)) == document
    assert document["schema_version"] == 1


def test_the_class_that_writes_a_document_reads_it(plan):
    written = PlanDocument.of(plan)
    read = PlanDocument.model_validate(json.loads(dumps(written.as_json())))
    assert read.as_json() == written.as_json() == plan_document(plan)
    assert (read.impact, read.vcenter, read.problems) == (plan.impact, plan.about, plan.problems)
    (off, *_) = (s for s in read.steps if s.action == "power-off")
    assert off.target in plan.impact.power_cycles
    assert off.shutdown_timeout == 300


def test_the_vcenter_of_the_inventory_is_in_it_and_in_what_was_approved(plan):
    world = World("prod", "vc01", "svc", "prod.yml", "given with -i", lab=True)
    read = PlanDocument.model_validate(json.loads(dumps(plan_document(plan, world=world))))
    assert (read.world, read.approved().world) == (world, world)
    said = plan_document(plan, world=world)
    text = dumps(saved_plan(said, digest(plan, said), playbook(FIREWALL), {"vcenter": "prod", "limit": ""}))
    saved = open_saved(text, "plan.json")
    assert (saved.world, saved.digest) == (world, digest(plan))
    older = open_saved(dumps(saved_plan(plan_document(plan), digest(plan), playbook(FIREWALL), {})), "plan.json")
    assert older.world is None


def test_what_was_approved_may_lack_parts():
    assert Approved.model_validate({}) == Approved()
    (step,) = Approved.model_validate({"steps": [{"target": vars(ESX1)}]}).steps_of(ESX1.ref)
    assert (step.action, step.timeout) == ("", None)


def test_the_document_says_everything_the_text_says(plan):
    document = plan_document(plan)
    assert [t["name"] for t in document["impact"]["reboots"]] == ["esx01", "esx02"]
    assert document["impact"]["outside"] == []
    assert len(document["items"]) == 18
    assert {"field": "version", "sign": "~", "before": 17, "after": 19} in [
        c for i in document["items"] for c in i["changes"]
    ]
    assert [s["id"] for s in document["steps"]] == [i for wave in document["waves"] for i in wave] != []
    assert {s["do"] for s in document["steps"]} == {"lifecycle", "invoke", "shell", "reconfigure", "wait"}
    (reboot, _) = (s for s in document["steps"] if s.get("action") == "reboot")
    assert (reboot["target"]["name"], reboot["via"]) == ("esx01", "ssh")


def test_problems_findings_and_answers_are_in_it():
    bad = made(plain_farm(), {ESX1: wants(PvrdmaHost(vmknic="vmk9"))})
    finding = Finding(ESX1, "gpu.vib", "warn", "old", "", (("software", "470"),), "https://docs.nvidia.com")
    document = plan_document(replace(bad, findings=(finding,), answers=(CheckAnswer(vm(1), "CheckPowerOn", ("no",)),)))
    (problem,) = document["problems"]
    assert (problem["rule"], problem["target"]["name"]) == ("pvrdma.vmknic-missing", "esx01")
    assert document["findings"][0]["evidence"] == [{"path": "software", "value": "470"}]
    assert document["answers"][0]["faults"] == ["no"]


def test_invisible_characters_are_escaped_and_stay_the_same_value():
    name = "esx\u202e\x9b31m\x1b[2J\U000e0041"
    text = dumps({"name": name, "größe": "训练"})
    assert json.loads(text) == {"name": name, "größe": "训练"}
    assert not set(text) & set(name) - set("esx31m[2J")
    assert "训练" in text


def test_each_entry_of_a_long_list_takes_one_line_wherever_it_is():
    entries = [{"id": n, "after": [n - 1]} for n in range(LONG + 1)]
    document = {"shards": [{"plan": {"steps": entries, "waves": [], "few": entries[:1]}}], "budget": None}
    text = dumps(document)
    assert json.loads(text) == document
    assert sum(line.strip(" ,") == json.dumps(entries[7]) for line in text.splitlines()) == 1
    assert len(text.splitlines()) < LONG + 30
    few = {"shards": [{"steps": entries[:LONG], "text": "é", "none": {}}], "budget": 3}
    assert dumps(few) == json.dumps(few, indent=2, ensure_ascii=False)


# -- the digest


def test_the_digest_is_of_what_is_done_and_where_not_of_advice(plan):
    same = (
        replace(plan, answers=(CheckAnswer(vm(1), "CheckVmConfig", note="later"),)),
        replace(plan, findings=()),
        replace(plan, playbook="other.yml"),
    )
    assert {digest(p) for p in (plan, *same)} == {digest(plan)}
    others = (
        replace(plan, steps=plan.steps[:-1]),
        replace(plan, about=replace(ABOUT, instance="uuid-2")),
        made(finished_farm(), DESIRED),
    )
    assert len({digest(p) for p in (plan, *others)}) == 4
    assert len(digest(plan)) == 64


# -- the saved plan


def saved(plan, **scope):
    stated = playbook(HostGraphics(default_type="shared_direct"), Mig(mode="enabled"))
    return dumps(saved_plan(plan_document(plan), digest(plan), stated, scope))


def test_a_saved_plan_opens_with_its_playbook_scope_and_digest(plan):
    document = open_saved(saved(plan, vcenter="prod", limit="esx01"), "plan.json")
    assert document.digest == digest(plan)
    assert document.scope == {"vcenter": "prod", "limit": "esx01"}
    again = from_document(document.desired, kinds())
    assert again == playbook(HostGraphics(default_type="shared_direct"), Mig(mode="enabled"))


def test_a_playbook_with_lists_comes_back_as_it_was(plan):
    wanted = (Pvrdma(adapters=(PvrdmaAdapter(port_group="a\u202eb", protocol="rocev2"),)),)
    text = dumps(saved_plan(plan_document(plan), digest(plan), playbook(*wanted), {}))
    assert from_document(open_saved(text, "p").desired, kinds()) == playbook(*wanted)


def _edit_step(document):
    document["steps"][0]["summary"] = "something else"


def _edit_digest(document):
    document["digest"] = "0" * 64


def _edit_desired(document):
    document["desired"]["plays"][0]["pattern"] = "all"


def _add_key(document):
    document["more"] = 1


def _drop_key(document):
    del document["problems"]


@pytest.mark.parametrize("edit", [_edit_step, _edit_digest, _edit_desired, _add_key, _drop_key])
def test_an_edited_plan_is_refused(plan, edit):
    document = json.loads(saved(plan))
    edit(document)
    with refused(Conflict, "plan.edited", "plan.json") as caught:
        open_saved(json.dumps(document), "plan.json")
    assert "--to" in caught.value.remedy
    assert caught.value.exit_code == 3


def test_another_layout_of_the_same_json_is_not_an_edit(plan):
    document = json.loads(saved(plan))
    assert open_saved(json.dumps(document, sort_keys=True), "p").digest == digest(plan)


@pytest.mark.parametrize("cut", [0, 1, 100, -2])
def test_a_truncated_plan_is_refused(plan, cut):
    with refused(Conflict, "plan.unreadable", "plan.json"):
        open_saved(saved(plan)[:cut], "plan.json")


@pytest.mark.parametrize("text", ["[]", '"seal"', "{}", "null", '{"steps": []}', "- hosts: all\n"])
def test_other_files_are_refused(text):
    with refused(Conflict, "plan.unreadable"):
        open_saved(text, "plan.json")


def test_another_schema_version_is_refused(plan, monkeypatch):
    text = saved(plan)
    monkeypatch.setattr("vsphere_ai.planning.document.SCHEMA_VERSION", 2)
    with refused(Conflict, "plan.schema"):
        open_saved(text, "plan.json")


# -- what is different now


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (["a", "b"], "a, b"),
        ([], "none"),
        (None, "none"),
        (["10c", "10c"], "10c ×2"),
        ([{"name": "mgmt", "port_group": "lan", "addresses": []}], "name: mgmt, port group: lan, addresses: none"),
        ({"reservation": True, "mb": 4096}, "reservation: yes, mb: 4096"),
    ],
)
def test_its_values_are_words_and_no_values_of_a_programming_language(value, words):
    plan = made(plain_farm(), {ESX1: wants(FIREWALL)})
    (item, *others) = PlanDocument.of(plan).items
    change = item.changes[0].model_copy(update={"before": value, "after": value})
    items = (item.model_copy(update={"changes": (change,)}), *others)
    text = changes_since(PlanDocument.of(plan).model_copy(update={"items": items}), plan)
    assert f"only in the saved plan: esx01: pvrdma_host firewall {words} → {words}" in text


def test_a_stale_plan_says_what_is_different(plan):
    then = PlanDocument.of(made(plain_farm(), {h: wants(FIREWALL) for h in (ESX1, ESX2)}))
    opened = ({"_typeName": "HostFirewallRuleset", "key": "pvrdma", "enabled": True},)
    now = made(estate(host(ESX1, config__firewall__ruleset=opened), host(ESX2)),
               {ESX1: wants(FIREWALL), ESX2: wants(PvrdmaHost(vmknic="vmk9", firewall=True))})  # fmt: skip
    text = changes_since(then, now)
    assert "only in the saved plan: esx01: pvrdma_host firewall no → yes" in text
    assert "only in the saved plan: esx01: open firewall ruleset pvrdma" in text
    assert "only in the new plan: esx02: this host has no vmkernel adapter vmk9" in text
    assert "esx02: pvrdma_host firewall" not in text


def test_a_difference_in_details_is_told_too(plan):
    assert "details of the steps" in changes_since(PlanDocument.of(plan), plan)


def test_many_differences_are_cut(plan):
    lines = changes_since(PlanDocument.of(plan), made(finished_farm(), DESIRED)).splitlines()
    assert len(lines) == MOST_CHANGES + 1
    assert lines[-1].strip().startswith("and ")


def test_differences_are_safe_for_a_terminal():
    evil = replace(ESX1, name="esx\x1b[31m")
    seen = estate(host(evil), guest(vm(1), evil))
    text = changes_since(PlanDocument.of(made(seen, {})), made(seen, {evil: wants(FIREWALL)}))
    assert "\x1b" not in text
    assert "esx" in text


# -- files that nobody made with this tool: the seal is no signature

DEEP = 100_000
NO_PLANS = {
    "deep lists": "[" * DEEP + "]" * DEEP,
    "deep mappings": '{"seal": 1, "a": ' + '{"a": ' * DEEP + "1" + "}" * DEEP + "}",
    "half a surrogate": '{"seal": "x", "a": "\\ud800"}',
    "a long number": '{"seal": "x", "a": ' + "9" * 5000 + "}",
    "no finite number": '{"seal": "x", "a": NaN}',
    "text": '"seal"',
}


@pytest.mark.parametrize("what", NO_PLANS)
def test_what_is_no_plan_is_a_conflict_in_words(what):
    with pytest.raises(Conflict, match=r"plan\.json (is not a saved plan|was edited)"):
        open_saved(NO_PLANS[what], "plan.json")


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["host", "vm", "mig", "\ud800"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)


def places(value, at=()):
    yield at
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in inner:
        yield from places(below, (*at, key))


@given(data=st.data())
@settings(max_examples=by_level(60, 3000), deadline=None)
def test_a_plan_that_was_edited_and_sealed_again_never_breaks_the_tool(data):
    plan = made(plain_farm(), DESIRED)
    stated = playbook(HostGraphics(default_type="shared_direct"), Mig(mode="enabled"))
    document = saved_plan(plan_document(plan), digest(plan), stated, {"vcenter": "lab", "limit": ""})
    document.pop("seal")
    document = json.loads(dumps(document))
    for _ in range(data.draw(st.integers(1, 3))):
        root = data.draw(st.sampled_from(["desired", "scope", "vcenter", "items", "problems", "steps", "digest"]))
        where = data.draw(st.sampled_from([p for p in places(document) if p[:1] == (root,)] or [()]))
        at = document
        for key in where[:-1]:
            at = at[key]
        if where and data.draw(st.booleans()):
            del at[where[-1]]
        elif where:
            at[where[-1]] = data.draw(JUNK)
    try:
        document["seal"] = checksum(document)
        opened = open_saved(json.dumps(document), "plan.json")
        read = from_document(opened.desired, kinds())
        changes_since(opened, plan)
        desired(read, Inventory(Path("i.yml")), plain_farm(), vcenter="lab")
    except (VsphereAiError, UnicodeEncodeError):
        return
