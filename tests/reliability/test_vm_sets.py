"""A run that makes or destroys VMs of a set dies at any point: one resume brings it to its end, each VM made once."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from reliability import harness
from reliability.conftest import farm
from reliability.crash import DIED
from reliability.harness import Spec
from support.seeds import ALL, FULL, cases, chance
from support.vm_sets import FARM, INVENTORY, play

from vsphere_ai.model.vm_sets import Mark

POSITIONS = ("before begin", "after begin", "after call", "after reply", "after end")
FEW, MANY = "train-01", "train-[01:03]"
SMALL, LARGEST = 5, 70
OTHERS = {"other-01", "ubuntu-22.04"}
CALLS = ("CloneVM_Task", "Destroy_Task", "ReconfigVM_Task", "PowerOnVM_Task", "ShutdownGuest", "PowerOffVM_Task")


class Sets:
    """A set that grows to three VMs and shrinks to one, over and over; and the points of both runs."""

    def __init__(self, lab, tool, folder):
        self.lab, self.tool = lab, tool
        self.inventory, self.few, self.many = (folder / n for n in ("inventory.yml", "few.yml", "many.yml"))
        self.inventory.write_text(INVENTORY, encoding="utf-8")
        self.few.write_text(play(FEW, nics=2), encoding="utf-8")
        self.many.write_text(play(MANY, nics=2), encoding="utf-8")
        self.plays = {"grow": self.many, "shrink": self.few}
        self.points, self.done = {}, {}

    def apply(self, playbook, spec=None):
        counted = ("--destroy", "2") if playbook == self.few and set(self.vms()) - OTHERS > {"train-01"} else ()
        return self.tool("apply", "-i", self.inventory, playbook, "--yes", *counted, spec=spec)

    def learn(self, folder):
        """Apply each once undisturbed, and note every point of it."""
        self.lab.post("/lab/reset")
        for playbook in (self.few, self.many, self.few):  # then the custom attributes are there
            ended = self.apply(playbook)
            assert ended.code == 0, ended.text
        for what, playbook in self.plays.items():
            before, record = self.effects(), folder / f"{what}.txt"
            ended = self.apply(playbook, Spec(record=str(record)))
            assert ended.code == 0, ended.text
            self.points[what] = record.read_text(encoding="utf-8").splitlines()
            self.done[what] = self.effects() - before
            self.judge(playbook, ended.text)

    def effects(self):
        entries = self.lab.get("/lab/ledger")["entries"]
        return Counter(
            (e["object"], e["call"]) for e in entries if e["call"] in CALLS and e["object"].startswith("train")
        )

    def vms(self):
        return {vm["name"]: vm for vm in self.lab.get("/lab/farm")["vms"]}

    def struck(self, what, point):
        """Apply, die at a point, and go on; everything happened once."""
        playbook, before = self.plays[what], self.effects()
        ended = self.apply(playbook, Spec(at=point))
        assert ended.code == DIED, f"{point} was not reached\n{ended.text}"
        again = self.tool("resume") if self.unfinished() else self.apply(playbook)
        said = f"{what}: {point}\n{ended.text}\n-- then exit {again.code}\n{again.text}"
        assert again.code == 0, said
        assert "not approved then" not in again.text, said
        assert self.effects() - before == self.done[what], said
        self.judge(playbook, said)

    def unfinished(self):
        return [r for r in harness.Mission.runs(self) if r["state"] != "finished"]

    def judge(self, playbook, said):
        """The VMs are those of the playbook, each with addresses of its own, which the ledger has and no more."""
        there = self.vms()
        names = {"train-01"} if playbook == self.few else {"train-01", "train-02", "train-03"}
        assert set(there) == names | OTHERS, said
        marks = {name: Mark.read(there[name]["extra_config"]) for name in names}
        assert {name: (m.set, m.index) for name, m in marks.items()} == {n: ("train", int(n[-2:])) for n in names}, said
        assert all(there[n]["power"] == "poweredOn" for n in (*names, "other-01")), said
        used = [a.partition("/")[0] for m in marks.values() for n in m.nics for a in n.addresses]
        assert len(set(used)) == len(used) == 2 * len(names), said
        held = self.tool("ipam", "show", "-i", self.inventory, "--format", "json")
        leases = json.loads(held.text)
        assert sorted(x["address"].partition("/")[0] for x in leases["leases"]) == sorted(used), f"{held.text}\n{said}"
        left = self.tool("plan", "-i", self.inventory, playbook, "--detailed-exitcode")
        assert left.code == 0, f"{left.text}\n{said}"
        harness.Mission.books(self, said)

    def runs(self):
        return harness.Mission.runs(self)


@pytest.fixture(scope="module")
def sets(tool, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sets")
    (folder / "farm.yml").write_text(FARM, encoding="utf-8")
    with farm(folder / "lab", folder / "farm.yml") as lab, pytest.MonkeyPatch.context() as patch:
        patch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
        patch.setenv("VSPHERE_AI_STATE_DIR", str(folder / "state"))
        made = Sets(lab, tool, folder)
        made.learn(folder)
        yield made


def chosen(points, what, number):
    if FULL:
        points = points if ALL else [p for p in points if p.startswith(POSITIONS)]
        return points[number % len(points)]
    position = POSITIONS[number % len(POSITIONS)]
    return chance("crash", what).sample([p for p in points if p.startswith(position)], k=SMALL)[
        number // len(POSITIONS)
    ]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("number", cases(SMALL, LARGEST))
def test_a_run_of_a_set_that_dies_at_a_point_is_resumed(sets, number):
    for what in ("grow", "shrink"):
        sets.struck(what, chosen(sets.points[what], what, number))
