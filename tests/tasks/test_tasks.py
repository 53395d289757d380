"""Tasks of a new user: five commands at most, within two minutes, by what README, help and screens show."""

from __future__ import annotations

import re
import time

import pytest
from support.gates import busy
from support.processes import killed_at
from support.users import User

pytestmark = pytest.mark.lab

FARM = """\
- hosts: esx[01:02].lab.local
  graphics: {default_type: shared_direct}
  mig: {mode: enabled}
  rolling: {evacuate: power_off}

- vms: train-[01:03]
  hardware: {version: 19}
  vgpu: [grid_a100-3-20c]
"""


@pytest.fixture
def user(tmp_path, lab):
    return User(tmp_path, lab)


def hint(screen, command):
    """The command that a screen says to type, as it stands there."""
    found = re.search(rf"(vsphere-ai {command}\b[^\n`,;]*)", screen)
    assert found, f"no screen says to type {command}:\n{screen}"
    return found[1].strip().rstrip(".:")


def test_read_the_impact(user):
    """Which hosts reboot, which VMs go off, how long it takes: from one screen, the question included."""
    user.writes("farm.yml", FARM)
    screen = user.types("vsphere-ai plan farm.yml")
    assert re.search(r"2 hosts reboot, 1 at a time per cluster: esx01\.lab\.local, esx02\.lab\.local", screen)
    assert "3 VMs power-cycled: train-[01:03]" in screen
    assert re.search(r"maintenance window of \S+ \d+", screen)
    assert screen.index("DISRUPTED") > screen.index("ORDER"), "the dangers stand last, above the question"


BROKEN = """\
- hosts: esx01.lab.local
  grafics: {default_type: shared_direct}
  mig: {mode: enabeld}
  rolling: {evacuate: power_of}

- vms: train-01
  hardware: {version: 19}
  vgpu: [grid_a100-3-20cc]
"""
FAULT = re.compile(r"broken\.yml:(\d+):(\d+)")
MEANT = re.compile(r"did you mean '([^']+)'")


def test_fix_a_broken_playbook_from_the_message_alone(user):
    """The user does nothing but replace the word at the place that is named by the word that is proposed."""
    text = BROKEN
    for _ in range(4):
        user.writes("broken.yml", text)
        code, screen = user._run(["vsphere-ai", "plan", "broken.yml"])
        user.commands.append("vsphere-ai plan broken.yml")
        fixes = []
        lines = text.splitlines(keepends=True)
        for at in FAULT.finditer(screen):
            meant = MEANT.search(screen, at.end())
            following = FAULT.search(screen, at.end())
            if meant and (following is None or meant.start() < following.start()):
                fixes.append((int(at[1]) - 1, int(at[2]) - 1, meant[1]))
        if not fixes:
            break
        for line, column, word in sorted(fixes, reverse=True):
            old = re.match(r"[\w-]+", lines[line][column:])[0]
            lines[line] = lines[line][:column] + word + lines[line][column + len(old) :]
        text = "".join(lines)
    assert "graphics:" in text
    assert "mode: enabled" in text
    if code == 1:  # what only the estate can say: the profile, with those that there are
        assert "grid_a100-3-20cc" in screen
        user.writes("broken.yml", text.replace("grid_a100-3-20cc", MEANT.search(screen)[1]))
        user.types("vsphere-ai plan broken.yml")
    assert len(user.commands) <= 5


def test_find_why_a_vm_gets_no_profile(user):
    """Every refusal names the VM, the reason, and what would work; the named command says what fits."""
    user.writes("wish.yml", "- vms: train-01\n  hardware: {version: 19}\n  vgpu: [grid_a100-7-40c, grid_a100-7-40c]\n")
    screen = user.types("vsphere-ai plan wish.yml", ends=1)
    assert "PROBLEMS" in screen
    assert "train-01" in screen.partition("PROBLEMS")[2]
    rule = re.search(r"\[(vgpu\.[a-z-]+)\]", screen)[1]
    assert rule in user.types(f"vsphere-ai explain {rule}")
    shown = user.types("vsphere-ai capacity --limit esx01.lab.local") if "--limit" in user.seen else ""
    assert "esx01" in shown


