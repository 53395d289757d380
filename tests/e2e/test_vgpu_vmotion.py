"""Hosts are evacuated of VMs with vGPUs by vMotion: none is powered off, each goes where the plan has placed it."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.lab

GPU, SECOND = "0000:3b:00.0", "0000:86:00.0"
EIGHT = "version: 8.0.2, build: 22385739, api: 8.0.2.0, vgpu_vmotion: true"
PLAY = """
- hosts: "{hosts}"
  graphics: {{assignment_policy: consolidation}}
  kernel: {{ats_support: true}}
  rolling: {{evacuate: vmotion, reboot: api, max_unavailable: {at_once}}}
"""


def play(hosts="esx[01:03].lab.local", at_once=1, evacuate="vmotion"):
    return PLAY.format(hosts=hosts, at_once=at_once).replace("vmotion", evacuate)


def host(number, *, mig=False, board="a100-40gb, device_id: 20f1", driver="550.90.05", more="", gpus=1):
    slots = ", ".join(
        f'{{pci: "{pci}", board: {board}, graphics_type: sharedDirect, mig: {str(mig).lower()}}}'
        for pci in (GPU, SECOND)[:gpus]
    )
    return f"""
  - name: esx{number:02d}.lab.local
    cluster: a
    version: 8.0.2
    build: 22380479
    nvidia_driver: {driver}
    graphics_default: sharedDirect
    gpus: [{slots}]
    ssh: {{running: true, policy: on}}
    {more}"""


def vm(name, on, profile="grid_a100-20c", **more):
    rest = "".join(f", {k}: {v}" for k, v in more.items())
    vgpu = f", memory_reservation_locked: true, vgpu: [{profile}]" if profile else ""
    return f"\n  - {{name: {name}, host: esx{on:02d}.lab.local, power: on, hardware: 20, memory_gb: 8{vgpu}{rest}}}"


def farm(hosts, vms, vcenter=EIGHT, cluster=""):
    return f"""
