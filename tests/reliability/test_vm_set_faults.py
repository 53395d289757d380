"""Sets of VMs while replies get lost, tasks vanish, clones are slow or land elsewhere: each VM is made once."""

from __future__ import annotations

import contextlib
import sqlite3
import time

import pytest
from reliability import harness
from reliability.conftest import farm
from reliability.crash import DIED
from reliability.harness import TUNE, Spec
from reliability.vm_sets import World
from support.gates import until
from support.seeds import cases
from support.vm_sets import FARM, play

from vsphere_ai.model.vm_sets import instance_uuid

SLOW = "clone_seconds: 0.1, task_seconds"
PLACED = {"placement": "{anti_affinity: should, drs_override: until_ready}", "more": "  hardware: {version: 19}\n"}
NAMES = ("train-01", "train-02", "train-03")
RDMA = "    pvrdma_vmknic: vmk2\n    pvrdma_firewall: true\n    ssh: {"


@pytest.fixture(scope="module")
def small(tool, tmp_path_factory):
    folder = tmp_path_factory.mktemp("faults")
    text = FARM.replace("task_seconds", SLOW).replace("    ssh: {", RDMA)
    (folder / "farm.yml").write_text(text, encoding="utf-8")
    with farm(folder / "lab", folder / "farm.yml") as lab:
        made = World(lab, tool, folder)
        made.many = made.book(play("train-[01:03]", **PLACED), "many.yml")
        made.few = made.book(play("train-01", **PLACED), "few.yml")
        yield made


@pytest.fixture
def world(small, monkeypatch):
    """The farm as it was at the start."""
    small.lab.post("/lab/reset")
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(small.lab.directory))
    yield small
    small.lab.clear_faults()


def struck(world, rules, playbook, *more, names=NAMES, code=0):
    """Apply while these faults strike, all of them; go on where it failed, then judge. Return what was said."""
    world.lab.set_faults(rules)
    ended = world("apply", playbook, "--yes", *more)
    fired = {f["rule"] for f in world.lab.get("/lab/faults")["fired"]}
    world.lab.clear_faults()
    assert fired == set(range(1, len(rules) + 1)), f"{fired}\n{ended.text}"
    assert ended.code == code, ended.text
    said = ended.text
    if code:
        again = world.go_on("apply", playbook, "--yes", *more)
        said += again.text
        assert again.code == 0, said
    made = {name: 1 for name in NAMES}
    assert {o: n for (o, call), n in world.effects().items() if call == "CloneVM_Task"} == made, said
    assert all(n == 1 for (_, call), n in world.effects().items() if call == "Destroy_Task"), said
    world.judge(playbook, names, said, nics=3)
    return said


CHANGES = ("CloneVM_Task", "ReconfigVM_Task", "PowerOnVM_Task", "ReconfigureComputeResource_Task")
LEASES = ("AddCustomFieldDef", "SetField")
TOGETHER = {
    "lost": [{"on": c, "nth": 1 + n % 2, "do": "lost-reply"} for n, c in enumerate((*CHANGES, *LEASES))],
    "gone": [{"on": c, "nth": 1, "do": "task-gone"} for c in CHANGES],
    "unsent": [{"on": c, "nth": 1, "when": "before", "do": "reset"} for c in (*CHANGES, *LEASES)],
    "restarts": [
        {"on": c, "nth": 1, "when": w, "do": {"restart": "200ms", "starting": "100ms"}}
        for c, w in (("CloneVM_Task", "after"), ("AddCustomFieldDef", "before"), ("PowerOnVM_Task", "after"))
    ],
}
ONE = [
    [{"on": call, "nth": nth, **({"when": when} if when else {}), "do": do}]
    for call in (*CHANGES, *LEASES)
    for nth in (1, 2)
    for when, do in (
        ("", "lost-reply"),
        *((w, d) for w in ("before", "after") for d in ("reset", "malformed", 503, "expire-session")),
        *((w, {"restart": "200ms", "starting": "100ms"}) for w in ("before", "after")),
        *((("", "task-gone"),) if call.endswith("_Task") else ()),
    )
]


@pytest.mark.parametrize("what", TOGETHER)
def test_a_set_is_made_whatever_becomes_of_the_replies(world, what):
    struck(world, TOGETHER[what], world.many)


@pytest.mark.parametrize("number", cases(0, len(ONE)))
def test_a_set_is_made_whatever_becomes_of_one_reply(world, number):
    struck(world, ONE[number], world.many)


SHRINK = {
    "lost": [{"on": "Destroy_Task", "target": "train-*", "nth": 2, "do": "lost-reply"}]
    + [{"on": c, "nth": 1, "do": "lost-reply"} for c in ("ReconfigureComputeResource_Task", "SetField")],
    "gone": [{"on": c, "target": t, "nth": 1, "do": "task-gone"}
             for c, t in (("Destroy_Task", "train-*"), ("ReconfigureComputeResource_Task", "*"))],
}  # fmt: skip


def test_a_set_shrinks_whatever_becomes_of_the_replies(world):
    for rules in SHRINK.values():
        assert world("apply", world.many, "--yes").code == 0
        struck(world, rules, world.few, "--destroy", 2, names=NAMES[:1])
        world.lab.post("/lab/reset")


def test_what_fails_is_done_by_the_resume(world):
    fails = {"task-fails": "InvalidState"}
    for call, do in ((CHANGES[0], fails), (CHANGES[3], fails), (LEASES[1], {"fault": "InvalidState"})):
        struck(world, [{"on": call, "nth": 1, "do": do}], world.many, code=1)
        world.lab.post("/lab/reset")


