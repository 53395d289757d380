"""Values that are not as vSphere defines them: planning goes on, and names the object, the value and what it lacks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from support.every_kind import TOGETHER
from support.places import INVENTORY
from support.seeds import by_level

from vsphere_ai.app.estate.read_estate import read_for
from vsphere_ai.app.estate.scope import EstateRequest
from vsphere_ai.app.estate.session import session_of
from vsphere_ai.errors import VsphereAiError
from vsphere_ai.language.inventories.inventory import load_inventory
from vsphere_ai.language.playbooks.playbook import load_playbook
from vsphere_ai.model.estate.malformed import MALFORMED, evaluate, marks
from vsphere_ai.model.facts import CommandOutput, Estate
from vsphere_ai.planning.needed_facts import RULE
from vsphere_ai.planning.planner import planned
from vsphere_ai.resources import kinds

pytestmark = pytest.mark.lab
NAMES = ("esx01.lab.local.", "train 01 ", "übung-01", "", " ", "a/b", "x" * 300, "\u202etrain", "[a]", "train-01\n")
VALUES = (None, 0, -1, 2**70, True, 1.5, "x", "HostSystem:host-0", (), ("x",), (None,), {}, {"_typeName": "Other"})
PIECES = ("", "|", "x", ",,", "\0", "-1")
NO_KEY = ({"_typeName": "OptionValue", "value": "1"},)


@pytest.fixture(scope="module")
def whole(session_lab, tmp_path_factory):
    """What is read of the lab's farm for a playbook of every kind."""
    session_lab.post("/lab/reset")
    path = tmp_path_factory.mktemp("play") / "play.yml"
    path.write_text(TOGETHER, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VSPHERE_AI_LAB_DIR", str(session_lab.directory))
        patch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path_factory.mktemp("state")))
        playbook = load_playbook(path, kinds())
        with session_of(load_inventory(INVENTORY), playbook, EstateRequest()) as session:
            estate = read_for(session, playbook)
            wanted = partial(session.desired, playbook)
            return SimpleNamespace(estate=estate, wanted=wanted, plan=planned(wanted(estate), estate, kinds())[0])


def plan(whole, estate):
    desired, estate = evaluate(estate, whole.wanted)
    return planned(desired, estate, kinds())


def changed(estate, ref, path, value):
    facts = estate[ref]
    properties = {p: v for p, v in facts.properties.items() if p != path}
    if value is not None:
        properties[path] = value
    return Estate(estate.about, {**estate.objects, ref: replace(facts, properties=properties)})


# -- one value


def test_a_setting_without_its_key_is_a_problem_of_its_vm(whole):
    vm = next(f for f in whole.estate.of_type("VirtualMachine") if f.name == "train-01")
    path = "config.extraConfig"
    made, on = plan(whole, changed(whole.estate, vm.ref, path, (*NO_KEY, *vm.get(path, ()))))
    (mark,) = marks(on)
    assert (mark.facts.ref, mark.path) == (vm.ref, path)
    assert "'key' (KeyError)" in mark.reason
    (problem,) = (p for p in made.problems if p.rule == RULE)
    assert problem.target.name == "train-01"
    assert path in problem.message
    assert "'key' (KeyError)" in problem.message
    assert others(made, {vm.ref}) == others(whole.plan, {vm.ref})
    (finding,) = (f for f in made.findings if f.rule == "vcenter.answers")
    assert finding.message.startswith(f"train-01 ({vm.ref}): {path}: {MALFORMED}")


def test_what_a_host_shows_of_a_kind_nobody_wants_is_a_remark(whole):
    """A VM that no play names and no step touches: the plan is as it was, and says what it could not read."""
    vm = next(f for f in whole.estate.of_type("VirtualMachine") if f.name == "infra-01")
    made, on = plan(whole, changed(whole.estate, vm.ref, "config.managedBy", 5))
    assert [m.facts.ref for m in marks(on)] == [vm.ref]
    assert made.problems == whole.plan.problems
    assert made.items == whole.plan.items
    assert [f.rule for f in made.findings].count("vcenter.answers") == 1


def test_many_objects_of_one_fault(whole):
    estate = whole.estate
    vms = list(estate.of_type("VirtualMachine"))
    assert len(vms) > 5
    for vm in vms:
        estate = changed(estate, vm.ref, "config.extraConfig", NO_KEY)
    _, on = plan(whole, estate)
    assert {m.facts.ref for m in marks(on)} == {vm.ref for vm in vms}


def test_a_fault_of_the_program_is_raised(whole):
    def wrong(estate):
        _ = estate.hosts
        return {}["a key of our own"]

    with pytest.raises(KeyError, match="a key of our own"):
        evaluate(whole.estate, wrong)


# -- any value


def others(made, refs):
    """What a plan says of targets other than these."""
    return [i for i in made.items if i.target.ref not in refs]


def parts(value, at=()):
    """The places in a value."""
    yield at
    inner = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, tuple) else ()
    for key, each in inner:
        yield from parts(each, (*at, key))


def put(value, at, new):
    """The value with something else at a place; `new` is `...`: without it."""
    if not at:
        return new
    key, *rest = at
    if isinstance(value, Mapping):
        made = {k: (put(v, rest, new) if k == key else v) for k, v in value.items()}
        return {k: v for k, v in made.items() if v is not ...}
    made = (put(v, rest, new) if i == key else v for i, v in enumerate(value))
    return tuple(v for v in made if v is not ...)


@st.composite
def mutations(draw, estate):
    ref = draw(st.sampled_from(sorted(estate.objects)))
    facts = estate[ref]
    if facts.probes and draw(st.integers(0, 4)) == 0:
        name = draw(st.sampled_from(sorted(facts.probes)))
        answer = facts.probes[name]
        text = answer.stdout
        at = draw(st.integers(0, len(text)))
        end = min(len(text), at + draw(st.integers(0, 60)))
        text = text[:at] + draw(st.sampled_from(PIECES)) + text[end:]
        other = CommandOutput(draw(st.sampled_from((0, 0, 1, 6))), text)
        return ref, f"probe {name} {at}:{end}", replace(facts, probes={**facts.probes, name: other})
    path = draw(st.sampled_from(sorted(facts.properties)))
    at = draw(st.sampled_from(list(parts(facts.properties[path]))))
    new = draw(st.sampled_from((..., ..., *VALUES, *NAMES)))
    value = put(facts.properties[path], at, new)
    properties = {p: v for p, v in {**facts.properties, path: value}.items() if v is not ...}
    return ref, f"{path} {at} = {new!r}", replace(facts, properties=properties)


def related(whole, ref):
    """The targets whose plan may depend on an object: it, what is on it or beside it, everything for what is shared."""
    estate = whole.estate
    if not ref.startswith(("HostSystem:", "VirtualMachine:")):
        return set(estate.objects)
    host = estate.host_of(ref).ref if ref.startswith("VirtualMachine:") else ref
    there = {ref, host, *(v.ref for v in (*estate.vms_on(host), *estate.managed_on(host)))}
    return there | {d.ref for d in estate.datacenters}


def test_any_value_of_any_object(whole):
    @settings(
        max_examples=by_level(120, 1500, 10000),
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def check(data):
        ref, what, facts = data.draw(mutations(whole.estate))
        note(f"{whole.estate[ref].name} ({ref}): {what}")
        estate = Estate(whole.estate.about, {**whole.estate.objects, ref: facts})
        try:
            made, _ = plan(whole, estate)
        except VsphereAiError:
            return  # a name of the playbook that means nothing now
        touched = related(whole, ref)
        assert others(made, touched) == others(whole.plan, touched)

    check()
