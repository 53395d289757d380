"""T-29, T-24: in a vCenter of thousands of VMs only those that a playbook means are read closely."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from datetime import datetime, timedelta

import pytest
from support import large_farm, prefork
from support.gates import LONG
from support.large_farm import TRAINING
from support.places import INVENTORY
from support.seeds import FULL, by_level

pytestmark = pytest.mark.lab
FEW, MANY = by_level((200, 1000), (200, 1000), (1000, 10_000))
PAGE = 500
"""Objects in one answer at most."""
MEMORY_MIB = 200
ROUNDS, BUSY = 15, 8
"""How often in a row an answer may be waited for: 30 seconds with 2 seconds of latency; more of them where requests
that leave side by side are spread out by a busy machine."""
LATENCY = 2.0 if FULL else 0.5
"""Seconds."""
LIGHT = {"name", "parent", "parentVApp", "config.managedBy", "config.template", "runtime.connectionState",
         "runtime.host", "runtime.powerState"}  # fmt: skip
OF_ALL = {"ContinueRetrievePropertiesEx"}
LOOKS = "RetrievePropertiesEx"
"""Begins reading; also looks at the tasks of vCenter's own checks, all at once, as often as they take to end."""
BEGUN, MOST_LOOKS = 4, 40
"""Readings without those looks; looks within the minute a check may take, at most."""
MEASURED = """
import re, sys
from pathlib import Path
from vsphere_ai.cli.main import main
code = main(sys.argv[1:])
sys.stdout.flush()
print(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1], file=sys.stderr)
sys.exit(code)
"""


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    """For each size of farm: the plan of the same playbook, the lab's record of what was asked, and MiB of memory.

    Of the smaller one also: what an `apply` to two of its VMs reads, and how often in a row the plan waits when every
    answer of vCenter comes `LATENCY` later.
    """
    from vsphere_ai.lab.front import process

    found = {}
    for vms in (FEW, MANY):
        directory = tmp_path_factory.mktemp(f"farm-{vms}")
        (directory / "farm.yml").write_text(large_farm.scenario(vms), encoding="utf-8")
        (directory / "play.yml").write_text(large_farm.PLAYBOOK, encoding="utf-8")
        lab = process.start(directory, directory / "farm.yml", exit_with=os.getpid())
        try:
            found[vms] = measured(lab, directory / "play.yml")
            if vms == FEW:
                found["read"] = read_by_apply(lab)
                found["waits"] = waits(lab, directory / "play.yml")
        finally:
            process.stop(directory)
    return found


def measured(lab, playbook):
    state = lab.directory / "state"
    environment = {**os.environ, "VSPHERE_AI_LAB_DIR": str(lab.directory), "VSPHERE_AI_STATE_DIR": str(state)}
    argv = [sys.executable, "-c", MEASURED, "plan", "-i", str(INVENTORY), str(playbook), "-o", "json"]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=LONG)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    kib = int(re.findall(r"(?m)^\d+$", done.stderr)[-1])
    return json.loads(done.stdout), lab.get("/lab/traffic"), kib / 1024


def read_by_apply(lab):
    """Let it change two VMs; return how many VMs' power states were read for that, and how often all objects."""
    before = lab.get("/lab/traffic")
    playbook, state = lab.directory / "two.yml", lab.directory / "state"
    playbook.write_text("- vms: train-[01:02]\n  hardware: {version: 19}\n", encoding="utf-8")
    environment = {**os.environ, "VSPHERE_AI_LAB_DIR": str(lab.directory), "VSPHERE_AI_STATE_DIR": str(state)}
    argv = [sys.executable, "-m", "vsphere_ai", "apply", "-i", str(INVENTORY), str(playbook), "--yes"]
    done = prefork.run(argv, env=environment, capture_output=True, text=True, timeout=LONG)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "read back — done" in done.stdout
    after = lab.get("/lab/traffic")
    states = [each["read"]["VirtualMachine"]["runtime.powerState"] for each in (before, after)]
    wholes = [each["read"]["Datacenter"]["name"] for each in (before, after)]
    return states[1] - states[0], wholes[1] - wholes[0]


def test_reading_back_reads_what_was_changed_and_no_other_vm(planned):
    states, wholes = planned["read"]
    assert FEW <= states < FEW + TRAINING
    assert wholes == 1, "networks and folders, which such a plan leaves alone, are read once for the plan"


def waits(lab, playbook):
    """Plan with latency; return how many requests were made, and how many waits for answers follow one another."""
    calls = lab.get("/lab/traffic")["calls"]
    lab.set_faults([{"on": method, "probability": 1.0, "do": {"delay": f"{LATENCY}s"}} for method in calls])
    measured(lab, playbook)
    asked = sorted(datetime.fromisoformat(f["time"]) for f in lab.get("/lab/faults")["fired"])
    row, answered = 0, asked[0]
    for at in asked:
        if at >= answered:
            row, answered = row + 1, at + timedelta(seconds=LATENCY)
    return len(asked), row


def test_a_slow_line_is_waited_for_a_few_times_only(planned):
    """Two seconds of latency make half a minute, not two seconds for each of 138 requests."""
    asked, row = planned["waits"]
    print(f"{asked} requests, {row} waits in a row")
    assert row <= ROUNDS + BUSY < asked / 2


def test_every_vm_of_the_playbook_is_planned(planned):
    for plan, _, _ in (planned[vms] for vms in (FEW, MANY)):
        assert plan["problems"] == []
        assert len({s["target"]["name"] for s in plan["steps"] if s["target"]["kind"] == "vm"}) == TRAINING


def test_only_the_vms_of_the_playbook_are_read_closely(planned):
    for vms in (FEW, MANY):
        traffic = planned[vms][1]
        read = traffic["read"]["VirtualMachine"]
        assert {path for path, times in read.items() if times >= vms} == LIGHT
        assert read["config.hardware.device"] == TRAINING
        assert {path: times for path, times in read.items() if path not in LIGHT and times > TRAINING} == {}
        assert {path: times for path, times in read.items() if path in LIGHT and times > vms + TRAINING} == {}


def test_more_vms_are_more_pages_and_no_more_requests(planned):
    few, many = (planned[vms][1]["calls"] for vms in (FEW, MANY))
    others = few.keys() - OF_ALL - {LOOKS}
    assert {m: few[m] for m in others} == {m: many[m] for m in many.keys() - OF_ALL - {LOOKS}}
    grown = sum(many.get(m, 0) - few.get(m, 0) for m in OF_ALL)
    assert 0 < grown <= math.ceil((MANY - FEW) / PAGE)
    assert max(few[LOOKS], many[LOOKS]) <= BEGUN + MOST_LOOKS


def test_each_further_vm_is_a_few_hundred_bytes(planned):
    few, many = (sum(planned[vms][1]["bytes"].values()) for vms in (FEW, MANY))
    assert (many - few) / (MANY - FEW) < 2000


def test_the_plan_takes_little_memory(planned):
    print({vms: f"{planned[vms][2]:.0f} MiB" for vms in (FEW, MANY)})
    assert planned[MANY][2] <= MEMORY_MIB
