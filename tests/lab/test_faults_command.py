"""`lab faults`, `lab mark` and `lab judge` as an operator types them."""

import http.client
import json

import pytest
from pyVmomi import vim
from support.printed import judge

from vsphere_ai.cli.main import main
from vsphere_ai.errors import InputError, UsageError
from vsphere_ai.lab.front import process

RULES = "- {on: PowerOnVM_Task, nth: 1, do: lost-reply}\n- {on: any, probability: 0.5, do: {delay: 1ms}}\n"


@pytest.fixture
def cli(capsys):
    def run(*words):
        code = main(["lab", *map(str, words)])
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "faults.yml"
    path.write_text(RULES, encoding="utf-8")
    return path


def test_set_list_add_clear(cli, lab, soap, file):
    assert cli("faults", "list")[1] == "There are no faults.\n"
    assert cli("faults", "set", file, "--seed", 4) == (0, "2 rules for faults, seed 4.\n", "")
    assert cli("faults", "add", "{on: 'ssh: reboot', do: drop}") == (0, "3 rules for faults, seed 4.\n", "")
    with pytest.raises(http.client.HTTPException):
        soap.vm("train-04").PowerOnVM_Task()
    code, out, _ = cli("faults", "list")
    assert code == 0
    assert "1   {on: PowerOnVM_Task, nth: 1, do: lost-reply}" in out
    assert "lost-reply  after   PowerOnVM_Task" in out
    shown = json.loads(cli("faults", "list", "-o", "json")[1])
    assert (shown["schema_version"], shown["seed"], len(shown["rules"])) == (1, 4, 3)
    assert cli("faults", "clear")[0] == 0
    assert lab.get("/lab/faults")["rules"] == []


def test_release(cli, lab, soap, file):
    cli("faults", "add", "{on: PowerOnVM_Task, do: {task-stuck: queued}}")
    cli("faults", "add", "{on: PowerOffVM_Task, do: {task-stuck: queued}}")
    on, off = soap.vm("train-04").PowerOnVM_Task(), soap.vm("train-03").PowerOffVM_Task()
    assert cli("faults", "release", 1) == (
        0,
        "Rule 1 is released: {on: PowerOnVM_Task, do: {task-stuck: queued}}\n",
        "",
    )
    soap.wait(on)
    assert off.info.state == "queued"
    code, out, err = cli("faults", "release", 3)
    assert (code, out) == (64, "")
    assert "there is no rule 3" in err
    with pytest.raises(UsageError):
        lab.release_fault(0)


def test_a_seed_is_drawn_and_told(cli, lab, file):
    first, second = cli("faults", "set", file)[1], cli("faults", "set", file)[1]
    assert first != second
    assert str(lab.get("/lab/faults")["seed"]) in second


def test_a_bad_rule_is_shown_with_its_place(cli, lab, tmp_path):
    bad = tmp_path / "bad.yml"
    bad.write_text("- {on: PowerOnVM, do: drop}\n- {on: any, do: {delay: long}}\n", encoding="utf-8")
    code, out, err = cli("faults", "set", bad)
    assert (code, out) == (65, "")
    assert f"{bad}:1:8" in err
    assert f"{bad}:2:25" in err
    assert "did you mean 'PowerOnVM_Task'?" in err
    code, _, err = cli("faults", "add", "{on: any, do: [}")
    assert code == 65
    assert "rule:1" in err
    bad.write_bytes(b"\xff")
    assert cli("faults", "set", bad)[0] == 64
    assert lab.get("/lab/faults")["rules"] == []


def test_up_takes_faults_and_a_reset_brings_them_back(cli, file, tmp_path, monkeypatch):
    directory = tmp_path / "lab"
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(directory))
    try:
        bad = tmp_path / "bad.yml"
        bad.write_text("- {on: any}\n", encoding="utf-8")
        assert cli("up", "--faults", bad)[0] == 65
        assert process.find(directory) is None
        code, out, _ = cli("up", "--faults", file, "--seed", 9)
        assert code == 0
        assert "2 rules for faults, seed 9." in out
        assert cli("up", "--faults", file)[0] == 64  # it runs already
        cli("faults", "clear")
        cli("reset")
        found = process.find(directory).get("/lab/faults")
        assert (found["seed"], len(found["rules"])) == (9, 2)
    finally:
        process.stop(directory)


