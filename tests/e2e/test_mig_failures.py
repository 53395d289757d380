"""MIG when things go wrong half-way: somebody is faster, a list stops in the middle, an exit status lies."""

from __future__ import annotations

import json
import re
import shlex

import paramiko
import pytest
from support.labs import started
from support.places import INVENTORY
from support.raising import refused

from vsphere_ai.errors import NotVerified, StepFailed
from vsphere_ai.execution.actions import executor
from vsphere_ai.model.steps import Shell, Wait

pytestmark = pytest.mark.lab
ESX, OLD = "esx01.lab.local", "esx02.lab.local"
A100, H100, A30 = "0000:3b:00.0", "0000:86:00.0", "0000:af:00.0"
FARM = f"""
name: cut
vcenter: {{version: 8.0.2, build: 22617221, api: 8.0.2.0}}
timing: {{boot_seconds: 0.4, task_seconds: 0.005, shutdown_seconds: 0.1, vmotion_seconds: 0.02}}
clusters:
  - {{name: gpu-a}}
hosts:
  - name: {ESX}
    cluster: gpu-a
    version: 8.0.2
    build: 22380479
    nvidia_driver: 550.163.01
    graphics_default: sharedDirect
    gpus:
      - {{pci: {A100}, board: a100-40gb, device_id: 20f1, mig: true, graphics_type: sharedDirect}}
      - {{pci: {H100}, board: h100-80gb-pcie, mig: true, graphics_type: sharedDirect}}
      - {{pci: {A30}, board: a30-24gb, mig: true, graphics_type: sharedDirect}}
    ssh: {{running: true, policy: on}}
  - name: {OLD}
    version: 7.0.2
    build: 17867351
    nvidia_driver: 470.256.02
    graphics_default: sharedDirect
    gpus:
      - {{pci: {A100}, board: a100-80gb, mig: true, graphics_type: sharedDirect}}
    ssh: {{running: true, policy: on}}
vms: []
"""
PLAY = f"- hosts: {ESX}\n  mig: {{gpus: {{'{A100}': ['3g.20gb:4', '2g.10gb:2', '1g.5gb:0']}}}}\n"


@pytest.fixture(scope="module")
def cut_lab(tmp_path_factory):
    from vsphere_ai.lab.front import process

    directory = tmp_path_factory.mktemp("cut")
    scenario = directory / "scenario.yml"
    scenario.write_text(FARM, encoding="utf-8")
    yield started(directory, scenario)
    process.stop(directory)


@pytest.fixture
def lab(cut_lab, monkeypatch):
    cut_lab.post("/lab/reset")
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(cut_lab.directory))
    return cut_lab


@pytest.fixture
def shell(lab):
    """Run a command on the host as somebody else would: `shell("nvidia-smi -L")`."""
    password = (lab.directory / "ssh_password").read_text(encoding="utf-8").strip()

    def run(line):
        port = int(lab.get("/lab/farm")["hosts"][0]["ssh"]["address"].rpartition(":")[2])
        client = paramiko.SSHClient()
        client.load_host_keys(str(lab.directory / "known_hosts"))
        client.connect("127.0.0.1", port, "root", password, look_for_keys=False, allow_agent=False)
        try:
            _, out, _ = client.exec_command(shlex.join(shlex.split(line)))
            text = out.read().decode()
            return out.channel.recv_exit_status(), text
        finally:
            client.close()

    return run


def standing(farm, gpu=0, host=ESX):
    return {(i["profile"], i["start"]) for i in farm()["hosts"][host]["gpus"][gpu]["instances"]}


