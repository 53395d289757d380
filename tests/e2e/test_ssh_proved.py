"""What a plan needs SSH for is proved while planning, whatever its kinds are; judged by the lab's ledger and farm."""

from __future__ import annotations

import json
import re
import time

import pytest
import yaml
from support.gates import busy

pytestmark = pytest.mark.lab
ESX1 = "esx01.lab.local"
GRAPHICS = (
    "- hosts: esx01.lab.local\n  graphics: {{default_type: shared_direct}}\n  rolling: {{evacuate: power_off{}}}\n"
)


@pytest.fixture
def inventory(lab, cli):
    """Write an inventory that is the lab's own but for what is changed in its `ssh:` section; None: without it."""
    own = yaml.safe_load((lab.directory / "connection.yml").read_text(encoding="utf-8"))

    def write(**ssh):
        made = json.loads(json.dumps(own))
        for entry in (made["ssh"], *made["vcenters"].values()):
            for key in ("known_hosts", "key_file"):
                if key in entry:
                    entry[key] = str(lab.directory / entry[key])
            entry["password"] = entry["password"].replace("file:", f"file:{lab.directory}/")
            if "tls" in entry:
                entry["tls"]["ca_file"] = str(lab.directory / entry["tls"]["ca_file"])
        made["ssh"] |= ssh
        if ssh.get("without"):
            del made["ssh"]
        return cli.file(yaml.safe_dump(made), "inventory.yml")

    return write


@pytest.fixture
def play(cli):
    return lambda words="": cli.file(GRAPHICS.format(words))


def stop_ssh(soap):
    soap.host("esx01").configManager.serviceSystem.StopService("TSM-SSH")


def of_ssh(entries):
    return [e["call"] for e in entries if e["call"] in ("StartService", "StopService") and e["object"] == ESX1]


def attempts(farm):
    return farm()["hosts"][ESX1]["ssh"]["login_attempts"]


def wrong_password(cli):
    path = cli.file("not-the-password-9", "password")
    path.chmod(0o600)
    return {"password": f"file:{path}"}


def unknown_key(cli):
    (cli.folder / "known").write_text("", encoding="utf-8")
    return {"known_hosts": str(cli.folder / "known")}


FAULTS = {
    "ssh.section": (lambda cli: {"without": True}, 1),
    "ssh.denied": (wrong_password, 4),
    "ssh.host-key": (unknown_key, 4),
}


@pytest.mark.parametrize("rule", sorted(FAULTS))
@pytest.mark.parametrize("words", ["", ", reboot: api"], ids=["ssh", "api"])
def test_a_graphics_play_that_cannot_log_in_is_refused_before_anything_happens(
    cli, ledger, farm, inventory, play, rule, words
):
    """With `reboot: api` too: whether the GPUs answer after the boot is asked over SSH."""
    changed, code = FAULTS[rule]
    where, before, tried = inventory(**changed(cli)), ledger(), attempts(farm)
    assert cli("plan", play(words), "-i", where) == code, cli.out + cli.err
    assert f"[{rule}]" in cli.out
    assert cli("apply", play(words), "-i", where, "--yes") == code, cli.out + cli.err
    assert f"[{rule}]" in cli.out
    assert ledger() == before
    assert attempts(farm) - tried == (2 if rule == "ssh.denied" else 0), "one attempt a command"


def test_a_host_that_shows_another_key_is_refused(lab, cli, ledger, farm, inventory, play):
    mine, other, *_ = (lab.directory / "known_hosts").read_text(encoding="utf-8").splitlines()
    known = cli.file(" ".join((mine.split()[0], *other.split()[1:])) + "\n", "known")
    where, before, tried = inventory(known_hosts=str(known)), ledger(), attempts(farm)
    assert cli("plan", play(), "-i", where) == 4, cli.out + cli.err
    assert "[ssh.denied]" in cli.out
    assert f"vsphere-ai trust host {ESX1}" in " ".join(cli.out.split()), "what is shown is another key"
    assert (ledger(), attempts(farm)) == (before, tried), "no password was shown to it"