name: rolls
vcenter: {{{vcenter}}}
timing: {{boot_seconds: 0.3, task_seconds: 0.005, shutdown_seconds: 0.1, vmotion_seconds: 0.02}}
clusters: [{{name: a, {cluster}}}]
hosts:{"".join(hosts)}
vms:{"".join(vms) or " []"}
"""


def seven(scenario):
    """Return the farm with hosts of vSphere 7.0 U3f."""
    hosts = scenario.replace("version: 8.0.2\n    build: 22380479", "version: 7.0.3\n    build: 20036589")
    return hosts.replace("hardware: 20", "hardware: 19")


@pytest.fixture
def lab(make_lab, monkeypatch, request):
    lab = make_lab(request.param)
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    return lab


def rolled(*numbers):
    return {f"esx{n:02d}.lab.local" for n in numbers}


def calls(ledger, name):
    return [e["call"] for e in ledger() if e["object"] == name and e["call"] != "scenario"]


FOUR = farm([host(n) for n in (1, 2, 3)], [vm("a", 1), vm("b", 1), vm("c", 2), vm("plain", 2, profile="")])


@pytest.mark.parametrize("lab", [FOUR], indirect=True)
def test_a_whole_cluster_reboots_and_no_vm_goes_off(cli, lab, farm, ledger):
    playbook = cli.file(play())
    plan = cli.plan(playbook)
    assert plan["problems"] == []
    moves = [(m["vm"]["name"], m["source"]["name"][:5], m["target"]["name"][:5]) for m in plan["impact"]["migrations"]]
    assert {name for name, _, _ in moves} == {"a", "b", "c"}
    assert plan["impact"]["power_cycles"] == []
    assert plan["impact"]["migrations"][0]["stun"] == [[10_000, 25], [25_000, 10]]
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    done = ledger()
    assert {e["object"] for e in done if e["call"] == "RebootHost_Task"} == rolled(1, 2, 3)
    assert not [e for e in done if e["call"] in ("ShutdownGuest", "PowerOffVM_Task", "PowerOnVM_Task")]
    went = [(e["object"], e["detail"]["source"][:5], e["detail"]["target"][:5]) for e in done
            if e["call"] == "MigrateVM_Task"]  # fmt: skip
    assert went == moves
    assert {v["power"] for v in farm()["vms"].values()} == {"poweredOn"}
    assert calls(ledger, "plain")[:1] == ["DrsMigration"]
    assert cli("plan", playbook, "--detailed-exitcode") == 0


FULL = farm([host(n) for n in (1, 2, 3)], [vm(f"v{n}", 1 + n // 2) for n in range(6)])
OTHER = farm([host(1), host(2, board="a30-24gb")], [vm("a", 1)])
OLDER = farm([host(1), host(2, driver="535.183.04")], [vm("a", 1)])
NO_DRIVER = farm([host(1, more="vgpu_migration: false"), host(2)], [vm("a", 1)])
OFF = farm([host(1), host(2)], [vm("a", 1)], vcenter=EIGHT.replace("true", "false"))
SEVEN = "version: 7.0.3, build: 19480866, api: 7.0.3.0, vgpu_vmotion: true"
OLD = seven(farm([host(1), host(2)], [vm("a", 1)], vcenter=SEVEN))
NOT_OPTED = OLD.replace("19480866", "20051473")


@pytest.mark.parametrize(
    ("lab", "rule", "words"),
    [
        (FULL, "rolling.no-slot", ()),
        (OTHER, "rolling.no-slot", ("esx02.lab.local", "grid_a100-20c")),
        (OLDER, "rolling.no-slot", ("R535", "R550")),
        (NO_DRIVER, "rolling.pinned", ("vMotion",)),
        (OFF, "rolling.hotmigrate", ("vgpu.hotmigrate.enabled",)),
        (OLD, "rolling.pinned", ("7.0.3", "19480866")),
        (NOT_OPTED, "rolling.opt-in", ("VgpuMMAutomationTimeoutSecs", "-1")),
    ],
    indirect=["lab"],
)
def test_what_vmotion_would_not_carry_is_refused_before_anything_is_touched(cli, lab, ledger, rule, words):
    done = ledger()
    plan = cli.plan(cli.file(play("esx01.lab.local")))
    assert {p["rule"] for p in plan["problems"]} == {rule}, plan["problems"]
    assert all(word in plan["problems"][0]["message"] for word in words)
    assert cli("apply", cli.file(play("esx01.lab.local")), "--yes") == 1
    assert ledger() == done
    # what the play says is done: powered off where it asks for that
    assert cli.plan(cli.file(play("esx01.lab.local", evacuate="power_off")))["problems"] in ([], plan["problems"][:0])


OPTED = seven(farm([host(1), host(2)], [vm("a", 1)], cluster='drs_options: {VgpuMMAutomationTimeoutSecs: "-1"}',
                   vcenter=SEVEN.replace("19480866", "20051473")))  # fmt: skip
MANUAL = farm([host(1), host(2)], [vm("a", 1)], cluster="drs: manual")


@pytest.mark.parametrize("lab", [OPTED, MANUAL], indirect=True)
def test_opted_in_or_with_drs_that_only_recommends_the_run_moves_it(cli, lab, ledger, farm):
    assert cli("apply", cli.file(play("esx01.lab.local")), "--yes") == 0, cli.out + cli.err
    assert calls(ledger, "a") == ["MigrateVM_Task"]
    assert farm()["vms"]["a"]["power"] == "poweredOn"


SLICES = farm([host(n, mig=True) for n in (1, 2)], [vm("a", 1, "grid_a100-3-20c"), vm("b", 2, "grid_a100-3-20c"),
              vm("c", 1, "grid_a100-1-5c")])  # fmt: skip


@pytest.mark.parametrize("lab", [SLICES], indirect=True)
def test_vms_with_slices_move_to_slices_that_are_free(cli, lab, ledger, farm):
    playbook = cli.file(play("esx[01:02].lab.local"))
    assert cli("plan", playbook) == 1  # 3g + 3g leave no room for 1g on one A100
    assert "[rolling.no-slot]" in cli.out
    first = cli.file("- vms: c\n  vgpu: []\n", "without.yml")
    assert cli("apply", first, "--yes") == 0, cli.out
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    assert calls(ledger, "a").count("MigrateVM_Task") >= 1
    assert not {"ShutdownGuest", "PowerOffVM_Task"} & {*calls(ledger, "a"), *calls(ledger, "b")}
    assert {v["power"] for v in farm()["vms"].values()} == {"poweredOn"}


@pytest.mark.parametrize("lab", [FOUR], indirect=True)
def test_a_vm_that_came_meanwhile_is_not_waited_for(cli, lab, ledger, new_client):
    soap = new_client(lab)
    path = cli.folder / "plan.json"
    assert cli("plan", cli.file(play("esx03.lab.local")), "--to", path) == 0, cli.out
    soap.wait(soap.vm("a").MigrateVM_Task(host=soap.host("esx03"), priority="defaultPriority"))
    before = len(ledger())
    assert cli("apply", path, "--yes") != 0
    assert [e["call"] for e in ledger()[before:]] == []


TWO = farm([host(1), host(2)], [vm("a", 1), vm("b", 1)])


@pytest.mark.parametrize("lab", [TWO], indirect=True)
def test_a_move_that_fails_disrupts_nothing(cli, lab, ledger, farm):
    rule = {"on": "MigrateVM_Task", "target": "b", "do": {"task-fails": "InsufficientGraphicsResourcesFault"}}
    lab.post("/lab/faults", {"rules": [rule]})
    assert cli("apply", cli.file(play("esx01.lab.local")), "--yes") != 0
    assert {v["power"] for v in farm()["vms"].values()} == {"poweredOn"}
    assert {e["call"] for e in ledger() if e["object"].startswith("esx")} <= {"scenario"}
    lab.post("/lab/faults", {"rules": []})
    assert cli("apply", cli.file(play("esx01.lab.local")), "--yes") == 0, cli.out + cli.err
    assert sorted(e["object"] for e in ledger() if e["call"] == "MigrateVM_Task") == ["a", "b"]
    assert {v["power"] for v in farm()["vms"].values()} == {"poweredOn"}


@pytest.mark.parametrize("lab", [TWO], indirect=True)
def test_a_move_whose_answer_is_lost_is_made_once(cli, lab, ledger, farm):
    lab.post("/lab/faults", {"rules": [{"on": "MigrateVM_Task", "nth": 1, "do": "lost-reply"}]})
    assert cli("apply", cli.file(play("esx01.lab.local")), "--yes") == 0, cli.out + cli.err
    assert sorted(e["object"] for e in ledger() if e["call"] == "MigrateVM_Task") == ["a", "b"]
    assert {v["power"] for v in farm()["vms"].values()} == {"poweredOn"}