@pytest.fixture
def workshop(lab, cli):
    """The plan of a play, and the deeds that would carry it out."""
    from vsphere_ai.app.estate.scope import EstateRequest
    from vsphere_ai.app.estate.session import session_of
    from vsphere_ai.app.runs.plan_playbook import make_plan
    from vsphere_ai.app.runs.read_back import ReadBack
    from vsphere_ai.language.inventories.inventory import find_inventory
    from vsphere_ai.language.playbooks.playbook import load_playbook
    from vsphere_ai.resources import kinds

    benches = []

    def make(text):
        loaded = load_playbook(cli.file(text, "direct.yml"), kinds())
        session = session_of(find_inventory(INVENTORY), loaded, EstateRequest())
        benches.append(session)
        plan, estate = make_plan(session, loaded)
        assert plan.problems == ()
        means = executor.Context(
            session.connection.vcenter,
            session.connection.shell,
            ReadBack(session, loaded, estate).left,
            gpus={},
            hosts={},
        )
        return [p.step for p in plan.steps], executor.StepExecutor(means)

    yield make
    for session in benches:
        session.__exit__(None, None, None)


def test_the_layout_is_made_and_then_nothing_is_left(cli, farm):
    play = cli.file(PLAY)
    assert cli("apply", play, "--yes") == 0, cli.out + cli.err
    assert standing(farm) == {("3g.20gb", 4), ("2g.10gb", 2), ("1g.5gb", 0)}
    assert cli("plan", play, "--detailed-exitcode") == 0


def test_a_plan_made_before_somebody_cut_the_gpu_is_stale(cli, shell, ledger, tmp_path):
    saved = tmp_path / "plan.json"
    assert cli("plan", cli.file(PLAY), "--to", saved) == 0, cli.out
    assert shell("nvidia-smi mig -i 0 -cgi 14:2 -C")[0] == 0
    before = ledger()
    assert cli("apply", saved) == 3
    assert cli.error == "plan.stale"
    assert ledger() == before


def test_a_list_that_stops_half_way_is_told_and_the_next_plan_goes_on_from_there(cli, shell, workshop, farm):
    steps, hands = workshop(PLAY)
    (create,) = (s for s in steps if isinstance(s, Shell))
    assert "-cgi 9:4,14:2,19:0" in " ".join(create.argv)
    assert shell("nvidia-smi mig -i 0 -cgi 19:3")[0] == 0  # somebody is faster: 2g.10gb cannot start at 2 any more
    with pytest.raises(StepFailed) as failed:
        hands.do(create, lambda _: None)
    assert re.search(r"\b23\b", failed.value.message), "the exit status"
    assert "Insufficient Resources" in failed.value.message
    assert standing(farm) == {("3g.20gb", 4), ("1g.5gb", 3)}, "what was made before the error stays"

    play = cli.file(PLAY)
    plan = cli.plan(play)
    commands = [" ".join(s["argv"]) for s in plan["steps"] if s.get("argv")]
    assert not [c for c in commands if "-cgi" in c and "9:4" in c], "what stands already is not made again"
    assert [c.split(" -i ")[1].split()[1] for c in commands] == ["-dgi", "-cgi"], "1g.5gb:3 has no compute instance"
    assert cli("apply", play, "--yes") == 0, cli.out
    assert standing(farm) == {("3g.20gb", 4), ("2g.10gb", 2), ("1g.5gb", 0)}


def test_an_exit_status_of_0_proves_nothing(shell, workshop, farm, monkeypatch):
    monkeypatch.setattr("vsphere_ai.execution.actions.waits.READ_BACK_HOST", 1)
    play = f"- hosts: {ESX}\n  mig: {{gpus: {{'{H100}': [3g.40gb]}}}}\n"
    steps, hands = workshop(play)
    assert shell("nvidia-smi -i 1 -mig 0")[0] == 0  # R550 then creates nothing and calls it a success
    (create,) = (s for s in steps if isinstance(s, Shell))
    hands.do(create, lambda _: None)
    assert standing(farm, 1) == set()
    (wait,) = (s for s in steps if isinstance(s, Wait) and s.until == "as-planned")
    with pytest.raises(NotVerified):
        hands.do(wait, lambda _: None)