def test_mark_and_check(cli, lab, soap):
    soap.wait(soap.vm("train-03").PowerOffVM_Task())
    code, out, _ = cli("judge")
    assert code == 1
    assert "power          VIOLATED" in out
    assert "! train-03" in out
    assert cli("mark") == (0, "Judging starts after change 1.\n", "")
    code, out, _ = cli("judge")
    assert code == 0
    assert "VIOLATED" not in out
    assert cli("judge", "--since", "0")[0] == 1
    assert cli("judge", "--since", "0", "--skip", "power", "--skip", "sessions")[0] == 0
    shown = json.loads(cli("judge", "--since", "0", "-o", "json", "--max-down", "2")[1])
    assert (shown["schema_version"], shown["ok"], shown["since"]) == (1, False, 0)
    code, _, err = cli("judge", "--skip", "nonsense")
    assert code == 64
    assert "duplicates" in err
    code, _, err = cli("judge", "--since", "77")
    assert (code, "no entry 77" in err) == (64, True)


def test_without_a_lab(cli, tmp_path, monkeypatch):
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(tmp_path / "none"))
    for words in (["faults", "list"], ["faults", "clear"], ["mark"], ["judge"], ["faults", "add", "{}"]):
        assert cli(*words)[0] == 64


def test_what_tests_may_ask(lab, soap):
    with pytest.raises(InputError) as caught:
        lab.set_faults([{"on": "any", "do": "nonsense"}])
    assert caught.value.diagnostics[0].mark.file == "rules"
    for body in ({"rules": 7}, {"rules": [], "seed": "x"}):
        with pytest.raises(UsageError):
            lab.post("/lab/faults", body)
    vm = soap.vm("train-04")
    lab.set_faults([{"on": "PowerOnVM_Task", "do": {"fault": "InvalidState"}}])
    lab.add_faults("{on: any, do: drop}")
    with pytest.raises(vim.fault.InvalidState):
        vm.PowerOnVM_Task()
    with pytest.raises(http.client.RemoteDisconnected):
        vm.PowerOffVM_Task()


def test_every_command_of_the_lab_prints_a_document(cli, make_lab, quick_scenario, file, monkeypatch):
    lab = make_lab(quick_scenario.read_text("utf-8"))
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))

    def document(*words):
        code, out, err = cli(*words, "-o", "json")
        assert code == 0, err
        judge(["lab", *map(str, words), "-o", "json"], out)
        return json.loads(out)

    assert document("faults", "set", file, "--dry-run") == {"schema_version": 1, "rules": 2, "dry_run": True}
    assert [rule["number"] for rule in document("faults", "set", file, "--seed", 4)["rules"]] == [1, 2]
    assert document("faults", "add", "{on: 'ssh: reboot', do: drop}", "--dry-run")["rules"] == 1
    assert len(document("faults", "add", "{on: 'ssh: reboot', do: drop}")["rules"]) == 3
    assert document("faults", "clear", "--dry-run")["rules"] == 3
    assert document("faults", "clear")["rules"] == []
    tried = document("plant", "{kind: ecc, host: esx02*}", "--dry-run")
    assert (tried["planted"], tried["defects"][0]["kind"]) == (False, "ecc")
    assert document("plant")["defects"] == []
    assert document("plant", "{kind: ecc, host: esx02*}")["defects"][0]["kind"] == "ecc"
    marked = document("mark")
    assert (marked["marked"], document("mark", "--dry-run")["marked"]) == (True, False)
    assert document("reset", "--dry-run")["reset"] is False
    assert document("reset")["reset"] is True
    running = document("up", "--scenario", quick_scenario)
    assert (running["result"], running["pid"]) == ("running", lab.pid)
    assert running["url"].endswith(f":{lab.port}/sdk")
    assert document("down", "--dry-run")["result"] == "would-stop"
    stopped = document("down")
    assert (stopped["result"], stopped["pid"]) == ("stopped", lab.pid)
    assert document("down")["result"] == "not-running"
    assert document("up", "--scenario", quick_scenario, "--dry-run")["result"] == "would-start"
