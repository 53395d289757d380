"""Acceptance of a set on the lab: gates, certificate, what a change takes away, what is measured again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from support.gates import LONG
from support.vm_sets import FARM, FULL, INVENTORY, Sets

from vsphere_ai import app
from vsphere_ai.app.estate.scope import EstateRequest
from vsphere_ai.connect.secure_shell import guest_survey
from vsphere_ai.errors import Unreachable

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
        code = sets("accept", playbook, "--certificate", file, "--profile", profile, *more)
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
    assert code == 2  # the lab has no time servers
    assert " ".join(f"{name}:{status}" for name, status in made["statuses"].items()) == (
        "assess:fail health:pass rdma:pass nccl:warn"
    )
    assert (len(measured_pairs(cli)), len(measured_rails(cli))) == (PAIRS, 4)
    assert len(accept.sets.ledger()) == before
    accept()
    assert (measured_pairs(cli), measured_rails(cli)) == ([], [])
    assert accept("--verify")[0] == 2
    assert "holds" in cli.out

    # facts of one host change: the tests of the VMs that run there are taken again, and no others
    host = accept.sets.vms()["train-02"]["host"]
    there = on(accept, host)
    soap = new_client(accept.lab)
    soap.host(host.partition(".")[0]).configManager.powerSystem.ConfigurePowerPolicy(key=1)
    assert accept("--verify")[0] == 2
    assert "power policy: dynamic" in cli.out
    _, again = accept()
    others = 4 - len(there)
    assert len(measured_pairs(cli)) == PAIRS - others * (others - 1) // 2 < PAIRS
    assert all(any(vm in line for vm in there) for line in measured_pairs(cli))
    assert {m["name"] for m in gate(again, "nccl")["measurements"]} == {
        m["name"] for m in gate(made, "nccl")["measurements"]
    }
    assert accept("--verify")[0] == 2

    # every VM is slow alike: no pair is slower than another, and half of the line rate is reached
    accept.lab.set_defects(*({"kind": "rail-slow", "vm": f"train-0{n}", "factor": 0.65} for n in range(1, 5)))
    for more in (["--again"], []):
        _, slow = accept("--gate", "nccl", *more)
        whole = next(m for m in gate(slow, "nccl")["measurements"] if m["name"] == "all_reduce of all VMs")
        assert whole["status"] == "warn", whole
        assert "slower than" in whole["text"]
        assert whole["value"] > whole["limit"]


def test_what_was_repaired_is_measured_again_and_passes(accept, cli):
    """Faults of each kind fail their gates; after the repair only what failed is measured again."""
    host = accept.sets.vms()["train-03"]["host"]
    there = on(accept, host)
    accept.lab.set_defects(
        {"kind": "ecc", "vm": "train-02", "count": 3},
        {"kind": "rail-slow", "vm": "train-01", "factor": 0.4},
        {"kind": "gpu-slow", "host": host, "factor": 0.4},
    )
    _, made = accept()
    assert {g["name"] for g in made["gates"] if gate_status(g) == "fail"} >= {"rdma", "nccl"}
    assert "rail 1 of train-01" in {m["name"] for m in gate(made, "rdma")["measurements"] if m["status"] == "fail"}
    whole = next(m for m in gate(made, "nccl")["measurements"] if m["name"] == "all_reduce of all VMs")
    assert (whole["status"], whole["limit"]) == ("fail", 6.25)
    assert accept()[1]["statuses"]["rdma"] == "fail"
    accept.lab.set_defects()
    _, made = accept()
    assert {name: made["statuses"][name] for name in ("health", "rdma", "nccl")} == {
        "health": "pass", "rdma": "pass", "nccl": "warn",
    }  # fmt: skip
    assert len(measured_rails(cli)) == 2  # with both neighbours
    assert cli("bench", "history") == 0
    assert "all_reduce" in cli.out
    assert "slowest VM" in cli.out  # of each rail, in Gb/s
    # another driver in a guest takes away what was measured on that VM
    accept.lab.set_defects({"kind": "driver", "vm": "train-04", "version": "525.85.12"})
    assert accept("--verify")[0] == 2
    assert "guest driver: 470.256.02 → 525.85.12" in cli.out
    assert there


def gate_status(found):
    return "fail" if any(m["status"] == "fail" for m in found["measurements"]) else "pass"


def test_an_acceptance_that_was_killed_in_a_gate_goes_on_with_that_gate(accept, cli):
    accept.lab.set_defects({"kind": "hang", "vm": "train-01", "command": "mpirun"})
    asked = ["accept", cli.folder / "train.yml", "--certificate", accept.file, "--profile", cli.folder / "profile.yml"]
    argv = [sys.executable, "-m", "vsphere_ai", *map(str, asked), "-i", str(accept.sets.inventory)]
    running = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=dict(os.environ))
    try:
        deadline = time.monotonic() + LONG
        while time.monotonic() < deadline and running.poll() is None:
            if accept.file.exists() and "rdma" in json.loads(accept.file.read_text("utf-8"))["statuses"]:
                break
            time.sleep(0.05)
    finally:
        running.send_signal(signal.SIGKILL)
        running.communicate(timeout=LONG)
    assert running.returncode == -signal.SIGKILL
    cut = json.loads(accept.file.read_text("utf-8"))
    assert list(cut["statuses"]) == ["assess", "health", "rdma"]
    accept.lab.set_defects()
    _, made = accept()
    assert (measured_rails(cli), len(measured_pairs(cli))) == ([], PAIRS)
    for name in ("health", "rdma"):
        assert gate(made, name) == gate(cut, name)
    assert made["statuses"]["nccl"] == "warn"


def test_a_slow_gpu_fails_the_gate_and_is_named(accept, cli):
    host = accept.sets.vms()["train-03"]["host"]
    accept.lab.set_defects({"kind": "gpu-slow", "host": host, "factor": 0.6})
    code, made = accept()
    assert code == 2
    slow = {m["name"] for m in gate(made, "nccl")["measurements"] if m["status"] == "fail"}
    there = on(accept, host)
    assert slow
    assert all(any(vm in name for vm in there) for name in slow)
    accept.lab.set_defects()
    whole = {m["name"]: m["value"] for m in gate(accept()[1], "nccl")["measurements"]}["all_reduce of all VMs"]
    assert whole > 11, "the run of all VMs was measured with the slow part: it is measured again, too"


def test_a_gate_that_cannot_be_carried_out_has_failed(accept, cli):
    accept.lab.set_defects({"kind": "gpu-missing", "vm": "train-01"})
    code, made = accept()
    assert code == 2
    assert made["statuses"]["nccl"] == "fail"
    assert gate(made, "nccl")["error"]


def test_a_file_that_is_no_certificate_is_not_overwritten_and_every_form_is_written(accept, cli):
    for text in ("{}", "no JSON", '{"digest": "x"}'):
        accept.file.write_text(text, "utf-8")
        code = accept.sets("accept", cli.folder / "train.yml", "--certificate", accept.file)
        assert code == 64
        assert accept.file.read_text("utf-8") == text
    accept.file.unlink()
    for form in ("text", "json", "markdown", "ctrf", "junit"):
        _, made = accept("-o", form, "--gate", "assess")
        assert "assess" in cli.out
        assert list(made["statuses"]) == ["assess"]


def test_guests_that_cannot_be_asked_are_named(accept, cli, monkeypatch):
    _, sound = accept("--gate", "assess")
    assert sound["not_asked"] == {}

    def silent(nodes, *_):
        return {node.vm: Unreachable(f"{node.vm}: no answer", "") for node in nodes if node.vm == "train-02"}

    monkeypatch.setattr(guest_survey, "survey", silent)
    code, _ = accept("--verify", "-o", "json")
    document = json.loads(cli.out)
    assert (code, document["verdict"]) == (2, "fail")  # the lab has no time servers
    unknown = [f["target"]["name"] for f in document["findings"] if f["rule"] == "accept.not-asked"]
    assert unknown == ["train-02"]
    assert not {(c["part"], c["name"]) for c in document["changes"]} & {("vm:train-02", "guest driver")}
    accept("--verify")
    assert "train-02: no answer" in cli.out
    assert "certificate holds:" not in cli.out
    _, made = accept("--gate", "assess")
    assert made["not_asked"] == {"train-02": "train-02: no answer"}
    assert "train-02: no answer" in cli.out
    assert cli("report", accept.file, "-o", "html") == 0
    assert "train-02: no answer" in cli.out


def test_a_certificate_with_gates_left_out_says_so_and_is_not_known(accept, cli):
    code, made = accept("--gate", "health", "--gate", "rdma")
    assert (code, made["status"], made["left_out"]) == (1, "unknown", ["assess", "nccl"])
    assert (made["statuses"]["health"], made["statuses"]["rdma"]) == ("pass", "pass")
    assert ": UNKNOWN" in cli.out
    assert [line.split() for line in cli.out.splitlines() if line.endswith("not carried out")] == [
        ["unknown", "assess", "not", "carried", "out"],
        ["unknown", "nccl", "not", "carried", "out"],
    ]
    assert accept("--gate", "health", "--gate", "rdma", "--verify")[0] == 1
    assert "Not carried out: assess, nccl" in cli.out
    assert accept("--gate", "health", "--fail-on", "never")[0] == 0
    assert cli("report", accept.file, "-o", "markdown") == 0
    assert "not carried out: assess, rdma, nccl" in cli.out


def test_a_gate_that_nothing_is_compared_with_is_no_plain_pass(accept, cli):
    book = cli.folder / "train.yml"
    bare = ["accept", book, "--certificate", accept.file, "--gate", "health"]
    assert accept.sets(*bare) == 1
    made = json.loads(accept.file.read_text("utf-8"))
    assert made["statuses"]["health"] == "warn"
    assert "--learn FILE, then --profile FILE" in cli.out
    _, compared = accept("--gate", "health")
    assert compared["statuses"]["health"] == "pass", "with a profile it is judged anew, by that"
    _, nccl = accept("--gate", "nccl")
    names = {m["name"]: m["status"] for m in gate(nccl, "nccl")["measurements"]}
    assert names["no baseline"] == "warn"


def test_what_health_measures_counts_for_the_assessment_of_the_same_acceptance(accept, cli):
    """A first acceptance knows no earlier check of health: the gate of this one is what counts."""
    _, alone = accept("--gate", "assess")
    rules = {m["name"]: m["status"] for m in gate(alone, "assess")["measurements"]}
    assert rules["performance.gpu-errors"] == "unknown"
    _, both = accept("--gate", "assess", "--gate", "health")
    rules = {m["name"] for m in gate(both, "assess")["measurements"]}
    assert "performance.gpu-errors" not in rules
    assert "operations.benchmark-recent" in rules, "nccl was left out"


def test_rules_that_need_an_answer_are_told_before_it_starts(accept, cli):
    told = []
    estate = EstateRequest(inventory=accept.sets.inventory)
    book = cli.folder / "train.yml"
    app.accept(app.AcceptRequest(book, accept.file, gates=("assess",), estate=estate), told.append)
    texts = [getattr(event, "text", "") for event in told]
    assert texts.index("acceptance: assess") > next(
        number
        for number, text in enumerate(texts)
        if text.startswith("17 manual checks without an answer: reliability.")
    )
    accept("--gate", "health")
    assert "without an answer" not in cli.err
    accept("--gate", "assess")
    assert "17 manual checks without an answer" in cli.err


def test_on_a_terminal_the_answers_are_asked_for_and_kept(accept, cli, monkeypatch):
    answers = cli.folder / "answers.yml"
    typed = iter(["y", "ops@example.com", str(answers), "y", "n", "na", *(["skip"] * 14)])
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda *_: next(typed))
    _, made = accept("--gate", "assess")
    assert next(typed, "") == ""
    rules = {m["name"]: m["status"] for m in gate(made, "assess")["measurements"]}
    assert (rules["reliability.backups"], rules["reliability.configuration-kept"]) == ("pass", "fail")
    assert "reliability.recovery-path" not in rules, "not applicable"
    assert answers.read_text("utf-8").count("- rule:") == 3
    monkeypatch.setattr("sys.stdin.isatty", lambda: False)
    accept("--gate", "assess", "--attest", answers)
    assert "14 manual checks without an answer" in cli.err