@pytest.mark.parametrize("answer", ["{exit: 9}", "malformed"])
@pytest.mark.parametrize("words", ["", ", reboot: api"], ids=["ssh", "api"])
def test_gpus_that_do_not_answer_before_the_reboot_are_not_waited_for_after_it(lab, cli, ledger, play, words, answer):
    lab.set_faults(f"- {{on: 'ssh: nvidia-smi', do: {answer}}}\n")
    before = ledger()
    assert cli("plan", play(words)) == 1, cli.out
    assert "[gpu.no-answer]" in cli.out
    assert cli("apply", play(words), "--yes") == 1
    assert ledger() == before


@pytest.mark.parametrize("mode", ["lockdownNormal", "lockdownStrict"])
def test_lockdown_mode_bars_all_but_its_exception_users(lab, cli, ledger, farm, soap, play, mode):
    soap.host("esx01").configManager.hostAccessManager.ChangeLockdownMode(mode)
    before, tried = ledger(), attempts(farm)
    assert cli("plan", play()) == 1
    (problem,) = cli.plan(play())["problems"]
    assert (problem["target"]["name"], problem["rule"]) == (ESX1, "ssh.lockdown")
    assert {mode, "root"} <= set(re.findall(r"\w+", problem["message"]))
    assert cli("apply", play(), "--yes") == 1
    assert (ledger(), attempts(farm)) == (before, tried), "no login was spent on it"


LOCKED = """
name: locked
hosts:
  - name: "esx[01:02].lab.local"
    gpus: [{pci: "0000:3b:00.0", board: a100-40gb}]
    nvidia_driver: "535.183.01"
    ssh: {running: %s}
    lockdown: %s
    lockdown_exceptions: [backup, Root]
    boot_seconds: 0.3
"""


@pytest.mark.parametrize("running", ["true", "false"], ids=["ssh", "no-ssh"])
@pytest.mark.parametrize("mode", ["normal", "strict"])
def test_an_exception_user_gets_in_despite_lockdown_mode(make_lab, cli, monkeypatch, mode, running):
    text = (LOCKED % (running, mode)).replace("Root", "root")
    lab = make_lab(text)
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    play = cli.file("- hosts: esx01.lab.local\n  graphics: {default_type: shared_direct}\n  mig: {mode: enabled}\n")
    assert cli("plan", play, *(["--start-ssh"] if running == "false" else [])) == 0, cli.out + cli.err
    assert cli("apply", play, "--yes") == 0, cli.out + cli.err
    host = lab.get("/lab/farm")["hosts"][0]
    assert host["ssh"]["running"] is (running == "true")
    assert all(gpu["mig"]["current"] for gpu in host["gpus"])
    assert lab.check()["ok"]


def test_stopped_ssh_is_left_to_apply_which_proves_the_login_first(cli, ledger, farm, soap, inventory, play):
    stop_ssh(soap)
    wrong, before = inventory(**wrong_password(cli)), len(ledger())
    assert cli("plan", play(), "-i", wrong) == 0, cli.out
    (login,) = cli.plan(play(), "-i", wrong)["logins"]
    assert login["host"]["name"] == ESX1
    assert login["why"], "why it was not tried"
    assert cli("plan", play(), "-i", wrong) == 0
    assert "1 SSH login not proved" in cli.out.splitlines()[-1]
    assert len(ledger()) == before
    assert cli("apply", play(), "-i", wrong, "--yes") == 4, cli.out + cli.err
    assert "[ssh.denied]" in cli.out
    assert of_ssh(ledger()[before:]) == ["StartService", "StopService"], "and nothing else"
    assert len(ledger()) == before + 2
    assert not farm()["hosts"][ESX1]["ssh"]["running"]
    assert cli("apply", play(), "--yes") == 0, cli.out + cli.err


def test_a_credential_that_one_host_refused_starts_no_service_on_another(cli, ledger, soap, inventory):
    stop_ssh(soap)
    wrong, before = inventory(**wrong_password(cli)), len(ledger())
    graphics = "graphics: {default_type: shared_direct}"
    both = cli.file(f"- hosts: esx0[1:2].lab.local\n  {graphics}\n  rolling: {{evacuate: power_off}}\n", "both.yml")
    assert cli("apply", both, "-i", wrong, "--yes") == 4, cli.out + cli.err
    assert "[ssh.denied]" in cli.out
    assert len(ledger()) == before


