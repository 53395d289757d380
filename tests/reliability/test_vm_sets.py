"""A run that makes or destroys VMs of a set dies at any point: one resume brings it to its end, each VM made once."""

from __future__ import annotations

import pytest
from reliability.conftest import farm
from reliability.crash import DIED
from reliability.harness import Spec
from reliability.vm_sets import OTHERS, World
from support.seeds import ALL, FULL, cases, chance
from support.vm_sets import FARM, play

POSITIONS = ("before begin", "after begin", "after call", "after reply", "after end")
FEW, MANY = "train-01", "train-[01:03]"
SMALL, LARGEST = 5, 70
NAMES = {"grow": ("train-01", "train-02", "train-03"), "shrink": ("train-01",)}


class Sets(World):
    """A set that grows to three VMs and shrinks to one, over and over; and the points of both runs."""

    def __init__(self, lab, tool, folder):
        super().__init__(lab, tool, folder)
        self.few, self.many = self.book(play(FEW, nics=2), "few.yml"), self.book(play(MANY, nics=2), "many.yml")
        self.plays = {"grow": self.many, "shrink": self.few}
        self.points, self.done = {}, {}

    def apply(self, playbook, spec=None):
        counted = ("--destroy", "2") if playbook == self.few and set(self.vms()) - OTHERS > {"train-01"} else ()
        return self("apply", playbook, "--yes", *counted, spec=spec)

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
            self.judge(playbook, NAMES[what], ended.text)
        assert max(map(len, self.points.values())) <= LARGEST, "not every point would be tried"

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
        self.judge(playbook, NAMES[what], said)


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


@pytest.mark.parametrize("number", cases(SMALL, LARGEST))
def test_a_run_of_a_set_that_dies_at_a_point_is_resumed(sets, number):
    for what in ("grow", "shrink"):
        sets.struck(what, chosen(sets.points[what], what, number))
