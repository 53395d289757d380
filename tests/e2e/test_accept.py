"""Acceptance of a set on the lab: gates, certificate, what a change takes away, what is measured again."""

from __future__ import annotations

import json

import pytest
from support.vm_sets import FARM, FULL, INVENTORY, Sets

pytestmark = pytest.mark.lab
PAIRS = 6
"""Of four VMs."""


@pytest.fixture
def accept(cli, make_lab, monkeypatch):
    lab = make_lab(FARM)
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    sets = Sets(cli, lab, cli.file(INVENTORY, "inventory.yml"))
    playbook, profile = cli.file(FULL, "train.yml"), cli.file("interval: 0\n", "profile.yml")
    assert sets("apply", playbook, "--yes") == 0, cli.err

    def run(*more):
        file = cli.folder / "certificate.json"
        code = sets("accept", playbook, "-o", file, "--profile", profile, *more)
        return code, json.loads(file.read_text("utf-8")) if file.exists() else None

    run.lab, run.sets, run.file = lab, sets, cli.folder / "certificate.json"
    return run


def on(accept, host):
    return {name for name, vm in accept.sets.vms().items() if vm["host"] == host and name.startswith("train-")}


def gate(certificate, name):
    return next(g for g in certificate["gates"] if g["name"] == name)


def measured_pairs(cli):
    return [line for line in cli.out.splitlines() if line.endswith("(pair)")]


def measured_rails(cli):
    return [line for line in cli.out.splitlines() if line.startswith("rail 1 ")]


def test_a_set_is_accepted_once_and_what_changed_is_measured_again(accept, cli, new_client):
    before = len(accept.sets.ledger())
    code, made = accept()
    assert code == 1  # the lab has no time servers
    assert " ".join(f"{name}:{status}" for name, status in made["statuses"].items()) == (
        "assess:fail health:pass rdma:pass nccl:warn"
    )
    assert (len(measured_pairs(cli)), len(measured_rails(cli))) == (PAIRS, 4)
    assert len(accept.sets.ledger()) == before
    accept()
    assert (measured_pairs(cli), measured_rails(cli)) == ([], [])
    assert accept("--check")[0] == 1
    assert "holds" in cli.out

    # facts of one host change: the tests of the VMs that run there are taken again, and no others
    host = accept.sets.vms()["train-02"]["host"]
    there = on(accept, host)
    soap = new_client(accept.lab)
    soap.host(host.partition(".")[0]).configManager.powerSystem.ConfigurePowerPolicy(key=1)
    assert accept("--check")[0] == 2
    assert "power policy: dynamic" in cli.out
    _, again = accept()
    others = 4 - len(there)
    assert len(measured_pairs(cli)) == PAIRS - others * (others - 1) // 2 < PAIRS
    assert all(any(vm in line for vm in there) for line in measured_pairs(cli))
    assert {m["name"] for m in gate(again, "nccl")["measurements"]} == {
        m["name"] for m in gate(made, "nccl")["measurements"]
    }
    assert accept("--check")[0] == 1


def test_a_slow_gpu_fails_the_gate_and_is_named(accept, cli):
    host = accept.sets.vms()["train-03"]["host"]
    accept.lab.set_defects({"kind": "gpu-slow", "host": host, "factor": 0.6})
    code, made = accept()
    assert code == 1
    slow = {m["name"] for m in gate(made, "nccl")["measurements"] if m["status"] == "fail"}
    there = on(accept, host)
    assert slow
    assert all(any(vm in name for vm in there) for name in slow)


def test_a_gate_that_cannot_be_carried_out_has_failed(accept, cli):
    accept.lab.set_defects({"kind": "gpu-missing", "vm": "train-01"})
    code, made = accept()
    assert code == 1
    assert made["statuses"]["nccl"] == "fail"
    assert gate(made, "nccl")["error"]


@pytest.mark.parametrize("text", ["{}", "no JSON", '{"digest": "x"}'])
def test_a_file_that_is_no_certificate_is_not_overwritten(accept, cli, text):
    accept.file.write_text(text, "utf-8")
    code = accept.sets("accept", cli.folder / "train.yml", "-o", accept.file)
    assert code == 64
    assert accept.file.read_text("utf-8") == text


@pytest.mark.parametrize("form", ["text", "json", "markdown", "ctrf", "junit"])
def test_every_form_is_written(accept, cli, form):
    accept("--format", form)
    assert "assess" in cli.out
