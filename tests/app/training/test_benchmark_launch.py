"""Launches of benchmarks on real OpenSSH servers: each stands for itself, and nothing of them is left."""
# ruff: noqa: F811 - the fixture is imported

from __future__ import annotations

import os
import time
from dataclasses import replace

import pytest
from support.gates import LONG
from support.guest_sshd import free_port
from support.training_guests import gone, guests, processes_of  # noqa: F401

from vsphere_ai.app.events import Remark, ignore
from vsphere_ai.app.training.benchmarks.launch import carry_out, run_name
from vsphere_ai.app.training.nodes.listed import guest_settings
from vsphere_ai.benchmarks.launched import own_nodes, remaining
from vsphere_ai.benchmarks.programs.burn import read_report
from vsphere_ai.connect.secure_shell.guest_survey import GuestConnections
from vsphere_ai.language.inventories.inventory import load_inventory
from vsphere_ai.model.nodes import Node, NodeGpu
from vsphere_ai.training.job import TrainingJob
from vsphere_ai.training.launch import RUNS, NodeFile
from vsphere_ai.training.launchers import launch
from vsphere_ai.training.on_node import burn_file

TORCH = os.environ.get("VSPHERE_AI_TORCH", "")


@pytest.fixture
def two(guests):
    for vm in ("trn-01", "trn-02"):
        guests.start(vm)
    guests.job("")
    nodes = [Node(vm, "127.0.0.1", gpus=(NodeGpu(0), NodeGpu(1))) for vm in ("trn-01", "trn-02")]
    connections = GuestConnections.to_all(nodes, guest_settings(load_inventory(guests.folder / "vsphere-ai.yaml")))

    def launches(text, *args, python="python3"):
        made = []
        for node in nodes:
            run = run_name("burn")  # these guests see each other's processes, which VMs do not
            job = TrainingJob(
                training_job="burn",
                nodes=own_nodes([node]),
                script=f"{RUNS}/{run}/program.py",
                args=args,
                python=python,
                control_port=free_port(),
                grace="1s",
                nccl="off",
            )
            one = launch(job, "env", [node], run)
            made.append(replace(one, nodes=(replace(one.nodes[0], files=(NodeFile("program.py", text),)),)))
        return made

    launches.guests = connections
    yield launches
    connections.close()


def test_one_that_fails_stops_no_other(two):
    text = "import os, sys, time\ntime.sleep(0.5)\nif 'trn-01' in os.environ['HOME']: sys.exit(3)\nprint('well')\n"
    bad, good = carry_out(two(text), two.guests, ignore, within=30)
    assert (bad.run.nodes[0].vm, "ended with 3" in bad.why, "on trn-01" in bad.why) == ("trn-01", True, True)
    assert good.why == ""
    assert {name: text for name, text in good.logs["trn-02"].items() if text} == {
        "rank-0.log": "well\n",
        "rank-1.log": "well\n",
    }
    assert remaining(bad.run) == remaining(good.run) == []


def test_what_takes_too_long_is_ended(two):
    made = two("import time\ntime.sleep(600)\n")
    found = carry_out(made, two.guests, ignore, within=1)
    assert all(each.why == "it did not end within 1 s" for each in found)
    assert all(gone(each.run) for each in made)


def test_ctrl_c_ends_every_process(two):
    made, said = two("import time\ntime.sleep(600)\n"), []

    def look(_):
        until = time.monotonic() + LONG
        while sum(len(processes_of(each.run)) for each in made) < 4:
            assert time.monotonic() < until
            time.sleep(0.05)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        carry_out(made, two.guests, said.append, within=60, look=look)
    assert [e.rule for e in said if isinstance(e, Remark)] == ["bench.stopped"]
    assert all(gone(each.run) for each in made)


@pytest.mark.skipif(not TORCH, reason="no PyTorch here: name its Python with VSPHERE_AI_TORCH")
def test_the_burn_program_computes_the_same_on_every_rank(two):
    small = ("--device", "cpu", "--size", "64", "--steps", "10", "--layers", "2", "--seconds", "1", "--every", "0.2")
    found = carry_out(two(burn_file(), *small, python=TORCH), two.guests, ignore, within=90)
    assert [each.why for each in found] == ["", ""]
    texts = [text for each in found for own in each.logs.values() for name, text in own.items() if "rank" in name]
    reports = [read_report(text.splitlines()) for text in texts]
    assert len(reports) == 4
    assert all(report.end for report in reports)
    assert len({(report.first, report.key) for report in reports}) == 1
