"""What a reboot does to MIG that no play speaks of: said before it happens, and looked at before the host serves."""

from __future__ import annotations

import paramiko
import pytest

pytestmark = pytest.mark.lab
ESX1, ESX2 = "esx01.lab.local", "esx02.lab.local"
GPU = "0000:3b:00.0"
BOTH = "esx[01:02].lab.local"
ROLLING = "  rolling: {evacuate: power_off, timeout: 20s, settle: 2s}\n"
CUT = f"- hosts: {ESX1}\n  mig: {{gpus: {{'{GPU}': ['3g.20gb:4', '1g.5gb:0']}}}}\n{ROLLING}"
ENABLED = f"- hosts: '{BOTH}'\n  mig: {{mode: enabled}}\n{ROLLING}"
DIRECT = f"- hosts: '{BOTH}'\n  graphics: {{default_type: shared_direct}}\n{ROLLING}"
LOST = f"GPU instances 1g.5gb:0, 3g.20gb:4 of GPU {GPU}"


@pytest.fixture
def cut(lab, cli):
    """One GPU has MIG mode on and two instances that somebody made by hand."""
    assert cli("apply", cli.file(CUT, "cut.yml"), "--yes") == 0, cli.out + cli.err
    lab.mark()
    return lab


@pytest.fixture
def enabled(lab, cli):
    assert cli("apply", cli.file(ENABLED, "enabled.yml"), "--yes") == 0, cli.out + cli.err
    lab.mark()
    return lab


def shell(lab, host, line):
    """Run a command on a host as somebody else would."""
    addresses = {h["name"]: h["ssh"]["address"] for h in lab.get("/lab/farm")["hosts"]}
    client = paramiko.SSHClient()
    client.load_host_keys(str(lab.directory / "known_hosts"))
    password = (lab.directory / "ssh_password").read_text(encoding="utf-8").strip()
    port = int(addresses[host].rpartition(":")[2])
    client.connect("127.0.0.1", port, "root", password, look_for_keys=False, allow_agent=False)
    try:
        _, out, _ = client.exec_command(line)
        text = out.read().decode()
        assert out.channel.recv_exit_status() == 0, text
    finally:
        client.close()


def instances(farm, host=ESX1):
    gpus = {g["pci"]: g for g in farm()["hosts"][host]["gpus"]}
    return {(i["profile"], i["start"]) for i in gpus[GPU]["instances"]}


@pytest.mark.parametrize("also", ["", "  mig: {mode: enabled}\n"])
def test_instances_that_are_not_recreated_are_part_of_the_impact(cut, cli, farm, also):
    play = cli.file(DIRECT + also)
    lost = cli.plan(play)["impact"]["lost"]
    assert [(each["host"]["name"], each["what"]) for each in lost] == [(ESX1, [LOST])]
    assert instances(farm)
    assert cli("apply", play, "--yes") == 0, cli.out + cli.err
    assert f"{ESX1}: {LOST}" in cli.out, "shown before it is done"
    assert instances(farm) == set(), "it was no empty threat"


def test_instances_that_the_play_makes_again_are_no_loss(cut, cli, farm):
    play = cli.file(CUT + "  graphics: {default_type: shared_direct}\n")
    assert cli.plan(play)["impact"]["lost"] == []
    assert cli("apply", play, "--yes") == 0, cli.out + cli.err
    assert instances(farm) == {("3g.20gb", 4), ("1g.5gb", 0)}


def test_a_saved_plan_that_would_lose_more_by_now_is_stale(enabled, cli, tmp_path, ledger):
    saved = tmp_path / "plan.json"
    assert cli("plan", cli.file(DIRECT), "--to", saved) == 0, cli.out
    shell(enabled, ESX1, f"nvidia-smi mig -i {GPU} -cgi 3g.20gb -C")
    before = ledger()
    assert cli("apply", saved) == 3
    assert cli.error == "plan.stale"
    assert ESX1 in cli.err
    assert "GPU instances 3g.20gb" in cli.err
    assert ledger() == before


def test_where_mig_cannot_be_read_the_plan_says_so(lab, cli, soap):
    system = soap.host("esx01").configManager.serviceSystem
    system.StopService("TSM-SSH")
    play = cli.file(DIRECT.replace(BOTH, ESX1))
    (lost,) = cli.plan(play)["impact"]["lost"]
    assert (lost["host"]["name"], lost["what"]) == (ESX1, [])
    assert lost["unread"], "why it is not known"
    assert cli.plan(play, "--start-ssh")["impact"]["lost"] == [], "what may start SSH has looked"
    assert cli("apply", play, "--yes") == 0, cli.out + cli.err


def test_a_gpu_that_comes_back_in_another_mode_stops_the_roll_out(enabled, cli, farm, ledger, soap, monkeypatch):
    from vsphere_ai.app.runs import apply_plan

    before = len(ledger())
    shown = apply_plan.approve

    def approve(*given, **more):
        agreed = shown(*given, **more)
        shell(enabled, ESX1, f"nvidia-smi -i {GPU} -mig 0")  # it counts from the next boot on, which will be ours
        return agreed

    monkeypatch.setattr(apply_plan, "approve", approve)
    assert cli.run("apply", cli.file(DIRECT), "--yes") == 6
    assert cli.failed == {(ESX1, "host.unhealthy")}
    assert GPU in cli.text("host.unhealthy")
    assert farm()["hosts"][ESX1]["maintenance"]
    assert not [e for e in ledger()[before:] if e["object"] in (ESX2, "train-03")]

    assert cli.run("resume", "--yes") == 6, "measured by what was there before the first attempt"
    assert {target for target, _ in cli.failed} == {ESX1}
    assert GPU in "".join(cli.text(rule) for _, rule in cli.failed)
    assert farm()["hosts"][ESX1]["maintenance"]

    shell(enabled, ESX1, f"nvidia-smi -i {GPU} -mig 1")
    host = soap.host("esx01")
    booted = host.runtime.bootTime
    soap.wait(host.RebootHost_Task(False))
    soap.until(lambda: host.runtime.bootTime > booted and host.runtime.connectionState == "connected")
    assert cli("resume", "--yes") == 0, cli.out + cli.err
    assert not any(h["maintenance"] for h in farm()["hosts"].values())
    assert cli("plan", cli.file(DIRECT), "--detailed-exitcode") == 0