def test_a_saved_plan_is_proved_as_well(cli, ledger, inventory, play):
    where = inventory()
    saved = cli.folder / "plan.json"
    assert cli("plan", play(), "-i", where, "--to", saved) == 0, cli.out + cli.err
    before = ledger()
    inventory(**wrong_password(cli))
    assert cli("apply", saved, "-i", where) == 4, cli.out + cli.err
    assert "[ssh.denied]" in cli.out
    assert ledger() == before


def test_logins_are_left_out_by_an_option_only_and_said_to_be(cli, ledger, farm, inventory, play):
    tried = attempts(farm)
    wrong = inventory(**wrong_password(cli))
    assert cli("plan", play(), "-i", wrong, "--no-ssh-login") == 0, cli.out + cli.err
    (login,) = cli.plan(play(), "-i", wrong, "--no-ssh-login")["logins"]
    assert login["host"]["name"] == ESX1
    assert "--no-ssh-login" in login["why"]
    assert attempts(farm) == tried
    assert cli("apply", play(), "-i", wrong, "--no-ssh-login", "--yes") == 4, cli.out + cli.err
    now = farm()
    assert not now["hosts"][ESX1]["maintenance"], "it failed before its reboot: the window is left again"
    assert now["vms"]["train-01"]["power"] == now["vms"]["train-02"]["power"] == "poweredOn"


def test_a_login_is_tried_once_per_host(cli, farm, play):
    tried = attempts(farm)
    plan = cli.plan(play())
    assert plan["problems"] == []
    assert attempts(farm) == tried + 1
    assert all(not login["why"] for login in plan["logins"])


def test_a_play_without_ssh_needs_no_section(cli, inventory):
    plain = "- hosts: esx01.lab.local\n  pvrdma_host: {firewall: true}\n"
    assert cli("apply", cli.file(plain), "-i", inventory(without=True), "--yes") == 0, cli.out + cli.err


# -- start_service: never


def test_never_means_never(cli, ledger, soap, inventory, play):
    where = inventory(start_service="never")
    begun = len(ledger())
    assert cli("plan", play(), "-i", where) == 1
    assert "[ssh.service]" in cli.out
    stop_ssh(soap)
    assert cli("apply", play(), "-i", where, "--yes") == 1
    assert {name for name, _ in cli.problems(play(), "-i", where)} == {ESX1}
    assert "start_service: never" in cli.out
    assert of_ssh(ledger()[begun:]) == ["StopService"], "the test's own"
    assert not [e for e in ledger()[begun:] if "Shutdown" in e["call"] or "Maintenance" in e["call"]]


def test_a_service_that_starts_with_its_host_is_enough_for_never(cli, ledger, soap, farm, inventory, play):
    soap.host("esx01").configManager.serviceSystem.UpdateServicePolicy("TSM-SSH", "on")
    where, begun = inventory(start_service="never"), len(ledger())
    assert cli("apply", play(), "-i", where, "--yes") == 0, cli.out + cli.err
    assert [e for e in ledger()[begun:] if "Reboot" in e["call"] or "reboot" in e["call"]]
    assert of_ssh(ledger()[begun:]) == []
    assert farm()["hosts"][ESX1]["ssh"]["running"]


def test_a_host_that_cannot_be_read_back_any_more_is_left_again_at_once(cli, lab, farm, ledger, monkeypatch):
    """Its key changes during the window: no reboot was sent, and nothing there needs maintenance mode."""
    monkeypatch.setattr(
        "vsphere_ai.connect.secure_shell.ssh_pool.MOST_OPEN", 0
    )  # on an open connection it would not show
    pause = cli.file(
        "- hosts: esx01.lab.local\n  nics: {vmnic4: {pause: {rx: false, tx: false}}}\n"
        "  rolling: {evacuate: power_off}\n"
    )
    lab.set_faults([{"on": "ssh: pauseParams set", "nth": 1, "when": "after", "do": "key-swap"}])
    began = time.monotonic()
    assert cli.run("apply", pause, "--yes") == 4, cli.out + cli.err
    assert time.monotonic() - began < 75 * busy(), "it is not tried on for as long as a host may take to be as planned"
    assert cli.failed == {(ESX1, "denied")}
    assert [e["call"] for e in ledger(ESX1) if "Maintenance" in e["call"]] == [
        "EnterMaintenanceMode_Task",
        "ExitMaintenanceMode_Task",
    ]
    assert not farm()["hosts"][ESX1]["maintenance"]
    assert farm()["vms"]["train-01"]["power"] == "poweredOn"
