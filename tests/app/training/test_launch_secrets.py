"""Secrets of jobs: fetched at the start, in the environment of processes, and nowhere else that anybody sees."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from conftest import Client
from support.gates import LONG, until
from support.guest_farm import guest_farm

from vsphere_ai.app.training.launch.job import load_job
from vsphere_ai.app.training.launch.secrets import file_text, job_secrets
from vsphere_ai.model.nodes import Node
from vsphere_ai.security.secret_ref import NoPassword
from vsphere_ai.training.launchers import launch

TOKEN, FILED, PRINTED = "hf_Zq8vT3kLw0PxR7", "wandb-91c4E7aa0b3D", "pw-from-program-5Kd2"
VALUES = (TOKEN, FILED, PRINTED)
SCRIPT = """
import os, sys, time
print("got", *(os.environ[name] for name in ("HF_TOKEN", "WANDB", "PRINTED", "PLAIN")), flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
"""
ENV = {"HF_TOKEN": "env:JOB_TOKEN", "WANDB": "file:token", "PRINTED": f"cmd:echo {PRINTED}", "PLAIN": "file:///data"}


def written(folder, nodes, **more):
    """A job in a folder, beside the file with one of its secrets."""
    (folder / "token").write_text(f"{FILED}\n")
    (folder / "token").chmod(0o600)
    given = {"training_job": "secret", "nodes": nodes, "processes_per_node": 1, "env": ENV, "grace": "1s", **more}
    (folder / "job.yml").write_text(yaml.safe_dump(given, sort_keys=False))
    return folder / "job.yml"


class Running:
    """A job with secrets on a guest of a lab, by the command line."""

    def __init__(self, lab, folder):
        self.lab, self.folder = lab, folder
        client = Client(lab)
        address = str(client.until(lambda: client.vm("trn-01").guest.ipAddress))
        client.close()
        (lab.directory / "shared" / "show.py").write_text(SCRIPT)
        nodes = [{"name": "trn-01", "address": address, "interface": "ens192"}]
        self.job = written(folder, nodes, script="/shared/show.py", args=["/shared/end"])

    def tool(self, *argv, token=TOKEN, code=0):
        environment = {**os.environ, "VSPHERE_AI_STATE_DIR": str(self.folder / "state")}
        environment |= {"JOB_TOKEN": token} if token else {}
        argv = [
            "-m",
            "vsphere_ai",
            "launch",
            *argv,
            "-f",
            str(self.job),
            "-i",
            str(self.lab.directory / "connection.yml"),
        ]
        done = subprocess.run(
            [sys.executable, *argv], env=environment, capture_output=True, text=True, timeout=LONG, check=False
        )
        assert done.returncode == code, done
        return done.stdout + done.stderr


@pytest.fixture
def running(make_lab, tmp_path):
    return Running(make_lab(guest_farm(1) + "guests: {run_jobs: true}\n"), tmp_path)


def arguments():
    """What anybody on this machine sees of its processes."""
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            yield (entry / "cmdline").read_bytes().decode(errors="replace")


def test_processes_have_them_and_nobody_else_sees_them(running):
    shown = [running.tool("env", "--dry-run", "--no-preflight"), running.tool("env", "--no-preflight")]
    assert "HF_TOKEN=env:JOB_TOKEN" in shown[0], "a preview names the place"
    logs = until(lambda: found if "got" in (found := running.tool("logs")) else None)
    assert "got *** *** *** file:///data" in logs
    shown += [logs, running.tool("status", "--run", shown[1].partition(":")[0])]
    # the program that fetches one is the operator's own command: its line has what this test makes it print
    seen = [text for text in arguments() if any(value in text for value in (TOKEN, FILED))]
    assert not seen
    assert any("show.py" in text for text in arguments()), "it runs"
    assert not [value for value in (TOKEN, FILED) for text in shown if value in text]
    kept = [p for p in running.lab.directory.glob("guests/**/*") if p.is_file() and p.suffix != ".log"]
    kept += [p for p in (running.folder / "state").rglob("*") if p.is_file()]
    assert not [p for p in kept for value in VALUES if value.encode() in p.read_bytes()]
    (running.lab.directory / "shared" / "end").touch()
    until(lambda: "ended with 0" in running.tool("status"))


def test_one_that_is_not_there_refuses_the_start_and_is_named_in_logs(running):
    assert "JOB_TOKEN is not set" in running.tool("env", "--no-preflight", token="", code=4)
    assert not list(running.lab.directory.glob("guests/*/runs"))
    running.tool("env", "--no-preflight")
    logs = running.tool("logs", token="")
    assert "the value of HF_TOKEN is not known here, and not masked in logs" in logs
    (running.lab.directory / "shared" / "end").touch()


@pytest.mark.parametrize("mode", ["mpi", "horovod"])
def test_a_launcher_of_other_nodes_is_not_given_them(tmp_path, monkeypatch, mode):
    """It may write what it hands over into commands on other nodes; each rank reads them of a file of its node."""
    monkeypatch.setenv("JOB_TOKEN", TOKEN)
    nodes = [{"name": f"trn-0{n}", "address": f"10.0.0.{n}", "interface": "ens192"} for n in (1, 2)]
    job = load_job(written(tmp_path, nodes, script="/shared/show.py"))
    made = launch(job, mode, [Node(n["name"], n["address"]) for n in nodes], "secret-1")
    secrets = job_secrets(job, tmp_path)
    assert set(secrets) == {"HF_TOKEN", "WANDB", "PRINTED"}
    for each in made.nodes:
        files = {file.name: file_text(file, secrets) for file in each.files}
        own = json.loads(files["env.json"])
        assert [own[name] for name in ENV] == [TOKEN, FILED, PRINTED, "file:///data"]
        assert not [text for name, text in files.items() if name != "env.json" and TOKEN in text]
        for process in each.processes:
            assert not {"HF_TOKEN", "WANDB", "PRINTED"} & {*process.env, *process.argv}
            assert process.env["PLAIN"] == "file:///data"


def test_a_file_that_others_read_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("JOB_TOKEN", TOKEN)
    job = load_job(written(tmp_path, [{"name": "a", "address": "10.0.0.1"}], script="/shared/show.py"))
    (tmp_path / "token").chmod(0o644)
    with pytest.raises(NoPassword, match="can be read by others"):
        job_secrets(job, tmp_path)
