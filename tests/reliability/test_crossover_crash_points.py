"""A crossover that dies at any point: one resume brings every VM back to its host, powered as before."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter

import pytest
from reliability.conftest import farm
from reliability.crash import DIED
from reliability.harness import Spec, picture
from support.crossovers import VGPUS
from support.gates import LONG
from support.seeds import ALL, FULL, cases, chance

from vsphere_ai.app import EstateRequest, NodesRequest
from vsphere_ai.app.training.benchmarks.crossover import CrossoverOptions, CrossoverRequest, bench_crossover
from vsphere_ai.errors import Locked

SMALL, LARGEST = 6, 320
DEFECT = {"kind": "gpu-slow", "host": "esx02*", "factor": 0.75}


class Crossing:
    """A swap of two VMs that are powered off for it, on a lab; `points` are those of an undisturbed run."""

    def __init__(self, lab, tool):
        self.lab, self.tool = lab, tool
        self.before = picture(lab)
        self.points = []

    def begin(self, spec=None):
        inventory = self.lab.directory / "connection.yml"
        how = ("--vm", "trn-02", "--swap-with", "trn-03", "--suffix", "_mpi", "--yes")
        return self.tool.start("bench", "crossover", "-i", inventory, "trn-*", *how, spec=spec)

    def start(self, spec=None):
        return self.begin(spec).wait()

    def held_at(self, rule):
        """Begin one, and return it when it has met a rule that holds it."""
        self.lab.set_faults(f"- {rule}\n")
        going, end = self.begin(), time.monotonic() + LONG
        while not self.lab.get("/lab/faults")["fired"]:
            assert time.monotonic() < end
            time.sleep(0.02)
        return going

    def afresh(self):
        self.lab.post("/lab/reset")
        self.lab.set_defects(DEFECT)

    def judge(self, said):
        """Everything is as before, and nothing was done more often than there and back."""
        assert picture(self.lab) == self.before, said
        bad = [v for v in self.lab.check(since=0)["invariants"] if not v["ok"] and v["name"] != "sessions"]
        assert not bad, said
        done = Counter((e["object"], e["call"]) for e in self.lab.get("/lab/ledger")["entries"])
        for vm in ("trn-02", "trn-03"):
            assert done[vm, "MigrateVM_Task"] in (0, 2), f"{done}\n{said}"
            assert done[vm, "PowerOnVM_Task"] <= 2, f"{done}\n{said}"


@pytest.fixture(scope="module")
def crossing(tool, tmp_path_factory):
    folder = tmp_path_factory.mktemp("crossing")
    scenario = folder / "farm.yml"
    scenario.write_text(VGPUS, encoding="utf-8")
    with farm(folder / "lab", scenario) as lab, pytest.MonkeyPatch.context() as patch:
        patch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
        patch.setenv("VSPHERE_AI_STATE_DIR", str(folder))
        made = Crossing(lab, tool)
        made.afresh()
        ended = made.start(Spec(record=str(folder / "points.txt")))
        assert (ended.code, "the slowdown stays with esx02.lab.local" in ended.text) == (2, True), ended.text
        made.judge(ended.text)
        made.points = (folder / "points.txt").read_text(encoding="utf-8").splitlines()
        yield made


@pytest.mark.parametrize("number", cases(SMALL, SMALL * 4, LARGEST))
def test_a_crossover_that_dies_at_a_point_is_put_back(crossing, number, tmp_path, monkeypatch):
    points = crossing.points if ALL else chance("crossover").sample(crossing.points, k=SMALL * (4 if FULL else 1))
    if number >= len(points):
        pytest.skip(f"there are {len(points)} points")
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path))
    crossing.afresh()
    ended = crossing.start(Spec(at=points[number]))
    assert ended.code == DIED, f"{points[number]} was not reached\n{ended.text}"
    said = f"{points[number]}\n{ended.text}"
    if unfinished(crossing.tool):
        again = crossing.tool("resume", spec=Spec())
        said += again.text
        assert again.code == 0, said
    crossing.judge(said)


def unfinished(tool):
    """Return the runs that did not come to their end."""
    runs = json.loads(tool("run", "list", "-o", "json").text)["runs"]
    return [run for run in runs if run["state"] != "finished"]


@pytest.mark.parametrize("call", ["ShutdownGuest", "MigrateVM_Task", "PowerOnVM_Task"])
@pytest.mark.parametrize("nth", [1, 2, 3] if FULL else [1, 3])
def test_ctrl_c_puts_everything_back(crossing, call, nth, tmp_path, monkeypatch):
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path))
    crossing.afresh()
    going = crossing.held_at(f"{{on: {call}, nth: {nth}, do: hold}}")
    going.signal(signal.SIGINT)
    time.sleep(0.1)
    crossing.lab.set_faults("[]")
    ended = going.wait()
    assert ended.code == 130, ended.text
    assert unfinished(crossing.tool) == [] or not any(r["pending"] for r in unfinished(crossing.tool)), ended.text
    crossing.judge(ended.text)


def test_a_second_one_is_refused(crossing, tmp_path, monkeypatch):
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path))
    crossing.afresh()
    first = crossing.held_at("{on: MigrateVM_Task, nth: 1, do: hold}")
    estate = EstateRequest(inventory=crossing.lab.directory / "connection.yml")
    second = CrossoverRequest(NodesRequest(("trn-*",), estate=estate), CrossoverOptions(vm="trn-04"), yes=True)
    with pytest.raises(Locked):
        bench_crossover(second)
    crossing.lab.set_faults("[]")
    ended = first.wait()
    assert ended.code == 2, ended.text
    crossing.judge(ended.text)
