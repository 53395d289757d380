"""A run that is killed anywhere is brought to its end by `resume`: every effect once, everything put back."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections import Counter

import pytest
from support.places import INVENTORY, PLAYBOOKS

pytestmark = pytest.mark.lab
MISSION = PLAYBOOKS / "ai-ready-cluster.yml"
ONCE = ("ReconfigVM_Task", "UpgradeVM_Task", "ShutdownGuest", "PowerOnVM_Task", "UpdateGraphicsConfig",
        "esxcli system shutdown reboot", "EnterMaintenanceMode_Task", "ExitMaintenanceMode_Task")  # fmt: skip


@pytest.fixture(autouse=True)
def _own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setattr("vsphere_ai.cli.resume.NEVER_DOWN", 3.0)


def killed_at(lab, line, *, playbook=MISSION):
    """Apply in a process of its own and kill it when it prints this; return what it printed."""
    argv = [sys.executable, "-m", "vsphere_ai", "apply", "-i", str(INVENTORY), str(playbook), "--yes"]
    environment = {**os.environ, "VSPHERE_AI_LAB_DIR": str(lab.directory), "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    seen = []
    for text in process.stdout:
        seen.append(text)
        if re.search(line, text):
            process.send_signal(signal.SIGKILL)
            break
    process.stdout.read()
    assert process.wait(30) == -signal.SIGKILL, "".join(seen)
    return "".join(seen)


def judge(farm, ledger, before):
    """Everything is as planned, put back, and happened once."""
    now = farm()
    for name, host in now["hosts"].items():
        assert host["maintenance"] == before["hosts"][name]["maintenance"], name
        assert host["ssh"]["running"] == before["hosts"][name]["ssh"]["running"], name
    for name, vm in now["vms"].items():
        assert vm["power"] == before["vms"][name]["power"], name
    assert all(now["vms"][f"train-0{n}"]["vgpu"] == ["grid_a100-3-20c"] for n in range(1, 5))
    assert all(len(now["vms"][f"train-0{n}"]["pvrdma"]) == 1 for n in range(1, 5))
    count = Counter((e["object"], e["call"]) for e in ledger() if e["call"] in ONCE)
    assert {k: n for k, n in count.items() if n > 1} == {}


POINTS = [
    r"train-01 +\[\d+/\d+\] shut down \(guest shutdown only\)",
    r"esx01\S+ +\[\d+/\d+\] enter maintenance mode",
    r"esx01\S+ +\[\d+/\d+\] enter maintenance mode — done",
    r"esx01\S+ +\[\d+/\d+\] set graphics",
    r"esx01\S+ +\[\d+/\d+\] MIG enabled on GPU 0000:3b:00.0 — done",
    r"esx01\S+ +\[\d+/\d+\] reboot \(over SSH\)",
    r"esx01\S+ +\[\d+/\d+\] reboot \(over SSH\) — done",
    r"esx01\S+ +\[\d+/\d+\] wait until the host is connected",
    r"esx01\S+ +\[\d+/\d+\] start TSM-SSH again after boot",
    r"esx01\S+ +\[\d+/\d+\] read back — done",
    r"train-01 +\[\d+/\d+\] upgrade to hardware version 19",
    r"train-01 +\[\d+/\d+\] reconfigure",
    r"train-01 +\[\d+/\d+\] power on",
    r"esx01\S+ +\[\d+/\d+\] health gate",
    r"esx02\S+ +\[\d+/\d+\] reboot \(over SSH\) — done",
    r"train-03 +\[\d+/\d+\] reconfigure",
]


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_run_is_resumed(lab, cli, farm, ledger, point):
    before = farm()
    killed_at(lab, point)
    assert cli("runs") == 0
    assert "unfinished" in cli.out
    assert cli("plan", MISSION) in (0, 1)
    assert "was not finished" in cli.err
    assert cli("resume") == 0, cli.out + cli.err
    assert "not approved then" not in cli.err
    judge(farm, ledger, before)
    assert cli("plan", MISSION, "--detailed-exitcode") == 0
    assert cli("runs") == 0
    assert "finished" in cli.out
    assert "unfinished" not in cli.out
    assert cli("resume") == 64


def test_a_run_is_rolled_back(cli, farm):
    before = farm()
    assert cli("apply", PLAYBOOKS / "time-sliced.yml", "--yes") == 0
    (run,) = [line.split()[0] for line in runs(cli)]
    assert cli("rollback", run, "--yes") == 0, cli.out + cli.err
    now = farm()
    for name in ("esx01.lab.local", "esx02.lab.local"):
        assert [g["active"] for g in now["hosts"][name]["gpus"]] == [g["active"] for g in before["hosts"][name]["gpus"]]
    assert all(now["vms"][n]["vgpu"] == [] and now["vms"][n]["power"] == v["power"] for n, v in before["vms"].items())


def runs(cli):
    cli("runs")
    return cli.out.splitlines()


def test_two_runs_at_once_have_one_winner(lab, cli, ledger):
    import time

    argv = [sys.executable, "-m", "vsphere_ai", "apply", "-i", str(INVENTORY), str(MISSION), "--yes"]
    environment = {**os.environ, "VSPHERE_AI_LAB_DIR": str(lab.directory)}
    both = [subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment)
            for _ in range(2)]  # fmt: skip
    errors = [p.communicate(timeout=60)[1] for p in both]
    assert sorted(p.returncode for p in both) == [0, 7], errors
    assert "another run works on this vCenter" in "".join(errors)
    assert time.monotonic() > 0
    count = Counter((e["object"], e["call"]) for e in ledger() if e["call"] in ONCE)
    assert max(count.values()) == 1


def test_a_journal_is_ours_alone(cli, tmp_path):
    assert cli("apply", PLAYBOOKS / "pvrdma-only.yml", "--yes") == 0
    folder = tmp_path / "state" / "runs"
    assert oct(folder.stat().st_mode)[-3:] == "700"
    assert {oct(f.stat().st_mode)[-3:] for f in folder.glob("*.db")} == {"600"}


@pytest.mark.parametrize("spoil", ["file", "link", "open"])
def test_without_a_safe_journal_nothing_is_changed(cli, ledger, tmp_path, spoil):
    state = tmp_path / "state"
    state.mkdir()
    if spoil == "file":
        (state / "runs").write_text("")
    elif spoil == "link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        (state / "runs").symlink_to(tmp_path / "elsewhere")
    else:
        (state / "runs").mkdir()
        (state / "runs").chmod(0o777)
    assert cli("apply", PLAYBOOKS / "pvrdma-only.yml", "--yes") == 8
    assert ledger() == []
