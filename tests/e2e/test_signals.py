"""Ctrl-C brings what is in flight to a safe end, starts nothing more, and the next apply finishes the work."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from support.places import INVENTORY, PLAYBOOKS

pytestmark = pytest.mark.lab
MISSION = PLAYBOOKS / "ai-ready-cluster.yml"


def start(lab):
    argv = [sys.executable, "-m", "vsphere_ai", "apply", "-i", str(INVENTORY), str(MISSION), "--yes"]
    environment = {**os.environ, "VSPHERE_AI_LAB_DIR": str(lab.directory), "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)


@pytest.mark.parametrize(
    ("number", "code", "at"),
    [
        (signal.SIGINT, 130, "esx01.lab.local    [9/44] reboot"),
        (signal.SIGTERM, 143, "[1/44] shut down (guest shutdown only)"),
        (signal.SIGHUP, 129, "esx02.lab.local    [25/44] enter maintenance mode"),
    ],
)
def test_a_signal_ends_in_an_orderly_way(lab, farm, cli, ledger, number, code, at):
    process = start(lab)
    seen = []
    for line in process.stdout:
        seen.append(line)
        if at in line and process.poll() is None:
            process.send_signal(number)
            at = "never again"
    assert process.wait(60) == code, "".join(seen)
    assert at == "never again"
    text = "".join(seen)
    assert "stopped by the operator" in text

    now = farm()
    assert not any(h["maintenance"] for h in now["hosts"].values()), "a host was left in maintenance"
    for name in ("train-01", "train-02", "train-03"):
        assert now["vms"][name]["power"] == "poweredOn", f"{name} was left off\n{text}"

    assert cli("apply", MISSION, "--yes") == 0, cli.out
    reboots = [e["object"] for e in ledger() if e["call"] == "esxcli system shutdown reboot"]
    assert sorted(reboots) == ["esx01.lab.local", "esx02.lab.local"], "a host rebooted twice"
    assert cli("plan", MISSION, "--detailed-exitcode") == 0


def test_a_reader_that_leaves_ends_it_in_an_orderly_way(lab, farm):
    process = start(lab)
    for line in process.stdout:
        if "[1/44] shut down (guest shutdown only)" in line:
            process.stdout.close()
            break
    assert process.wait(60) == 141
    now = farm()
    assert not any(h["maintenance"] for h in now["hosts"].values()), "a host was left in maintenance"
    assert [now["vms"][f"train-0{n}"]["power"] for n in (1, 2, 3)] == ["poweredOn"] * 3
