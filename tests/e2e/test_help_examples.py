"""Examples in the help of commands: those that need no more than a lab are carried out."""

from __future__ import annotations

import re
import shlex
import shutil

import pytest
from support.command_tree import leaves
from support.places import PLAYBOOKS, ROOT

from vsphere_ai.cli.console.help_examples import JOB, TRAINING, examples_of
from vsphere_ai.cli.main import main
from vsphere_ai.lab.scenario_file import shipped

JOB_FILE = "training_job: resnet\nnodes: {playbook: playbooks/training-set.yml, set: train}\nscript: /shared/train.py\n"
QUICK = "timing: {boot_seconds: 0.3, task_seconds: 0.01, shutdown_seconds: 0.05, guest_seconds: 0.1}"
ORDER = {("fleet", "plan"): 0, ("lab", "down"): 2}
"""What others go on from is first, and what ends the lab last."""


def examples(*needs):
    """The examples that need one of these, by their words, in the order of the commands but for `ORDER`."""
    every = (each for command in leaves().values() for each in examples_of(command))
    found = dict.fromkeys(each.line for each in every if each.needs in needs)
    return sorted((shlex.split(line) for line in found), key=lambda words: ORDER.get(tuple(words[:2]), 1))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the playbooks and inventories of the project, which is the current one."""
    folder = tmp_path / "project"
    for part in ("playbooks", "inventories"):
        shutil.copytree(ROOT / part, folder / part)
    (folder / ".git").mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    return folder


def carried_out(examples, capsys):
    """Carry examples out; return those that did not end as they should: done, or with findings."""
    wrong = []
    for words in examples:
        if "RUN" in words:
            assert main(["run", "list", "-o", "name"]) == 0
            newest = capsys.readouterr().out.split()[-1]
            words = [newest if word == "RUN" else word for word in words]
        code = main(words)
        out, err = capsys.readouterr()
        if code not in (0, 2) or "Traceback" in err:
            wrong.append(f"{shlex.join(words)} ended with {code}\n{out[-600:]}{err[-600:]}")
    return "\n\n".join(wrong)


@pytest.mark.lab
def test_examples_that_need_the_lab_only(folder, make_lab, quick_scenario, capsys, monkeypatch):
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(make_lab(quick_scenario.read_text("utf-8")).directory))
    found = examples("")
    assert len(found) > 50
    assert not carried_out(found, capsys)


@pytest.mark.lab
def test_examples_about_vms_of_a_set(folder, make_lab, capsys, monkeypatch):
    text, changed = re.subn(r"(?m)^timing: .*$", QUICK, shipped()["training"].read_text("utf-8"))
    assert changed == 1
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(make_lab(text).directory))
    shutil.copy(ROOT / "inventories" / "training.yml", folder / "vsphere-ai.yaml")
    (folder / "job.yml").write_text(JOB_FILE, encoding="utf-8")
    found = examples(TRAINING, JOB)
    assert len(found) > 20
    assert main(["apply", str(PLAYBOOKS / "training-set.yml"), "--yes"]) == 0
    capsys.readouterr()
    assert not carried_out(found, capsys)