def test_an_instance_that_somebody_took_meanwhile_is_not_destroyed(cli, shell, workshop, farm):
    assert cli("apply", cli.file(PLAY), "--yes") == 0
    steps, hands = workshop(f"- hosts: {ESX}\n  mig: {{gpus: {{'{A100}': ['3g.20gb:4']}}}}\n")
    destroy = next(s for s in steps if isinstance(s, Shell) and "-dgi" in s.argv)
    # the compute instance is still there, as it is when somebody made a new one after ours went
    with refused(StepFailed, "step.failed", "In use by another client"):
        hands.do(destroy, lambda _: None)
    assert len(standing(farm)) == 3


def test_a_profile_that_this_driver_calls_by_another_name(cli, farm):
    play = cli.file(f"- hosts: {OLD}\n  mig: {{layout: [7g.80gb]}}\n")
    assert cli("apply", play, "--yes") == 0, cli.out + cli.err
    assert standing(farm, host=OLD) == {("7g.80gb", 0)}
    assert cli("plan", play, "--detailed-exitcode") == 0
    assert cli("show", OLD) == 0
    assert "7g.79gb:0" in cli.out, "R470's own name"
    assert cli("plan", cli.file(cli.out, "shown.yml"), "--detailed-exitcode") == 0


def test_a_profile_this_driver_is_too_old_for(cli):
    assert cli("plan", cli.file(f"- hosts: {OLD}\n  mig: {{layout: [1g.20gb]}}\n")) == 1
    (problem,) = cli.plan(cli.file(f"- hosts: {OLD}\n  mig: {{layout: [1g.20gb]}}\n"))["problems"]
    assert {"1g.20gb", "R510", "R470"} <= set(re.findall(r"[\w.]+", problem["message"]))


# -- show


def test_what_show_writes_of_hand_made_instances_on_mixed_gpus_plans_nothing(cli, shell, farm):
    for line in ("-i 0 -cgi 9:4,14:2,19:0 -C", "-i 1 -cgi 19:6,15:0 -C", "-i 2 -cgi 21:3,14:0 -C", "-i 0 -cgi 20:1"):
        assert shell(f"nvidia-smi mig {line}")[0] == 0, line
    assert cli("show") == 0
    text = cli.out
    for each in ("3g.20gb:4", "2g.10gb:2", "1g.5gb:0", "1g.5gb+me:1", "1g.10gb:6", "1g.20gb:0", "1g.6gb+me:3"):
        assert each in text
    plan = cli.plan(cli.file(text, "shown.yml"))
    assert (plan["steps"], plan["problems"]) == ([], [])


# -- mig plan, read from the host


def test_mig_plan_prints_the_real_numbers_of_what_stands_there(cli, shell, ledger):
    assert shell("nvidia-smi mig -i 0 -cgi 9:4,19:0 -C")[0] == 0
    before = ledger()
    assert cli("mig", "plan", "4g.20gb,3g.20gb", "--host", ESX, "--gpu", A100, "-i", INVENTORY) == 0, cli.err
    commands = [line.strip() for line in cli.out.splitlines() if "nvidia-smi mig" in line]
    assert commands[-1] == "nvidia-smi mig -i 00000000:3B:00.0 -cgi 5:0 -C"
    for command in commands:
        assert shell(command)[0] == 0, command
    assert [e["channel"] for e in ledger()[len(before) :]] == ["ssh"] * len(commands)
    assert cli("mig", "plan", "4g.20gb,3g.20gb", "--host", ESX, "--gpu", A100, "-i", INVENTORY, "-o", "json") == 0
    assert [g["commands"] for g in json.loads(cli.out)["gpus"]] == [[]]


def test_mig_plan_of_every_gpu_of_a_host(cli):
    assert cli("mig", "plan", "2g.12gb", "--host", ESX, "-i", INVENTORY, "-o", "json") == 1
    found = {g["pci"]: g["fits"] for g in json.loads(cli.out)["gpus"]}
    assert found == {A100: False, H100: False, A30: True}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--host", ESX, "--gpu", "0000:01:00.0"], f"it has {A100}, {H100}, {A30}"),
        (["--host", ESX, "--gpu", "a100-40gb"], "is not a PCI address"),
        (["--host", "nobody.lab.local"], "nobody.lab.local"),
    ],
)
def test_mig_plan_says_what_it_cannot_find(cli, words, said):
    assert cli("mig", "plan", "9", *words, "-i", INVENTORY) in (64, 65)
    assert said in cli.err