def test_a_clone_that_lands_elsewhere_ends_the_run_and_is_gone_on_with_where_it_is(world):
    said = struck(world, [{"on": "CloneVM_Task", "nth": 1, "do": "clone-elsewhere"}], world.many, code=1)
    assert "was made on esx01.lab.local and not on esx02.lab.local" in said


def test_a_clone_goes_on_without_the_run_that_started_it(world, monkeypatch, tmp_path):
    """Killed while a clone is under way: another user's run is refused, and resume waits for the clone."""
    lab, two, names = world.lab, world.book(play("train-[01:02]", **PLACED)), NAMES[:2]
    lab.set_faults([{"on": "CloneVM_Task", "nth": 2, "do": {"task-stuck": 40}}])
    going = world.tool.start("apply", "-i", world.inventory, two, "--yes")
    until(lambda: lab.get("/lab/faults")["fired"])
    going.kill_after(0)
    made = world.effects()
    with monkeypatch.context() as other:
        other.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path / "other"))
        assert world("apply", two, "--yes").code == 7, "the killed run holds the lock"
        planned = world("plan", two)
        assert (planned.code, "[vm_set.name-taken]" in planned.text) == (1, True), planned.text
        assert "[vm_set.clone-running]" in world("destroy", two, "--dry-run").text
    going = world.tool.start("resume")
    time.sleep(1.0)
    assert world.effects() - made == {}
    lab.post("/lab/faults/release", {"rule": 1})
    ended = going.wait()
    assert ended.code == 0, ended.text
    assert {o: n for (o, call), n in world.effects().items() if call == "CloneVM_Task"} == dict.fromkeys(names, 1)
    world.judge(two, names, ended.text, nics=3)


@pytest.fixture
def point(world, tmp_path):
    """Where a run may die: the request for the clone of train-01 has left, and no one has read its answer."""
    assert world("apply", world.few, "--yes", spec=Spec(record=str(tmp_path / "points"))).code == 0
    found = [x for x in (tmp_path / "points").read_text().splitlines() if x.startswith("after call | train-01 | ")]
    world.lab.post("/lab/reset")
    (clone,) = [x for x in found if "CloneVM_Task" in x]
    return clone


def cut_off(world, point, do):
    """Let a run die right after it has sent its clone, to which this happens."""
    world.lab.set_faults([{"on": "CloneVM_Task", "nth": 1, "do": do}])
    assert world("apply", world.few, "--yes", spec=Spec(at=point)).code == DIED
    until(lambda: world.lab.get("/lab/faults")["fired"])
    (run,) = world.unfinished()
    (path,) = (p for p in harness.journals() if run["run"] in p.name)
    with contextlib.closing(sqlite3.connect(path)) as db:
        assert db.execute("select state, task from step where summary like 'clone %'").fetchall() == [("begun", None)]


def said_by(going):
    return going.out.read_text(encoding="utf-8") if going.out.exists() else ""


def test_a_clone_is_waited_for_whose_task_the_journal_does_not_have(world, point):
    """Killed between the request for a clone and the note of its task: resume finds the task on the source."""
    cut_off(world, point, {"task-stuck": 40})
    going = world.tool.start("resume")
    until(lambda: "(clone) is still under way" in said_by(going))
    assert world.effects() == {}
    world.lab.post("/lab/faults/release", {"rule": 1})
    ended = going.wait()
    assert ended.code == 0, ended.text
    assert world.effects()["train-01", "CloneVM_Task"] == 1
    world.judge(world.few, NAMES[:1], ended.text, nics=3)


@pytest.mark.parametrize("late", [False, True])
def test_a_request_for_a_clone_may_arrive_after_the_run_is_resumed(world, point, late):
    """vCenter takes it up while resume looks for its task, or after resume has made the VM: it is made once."""
    cut_off(world, point, "hold")
    going = world.tool.start("resume", spec=Spec(tune=TUNE | {"EVENTS_LAG": 0.2 if late else 60.0}))
    if late:
        until(lambda: world.effects()["train-01", "CloneVM_Task"])
    else:
        until(lambda: "a request for its clone may be on its way" in said_by(going))
    world.lab.post("/lab/faults/release", {"rule": 1})
    ended = going.wait()
    assert ended.code == 0, ended.text
    assert world.effects()["train-01", "CloneVM_Task"] == 1
    world.judge(world.few, NAMES[:1], ended.text, nics=3)


def test_another_vm_takes_the_identity_while_a_run_is_about_to_clone(world, new_client):
    """VCenter then gives the clone another instance UUID: the run stops, and touches neither of the two."""
    soap = new_client(world.lab)
    uuid = instance_uuid(soap.content.about.instanceUuid, "train", 2, 1)
    world.lab.set_faults([{"on": "CloneVM_Task", "nth": 2, "do": "hold"}])
    going = world.tool.start("apply", "-i", world.inventory, world.book(play("train-[01:02]", **PLACED)), "--yes")
    until(lambda: world.lab.get("/lab/faults")["fired"])
    source = soap.vm("other-01")
    soap.wait(source.PowerOffVM_Task())
    config = soap.vim.vm.ConfigSpec(instanceUuid=uuid)
    spec = soap.vim.vm.CloneSpec(location=soap.vim.vm.RelocateSpec(), powerOn=False, template=False, config=config)
    soap.wait(source.CloneVM_Task(source.parent, "thief", spec))
    world.lab.post("/lab/faults/release", {"rule": 1})
    ended = going.wait()
    assert ended.code == 1, ended.text
    assert "another instance UUID" in ended.text
    again = world.tool("resume")
    assert again.code == 1, again.text
    assert "[vm_set.mark-lost]" in again.text
    assert world.effects("thief") == {("thief", "CloneVM_Task"): 1}
    for name in ("thief", "train-02"):
        soap.wait(soap.vm(name).Destroy_Task())
    assert world.tool("resume").code == 0