def test_resume_after_a_kill(user, lab, monkeypatch):
    """The next command of any kind says that a run is not finished, and what to type."""
    user.writes("farm.yml", FARM)
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", user.environment["VSPHERE_AI_STATE_DIR"])
    killed_at(lab, r"esx01\S* .*reboot \(over SSH\) — done", user.folder / "farm.yml")
    monkeypatch.undo()
    told = user.types("vsphere-ai run list")
    command = hint(told, "resume")
    user.asks_for_help("resume")
    finished = user.types(f"{command} --yes")
    assert re.search(r"\d+ of \d+ steps done|as planned", finished)
    assert "Nothing to do" in user.types("vsphere-ai plan farm.yml")
    reboots = [e for e in lab.get("/lab/ledger")["entries"] if "reboot" in e["call"]]
    assert len(reboots) == len({e["object"] for e in reboots}), "no host was rebooted twice"


def test_a_report_for_the_change_board(user):
    user.writes("farm.yml", FARM)
    user.asks_for_help("plan")
    user.asks_for_help("report")
    user.types("vsphere-ai plan farm.yml --to change.json")
    user.types("vsphere-ai report change.json -o html --to change.html")
    page = (user.folder / "change.html").read_text()
    assert page.startswith("<!doctype html")
    assert all(name in page for name in ("esx01.lab.local", "esx02.lab.local", "train-[01:03]"))
    user.types("vsphere-ai report change.json -o markdown --to change.md")
    assert len((user.folder / "change.md").read_text()) < 65_535


def test_complete_a_name(user):
    """Names come from the last reading: no vCenter is asked while typing."""
    user.writes("farm.yml", FARM)
    user.types("vsphere-ai plan farm.yml")
    user.asks_for_help("completion")
    user.environment |= {"HOME": str(user.folder), "XDG_DATA_HOME": str(user.folder / "data")}
    screen = user.types("vsphere-ai completion install bash")
    (script,) = (user.folder / "data").rglob("vsphere-ai")  # where bash looks for it
    assert str(script) in screen.replace("\n", "")
    # the Tab key: bash calls the function that is set for the word
    press = 'COMP_WORDS=(vsphere-ai plan farm.yml --limit esx); COMP_CWORD=4; "$(complete -p vsphere-ai | '
    press += "sed -E 's/.*-F ([^ ]+).*/\\1/')\" vsphere-ai esx --limit; printf '%s\\n' \"${COMPREPLY[@]}\""
    begun = time.monotonic()
    code, offered = user._run(["bash", "-c", f". {script}\n{press}"])
    assert code == 0, offered
    assert {"esx01.lab.local", "esx02.lab.local"} <= set(offered.split())
    assert time.monotonic() - begun < 10 * busy()


def test_explain_a_rule(user):
    """From the id in a refusal to its page, without a network."""
    user.writes("old.yml", "- hosts: esx01.lab.local\n  mig: {gpus: {'0000:3b:00.0': [19, 14, 9, 5, 5, 2]}}\n")
    screen = user.types("vsphere-ai plan old.yml", ends=1)
    rule = re.search(r"\[(mig\.[a-z-]+)\]", screen)[1]
    said = user.types(f"vsphere-ai explain {rule}")
    assert rule in said
    assert "docs/" in said


def test_watch_drift(user, lab):
    """What another person changes is said, and when it is put right."""
    user.writes("farm.yml", "- vms: train-[01:03]\n  hardware: {version: 19}\n")
    user.asks_for_help("apply")
    user.types("vsphere-ai apply farm.yml --yes")
    user.types("vsphere-ai verify farm.yml")
    user.asks_for_help("verify")
    assert "--watch" in user.screen
    lab.post("/lab/reset")  # somebody else puts the VMs back to what they were
    screen = user.watches("vsphere-ai verify farm.yml --watch --interval 5", "settings in the desired state")
    assert re.search(r"\+ ~ train-\[01:03\]\s+hardware version is 1\d, wanted 19", screen)
    assert "0 of 3 settings in the desired state, 3 differ" in screen