def test_mig_plan_takes_an_address_in_any_spelling(cli):
    for spelling in (A100, A100.upper(), A100.removeprefix("0000:"), f"0000{A100}"):
        assert cli("mig", "plan", "9", "--host", ESX, "--gpu", spelling, "-i", INVENTORY) == 0, cli.err


def test_mig_parted_tells_products_of_one_device_id_apart(cli):
    """The subsystem is read from the host: a filter of another one is not about its GPU."""
    text = (
        "version: v1\nmig-configs:\n  c:\n    - {device-filter: '0x20F110DE:0x%s', devices: all, mig-enabled: true,"
        " mig-devices: {3g.20gb: 2}}\n"
    )
    for subsystem, about in (("145F10DE", True), ("146010DE", False)):
        file = cli.file(text % subsystem, "parted.yaml")
        assert cli("mig", "parted", file, "--host", ESX, "-i", INVENTORY, "-o", "json") == 0, cli.err
        assert {c["pci"]: c["applies"] for c in json.loads(cli.out)["configs"]} == {
            A100: about,
            H100: False,
            A30: False,
        }


def commands(cli, gpu):
    assert cli("mig", "plan", "9", "--host", ESX, "--gpu", gpu, "-i", INVENTORY, "-o", "json") == 0, cli.err
    (found,) = json.loads(cli.out)["gpus"]
    return [c["command"] for c in found["commands"]]


def test_mig_plan_switches_mig_on_where_it_is_off(cli, shell):
    assert shell("nvidia-smi -i 1 -mig 0")[0] == 0
    enable, query, create = commands(cli, H100)
    assert enable.endswith("-mig 1")
    assert "mig.mode.current" in query
    assert "-cgi" in create
    for line in (enable, create):  # as printed
        assert shell(line)[0] == 0, line


# -- mig-parted


def test_the_state_of_a_host_as_mig_parted_and_back(cli, shell):
    assert cli("mig", "parted", "--from-host", ESX, "-i", INVENTORY) == 0, cli.err
    assert "    - devices: all\n      mig-enabled: true\n      mig-devices: {}\n" in cli.out
    for line in ("-i 0 -cgi 9:4,14:2,19:0 -C", "-i 1 -cgi 19:6,15:0 -C", "-i 2 -cgi 21:3,14:0 -C"):
        assert shell(f"nvidia-smi mig {line}")[0] == 0, line
    assert cli("mig", "parted", "--from-host", ESX, "-i", INVENTORY) == 0
    written = cli.file(cli.out, "parted.yml")
    assert '{"1g.5gb": 1, "2g.10gb": 1, "3g.20gb": 1}' in cli.out

    assert cli("mig", "parted", written, "--host", ESX, "-i", INVENTORY) == 0, cli.err
    plan = cli.plan(cli.file(cli.out, "back.yml"))
    assert (plan["problems"], plan["steps"]) == ([], []), "the starts that are there satisfy a file that knows none"


def test_a_configuration_that_does_not_fit_the_gpus_of_a_host(cli):
    text = "version: v1\nmig-configs:\n  c: [{devices: all, mig-enabled: true, mig-devices: {3g.20gb: 2}}]\n"
    assert cli("mig", "parted", cli.file(text, "parted.yml"), "--host", ESX, "-i", INVENTORY) == 1
    assert f"# does not fit on GPU {H100}: no profile 3g.20gb on this GPU; its 3g is 3g.40gb" in cli.out
    assert f'"{A100}": {{mode: enabled, layout: ["3g.20gb:0", "3g.20gb:4"]}}' in cli.out
    assert f'"{H100}"' not in cli.out
