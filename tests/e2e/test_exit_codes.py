"""Every exit code of docs/cli.md is reached, and never with a traceback, whatever the output is."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from support import prefork
from support.gates import LONG
from support.places import INVENTORY, PLAYBOOKS, ROOT
from support.processes import Process
from support.screens import compare, ended

from vsphere_ai.execution.actions.context import Context

pytestmark = pytest.mark.lab
MISSION, SMALL = PLAYBOOKS / "ai-ready-cluster.yml", PLAYBOOKS / "pvrdma-only.yml"
ESX = "esx01.lab.local"


def inventory(folder, lab, *, port=None, password=None):
    """An inventory of the lab with something wrong in it."""
    (folder / "password").write_text(password or (lab.directory / "password").read_text("utf-8"), "utf-8")
    (folder / "password").chmod(0o600)
    path = folder / "inventory.yml"
    path.write_text(
        f"vcenters:\n  lab: {{address: 127.0.0.1, port: {port or lab.port}, username: administrator@vsphere.local, "
        f"password: 'file:password', tls: {{ca_file: {lab.directory / 'ca.pem'}}}}}\n",
        "utf-8",
    )
    return path


def done(cli, lab, folder):
    return cli("plan", MISSION)


def refused(cli, lab, folder):
    return cli("plan", cli.file(f"- hosts: {ESX}\n  mig: {{gpus: {{'0000:3b:00.0': [19, 14, 9, 5, 5, 2]}}}}\n"))


def differs(cli, lab, folder):
    return cli("verify", MISSION)


def edited(cli, lab, folder):
    plan = folder / "plan.json"
    assert cli("plan", SMALL, "--to", plan) == 0
    document = json.loads(plan.read_text("utf-8"))
    document["steps"].pop()
    plan.write_text(json.dumps(document), "utf-8")
    return cli("apply", plan, "--yes")


def denied(cli, lab, folder):
    return cli("plan", MISSION, "-i", inventory(folder, lab, password="wrong"))


def unreachable(cli, lab, folder):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return cli("plan", MISSION, "-i", inventory(folder, lab, port=port))


def unhealthy(cli, lab, folder):
    lab.set_faults("- {on: 'ssh: esxcli system shutdown reboot', nth: 1, when: after, do: host-never-returns}\n")
    return cli("apply", cli.file(MISSION.read_text("utf-8").replace("timeout: 30m", "timeout: 2s")), "--yes")


def locked(cli, lab, folder):
    lab.set_faults([{"on": "RetrievePropertiesEx", "nth": 3, "do": "hang"}])
    other = Process(
        lab, "apply", "-i", INVENTORY, SMALL, "--yes", VSPHERE_AI_STATE_DIR=os.environ["VSPHERE_AI_STATE_DIR"]
    )
    try:
        notes = folder / "locks"
        while not list(notes.glob("*.json")):
            assert other.process.poll() is None, other.said
        return cli("apply", SMALL, "--yes")
    finally:
        other.process.kill()
        other.process.wait()


def no_journal(cli, lab, folder):
    (folder / "runs").write_text("")
    return cli("apply", SMALL, "--yes")


def unknown(cli, lab, folder, monkeypatch):
    monkeypatch.setattr(Context.task, "__defaults__", (2,))  # seconds a task is waited for
    monkeypatch.setattr("vsphere_ai.execution.actions.executor.LOST_CALL", 1.5)
    lab.set_faults([{"on": "ReconfigVM_Task", "target": "train-04", "do": {"task-stuck": 20}}])
    return cli("apply", SMALL, "--yes")


def usage(cli, lab, folder):
    return cli("plan", MISSION, "--limit", "nothere")


def invalid(cli, lab, folder):
    return cli("plan", cli.file("- hosts: esx*\n  mgi: {mode: enabled}\n"))


def bug(cli, lab, folder, monkeypatch):
    monkeypatch.setattr("vsphere_ai.runs.journal.every", lambda: 1 / 0)
    return cli("run", "list")


CASES = {0: done, 1: refused, 2: differs, 3: edited, 4: denied, 5: unreachable, 6: unhealthy, 7: locked, 8: no_journal,
         9: unknown, 64: usage, 65: invalid, 70: bug}  # fmt: skip
SIGNALLED = {129, 130, 141, 143}  # see test_signals.py


@pytest.mark.parametrize("code", CASES)
def test_an_exit_code(code, cli, lab, tmp_path, monkeypatch, make_lab):
    state = tmp_path / "own"
    state.mkdir(mode=0o700)
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(state))
    more = {"make_lab": make_lab, "monkeypatch": monkeypatch}
    case = CASES[code]
    wanted = {name: more[name] for name in more if name in case.__code__.co_varnames[: case.__code__.co_argcount]}
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    cli.folder = Path()
    assert case(cli, lab, state, **wanted) == code, cli.out + cli.err
    if code not in (0, 2):  # the screens of these are in test_screens.py
        compare(f"exit-{code}", ended(cli, ((tmp_path, "~"), (lab.directory, "/lab"), (ROOT, "/vsphere-ai"))))
    assert "Traceback" not in cli.out + cli.err


def test_every_documented_code_has_a_case():
    text = (ROOT / "docs" / "cli.md").read_text("utf-8")
    documented = {int(c) for c in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)}
    assert documented == {*CASES, *SIGNALLED}


# -- outputs that are closed or full

COMMANDS = [["--version"], ["--help"], ["mig", "layouts", "a100-40gb"], ["plan", "-i", str(INVENTORY), str(SMALL)]]


def run(lab, arguments, **streams):
    environment = {**os.environ, "VSPHERE_AI_LAB_DIR": str(lab.directory)}
    argv = [sys.executable, "-m", "vsphere_ai", *arguments]
    start = prefork if arguments[0] == "apply" else subprocess
    return start.Popen(argv, env=environment, text=True, **streams)


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda a: a[0])
def test_a_full_output_is_an_error_and_a_closed_one_is_not(lab, arguments):
    with open("/dev/full", "w") as full:
        process = run(lab, arguments, stdout=full, stderr=subprocess.PIPE)
        said = process.communicate(timeout=LONG)[1]
    assert process.returncode == 8
    assert "No space left" in said
    assert "Traceback" not in said
    assert "Exception" not in said

    process = run(lab, arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    said = process.stderr.read()
    assert process.wait(LONG) == 141
    assert re.sub(r"still working.*\n", "", said) == "", "a reader that has left needs no words"

    with open("/dev/full", "w") as full:
        process = run(lab, arguments, stdout=subprocess.PIPE, stderr=full)
        assert process.communicate(timeout=LONG)[0]
    assert process.returncode == 0

    process = run(
        lab, arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=lambda: (os.close(1), os.close(2))
    )
    assert process.communicate(timeout=LONG) == ("", "")
    assert process.returncode == 0


def test_a_full_disk_under_the_output_of_a_run_stops_it_in_order(lab, farm):
    with open("/dev/full", "w") as full:
        process = run(lab, ["apply", "-i", str(INVENTORY), str(MISSION), "--yes", "-o", "json"], stdout=full,
                      stderr=subprocess.PIPE)  # fmt: skip
        said = process.communicate(timeout=LONG)[1]
    assert process.returncode == 8, said
    assert "Traceback" not in said
    assert lab.check()["ok"], lab.check()


def test_nobody_hears_an_error_and_it_still_has_its_code(lab):
    with open("/dev/full", "w") as full:
        for arguments, code in ((["nonsense"], 64), (["run", "show", "20260101-000000-dead"], 64)):
            process = run(lab, arguments, stdout=full, stderr=full)
            assert process.wait(LONG) == code
