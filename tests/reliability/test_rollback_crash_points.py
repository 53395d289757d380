"""A rollback that dies at any point, also while it takes over what the cut-off run owes, is brought to its end."""

from __future__ import annotations

import contextlib
import sqlite3
from types import SimpleNamespace

import pytest
from reliability import harness
from reliability.crash import DIED
from reliability.harness import Spec
from support.seeds import ALL, by_level, cases, chance

PLAY = """
- hosts: esx03.lab.local
  graphics: {default_type: shared_direct, assignment_policy: performance}
  rolling: {max_unavailable: 1, evacuate: power_off, reboot: ssh, timeout: 1m}
"""
CUT = "after end | esx03.lab.local | reboot (over SSH) #1"
HANDING_OVER = ("create", "flush", "add_pending", "resolve", "write")
SMALL, LARGEST = 12, 160  # of about 110 points; the plan may grow
SOME = by_level(SMALL, 30)
OVER = {"finished", "rolled back"}


class Back:
    """A run that is cut off while its host is out of service, and what rolling it back does."""

    def __init__(self, lab, tool, playbook):
        self.lab, self.tool, self.playbook = lab, tool, playbook
        self.before, self.points, self.done, self.broken = None, [], None, set()

    def cut(self):
        """Apply, die at the cut, and return the name of the run; what it owes is checked."""
        self.lab.post("/lab/reset")
        inventory = harness.R0 / "inventory.yml"
        ended = self.tool("apply", "-i", inventory, self.playbook, "--yes", spec=Spec(at=CUT))
        assert ended.code == DIED, ended.text
        (run,) = [r for r in self.runs() if r["state"] == "unfinished"]
        assert {"maintenance", "gate", "off", "reboot", "ssh"} <= {o["kind"] for o in run["pending"]}, run
        return run["run"]

    def rollback(self, run, spec=None):
        return self.tool("rollback", run, "--yes", spec=spec)

    def runs(self):
        return harness.Mission.runs(self)

    def learn(self, record):
        self.lab.post("/lab/reset")
        self.before = harness.picture(self.lab)
        ended = self.rollback(self.cut(), Spec(record=str(record)))
        assert ended.code == 0, ended.text
        self.points = record.read_text(encoding="utf-8").splitlines()
        self.done, self.broken = harness.effects(self.lab), self.violated()
        assert self.broken <= {"reboots", "sessions"}, "there and back again"
        self.judge("undisturbed")

    def violated(self):
        return {v["name"] for v in self.lab.check(since=0, max_down=1)["invariants"] if not v["ok"]} - {"sessions"}

    def judge(self, said):
        """All is as before the run, nothing was done more often than by an undisturbed rollback, nobody owes."""
        assert harness._differences(self.before, harness.picture(self.lab)) == [], said
        assert self.violated() <= self.broken, said
        assert not (much := harness.effects(self.lab) - self.done), f"{much}\n{said}"
        for run in self.runs():
            assert run["state"] in OVER, f"{run}\n{said}"
            assert run["pending"] == [], f"{run}\n{said}"
        for path in harness.journals():
            with contextlib.closing(sqlite3.connect(path)) as db:
                assert db.execute("pragma integrity_check").fetchall() == [("ok",)], path


@pytest.fixture(scope="module")
def learned_back(r0_lab, tool, tmp_path_factory):
    folder = tmp_path_factory.mktemp("back")
    playbook = folder / "play.yml"
    playbook.write_text(PLAY, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VSPHERE_AI_LAB_DIR", str(r0_lab.directory))
        patch.setenv("VSPHERE_AI_STATE_DIR", str(folder))
        back = Back(r0_lab, tool, playbook)
        back.learn(folder / "points.txt")
    return back


@pytest.fixture
def back(learned_back, r0_lab, monkeypatch):
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(r0_lab.directory))
    return learned_back


def chosen(points, number):
    """The point of one case: all in order with RELIABILITY=all, else some, most of them of the handing over."""
    if ALL:
        return points[number] if number < len(points) else None
    draw = chance("crash of a rollback")
    over = [p for p in points if p.split(" ")[1] in HANDING_OVER]
    first = [p for p in over if p.split(" ")[1] in ("create", "flush")]
    rest = [p for p in over if p not in first]
    some = [*first, *draw.sample(rest, k=min(len(rest), SOME - len(first) - 2))]
    others = [p for p in points if p not in over]
    return [*some, *draw.sample(others, k=SOME - len(some))][number]


@pytest.mark.parametrize("number", cases(SMALL, SOME, LARGEST))
def test_a_rollback_that_dies_at_a_point_comes_to_its_end(back, number):
    point = chosen(back.points, number)
    if point is None:
        pytest.skip(f"the rollback has {len(back.points)} points")
    first = back.cut()
    ended = back.rollback(first, Spec(at=point))
    assert ended.code == DIED, f"{point} was not reached\n{ended.text}"
    print(point)
    runs = {r["run"]: r for r in back.runs()}
    owing = [name for name, r in runs.items() if any(o["kind"] != "lock" for o in r["pending"])]
    assert len(owing) <= 1, f"{point}: a debt is one run's, also in the moment it is handed over: {runs}"
    if len(runs) == 1:  # it had not begun
        assert runs[first]["state"] == "unfinished"
        ended = back.rollback(first)
    elif {r["state"] for r in runs.values()} <= OVER:  # all that was left was to say so
        ended = SimpleNamespace(code=0, text="")
    else:
        if owing and owing != [first]:
            refused = back.tool("resume", first)
            assert refused.code == 3, f"{point}\n{refused.text}"
            assert f"vsphere-ai resume {owing[0]}" in refused.text
        ended = back.tool("resume")
    assert ended.code == 0, f"{point}\n{ended.text}"
    back.judge(f"{point}\n{ended.text}")


def test_every_point_of_a_rollback_has_its_turn(back):
    assert len(back.points) == len(set(back.points)) <= LARGEST
    for name in ("create", "flush", "resolve", "write"):
        assert any(p.startswith(f"before {name} ") for p in back.points), name
    assert sum(p.split(" ")[1] in HANDING_OVER for p in back.points) >= SMALL
