"""`vsphere-ai launch` with real guests: start, status, logs and stop as an operator uses them."""
# ruff: noqa: F811 - the fixture is imported

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from support.training_guests import ALL_REDUCE, gone, guests  # noqa: F401

from vsphere_ai.app.training.node_program import MODULES, program, sources
from vsphere_ai.cli.train.launch import command


@pytest.fixture
def launch(guests, monkeypatch):
    for vm in ("trn-01", "trn-02"):
        guests.start(vm)
    monkeypatch.chdir(guests.folder)

    def run(*words, code=0):
        more = ["--no-preflight"] if words[0] == "env" else []  # the guests are no VMs with GPUs
        done = CliRunner().invoke(command, [*words, "-f", "job.yml", *more], standalone_mode=False)
        found = done.return_value if done.exception is None else getattr(done.exception, "exit_code", done.exception)
        assert (found or 0) == code, (done.output, done.exception)
        return done.stdout

    return run


def test_a_job_from_start_to_end(launch, guests):
    guests.job(ALL_REDUCE)
    text = launch("env", "--wait")
    run = text.partition(":")[0]
    assert text.startswith(f"{run}: done")
    assert text.count("ended with 0") == 4
    found = json.loads(launch("status", "-o", "json"))
    assert (found["run"], found["outcome"], found["over"]) == (run, "done", True)
    assert [n["processes"] for n in found["nodes"]] == [{"rank-0": 0, "rank-1": 0}, {"rank-2": 0, "rank-3": 0}]
    logs = launch("logs")
    assert all(f"rank {n} sum 10" in logs for n in range(4))


def test_a_failure_and_text_of_a_guest_that_commands_a_terminal(launch, guests):
    guests.job("import os, sys, time\nprint('\\x1b[2J' + 'x' * 3_000_000, flush=True)\nsys.exit(7)\n")
    assert ": failed: rank-" in launch("env", "--wait", code=1)
    logs = launch("logs")
    assert "\x1b" not in logs
    assert len(logs) < 3_000_000
    document = json.loads(launch("status", "-o", "json", code=1))
    assert document["reason"].endswith("ended with 7")


def test_stop_ends_a_run_that_goes_on(launch, guests):
    guests.job("import time\ntime.sleep(600)\n")
    run = json.loads(launch("env", "-o", "json"))["run"]
    assert not json.loads(launch("status", "-o", "json"))["over"]
    assert f"{run}: stopped" in launch("stop")
    assert gone(run, 0)
    assert json.loads(launch("stop", "--run", run, "-o", "json"))["over"]


def test_what_is_sent_to_nodes_is_python_of_old_guests():
    import ast

    assert len(sources()) == len(MODULES)
    for text in sources().values():
        ast.parse(text, feature_version=(3, 8))
    assert b"$(id)" in program("asking", "status", {"run": "$(id)"})
