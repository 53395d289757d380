"""Hosts one after the other: never too many down, nobody started after one that is not well, judged by the lab."""

from __future__ import annotations

import json
import re
import threading
from itertools import pairwise

import pytest
from support.gates import LONG
from support.places import PLAYBOOKS
from support.processes import apply

from vsphere_ai.runs import journal

pytestmark = pytest.mark.lab
MISSION = PLAYBOOKS / "ai-ready-cluster.yml"
ESX1, ESX2 = "esx01.lab.local", "esx02.lab.local"
REBOOT = "ssh: esxcli system shutdown reboot"
REBOOTS = ("esxcli system shutdown reboot", "RebootHost_Task")
MEMORY = "Host memory usage"

HOST = """  - name: esx{names}.lab.local
    cluster: gpu-a
    nvidia_driver: 470.256.02
    gpus: [{{pci: 0000:3b:00.0, board: a100-40gb}}]
    nics: [{{name: vmnic0, pci: 0000:18:00.0, switch: dvs-lan}}]
    ssh: {{running: true, policy: on}}
"""
FARM = """
name: rolling
timing: {boot_seconds: 0.2, task_seconds: 0.002, shutdown_seconds: 0.05, vmotion_seconds: 0.02}
clusters: [{name: gpu-a}]
switches: [{name: dvs-lan, uplinks: 1, port_groups: [{name: dvpg-lan}]}]
hosts:
{HOST}vms:
  - {name: "vm-[01:04]", host: "esx[01:04].lab.local", power: on, network: dvpg-lan}
""".replace("{HOST}", HOST.format(names="[01:16]"))
SIXTEEN = "- hosts: esx[01:15].lab.local\n  graphics: {{default_type: shared_direct}}\n  rolling: {{{}}}\n"
TWO = """
- hosts: esx[01:02].lab.local
  graphics: {{default_type: shared_direct}}
  rolling: {{evacuate: power_off, {}}}
"""


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr("vsphere_ai.app.runs.quiesce.NEVER_DOWN", 3.0, raising=False)
    monkeypatch.setattr("vsphere_ai.app.runs.quiesce.STILL_RUNNING", 3.0)


@pytest.fixture
def two(cli):
    """Write a play for two hosts with these words about rolling."""
    return lambda words="timeout: 30m": cli.file(TWO.format(words))


def reboots(ledger):
    return [e["object"] for e in ledger() if e["call"] in REBOOTS]


def converged(lab, cli, play, *, skip=(), **more):
    """Everything is as planned, and the lab's own judge found nothing wrong."""
    assert cli("plan", play, "--detailed-exitcode") == 0, cli.out
    wrong = [v for v in lab.check(**more)["invariants"] if not v["ok"] and v["name"] not in skip]
    assert wrong == []


# -- how many at once


@pytest.fixture
def sixteen(make_lab, cli, monkeypatch):
    lab = make_lab(FARM)
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    return lab


@pytest.fixture
def one_down(sixteen, new_client):
    client = new_client(sixteen)
    client.wait(client.host("esx16").EnterMaintenanceMode_Task(timeout=10))
    sixteen.mark()
    return sixteen


@pytest.mark.parametrize(("budget", "down"), [("2", 2), ("25%", 4)])
def test_no_more_hosts_are_down_than_allowed_counting_one_that_was(one_down, cli, budget, down):
    play = cli.file(SIXTEEN.format(f"evacuate: power_off, max_unavailable: {budget}"))
    assert cli("apply", play, "--yes") == 0, cli.out + cli.err
    (seen,) = (v for v in one_down.check(max_down=down)["invariants"] if v["name"] == "hosts-down")
    assert seen["seen"] == f"gpu-a: at most {down} at once", "fewer would only be slower"
    converged(one_down, cli, play, max_down=down)


def test_one_at_a_time_is_one_at_a_time(sixteen, cli):
    play = cli.file(SIXTEEN.format("evacuate: power_off").replace("01:15", "01:05"))
    assert cli("apply", play, "--yes") == 0, cli.out + cli.err
    (seen,) = (v for v in sixteen.check()["invariants"] if v["name"] == "hosts-down")
    assert seen["seen"] == "gpu-a: at most 1 at once"
    converged(sixteen, cli, play)


def test_nobody_is_started_when_the_budget_is_used_up(one_down, cli):
    assert cli("apply", cli.file(SIXTEEN.format("evacuate: power_off")), "--yes") == 1
    assert "[rolling.budget]" in cli.out
    assert "esx16.lab.local" in cli.out, "the host that uses it up"
    assert one_down.check()["entries"] == 0


@pytest.fixture
def while_asked(monkeypatch):
    """Let somebody act while the operator thinks about the plan that is shown."""
    from vsphere_ai.app.runs import apply_plan

    shown = apply_plan.approve

    def arrange(act):
        monkeypatch.setattr(apply_plan, "approve", lambda *given, **more: (shown(*given, **more), act())[0])

    return arrange


def out(client, name):
    client.wait(client.host(name).EnterMaintenanceMode_Task(timeout=10))


def test_a_host_that_goes_down_between_plan_and_rollout_counts(sixteen, cli, new_client, while_asked):
    client = new_client(sixteen)
    while_asked(lambda: (out(client, "esx16"), sixteen.mark()))
    play = cli.file(SIXTEEN.format("evacuate: power_off").replace("01:15", "01:02"))
    assert cli.run("apply", play, "--yes") == 6
    assert {rule for _, rule in cli.failed} == {"rollout.over-budget"}
    assert "esx16.lab.local" in cli.text("rollout.over-budget")
    assert sixteen.check()["entries"] == 0, "nothing was touched"
    assert all(v["ok"] for v in sixteen.check()["invariants"])

    client.wait(client.host("esx16").ExitMaintenanceMode_Task(timeout=10))
    sixteen.mark()
    assert cli("resume") == 0, cli.out + cli.err
    converged(sixteen, cli, play)


def test_with_less_room_than_planned_fewer_go_at_once(sixteen, cli, new_client, while_asked):
    client = new_client(sixteen)
    while_asked(lambda: (out(client, "esx16"), sixteen.mark()))
    play = cli.file(SIXTEEN.format("evacuate: power_off, max_unavailable: 2").replace("01:15", "01:04"))
    assert cli("apply", play, "--yes") == 0, cli.out + cli.err
    (seen,) = (v for v in sixteen.check(max_down=2)["invariants"] if v["name"] == "hosts-down")
    assert seen["ok"], seen
    assert seen["seen"] == "gpu-a: at most 2 at once"
    converged(sixteen, cli, play, max_down=2)


def test_a_host_that_goes_down_during_the_rollout_stops_the_next_one_only(lab, cli, two, ledger, farm, soap):
    lab.set_faults(f"- {{on: ExitMaintenanceMode_Task, target: {ESX1}, nth: 1, do: {{delay: 2s}}}}\n")
    lab.mark()

    def act():
        soap.until(lambda: soap.host("esx01").runtime.inMaintenanceMode, 30)
        out(soap, "esx03")

    somebody = threading.Thread(target=act)
    somebody.start()
    code = cli.run("apply", two(), "--yes")
    somebody.join()
    assert code == 6, cli.out
    assert {rule for _, rule in cli.failed} == {"rollout.over-budget"}
    assert "esx03.lab.local" in cli.text("rollout.over-budget")
    assert reboots(ledger) == [ESX1]
    assert not [e for e in ledger() if e["object"] in (ESX2, "train-03")]
    now = farm()
    assert not now["hosts"][ESX1]["maintenance"], "its turn had begun, so it was brought to its end"
    assert all(now["vms"][n]["power"] == "poweredOn" for n in ("train-01", "train-02"))


def test_batches_grow_and_are_shown(sixteen, cli):
    play = cli.file(SIXTEEN.format("evacuate: power_off, max_unavailable: 50%, serial: [1, 3, 50%]"))
    plan = cli.plan(play)
    (roll,) = plan["impact"]["rolls"]
    names = [[h["name"][3:5] for h in batch] for batch in roll["batches"]]
    assert [len(batch) for batch in names] == [1, 3, 7, 4]
    assert names[0] == ["01"]
    assert cli("apply", play, "--yes") == 0, cli.out + cli.err
    # no host of a batch was touched before every host of the one before was in service again
    entries = sixteen.get("/lab/ledger")["entries"]
    at = {(e["object"][3:5], e["call"]): e["number"] for e in entries}
    for earlier, later in pairwise(names):
        ended = max(at[h, "ExitMaintenanceMode_Task"] for h in earlier)
        assert ended < min(at[h, "EnterMaintenanceMode_Task"] for h in later)
    converged(sixteen, cli, play, max_down=8)


# -- a host that does not come back as it was


def test_a_host_that_does_not_return_in_time_stops_everything_and_is_resumed_later(make_lab, cli, monkeypatch):
    deferred = HOST.format(names="01") + "    boot_seconds: 11\n" + HOST.format(names="02")
    lab = make_lab(FARM.replace(HOST.format(names="[01:16]"), deferred).replace("[01:04]", "[01:02]"))
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    play = cli.file(TWO.format("timeout: 5s"))
    lab.mark()
    assert cli.run("apply", play, "--yes") == 6, cli.out
    assert cli.failed == {(ESX1, "host.not-back")}
    assert ("maintenance", ESX1) in cli.pending()
    assert any(f"govc host.maintenance.exit {ESX1}" in line for line in cli.summary["open"])
    (failed,) = [e for e in cli.events if e["what"] == "failed"]
    assert failed["seconds"] >= 4
    entries = lab.get("/lab/ledger")["entries"]
    assert not [e for e in entries if e["object"] in (ESX2, "vm-02")], "another host was started"

    assert cli("resume") == 0, cli.out + cli.err
    converged(lab, cli, play)
    done = [e["object"] for e in lab.get("/lab/ledger")["entries"] if e["call"] in REBOOTS]
    assert sorted(done) == [ESX1, ESX2]


def test_a_host_that_lost_a_gpu_is_left_in_maintenance_until_it_is_back(lab, cli, two, ledger, farm, soap):
    lab.set_faults(f"- {{on: '{REBOOT}', nth: 1, when: before, do: {{gpu-missing: '0000:86:00.0'}}}}\n")
    play = two("timeout: 6s, settle: 2s")
    lab.mark()
    assert cli.run("apply", play, "--yes") == 6
    assert cli.failed == {(ESX1, "host.unhealthy")}
    assert "1 of 2 GPUs" in cli.text("host.unhealthy")
    assert farm()["hosts"][ESX1]["maintenance"]
    assert reboots(ledger) == [ESX1]
    assert not [e for e in ledger() if e["object"] in (ESX2, "train-03")]

    assert cli.run("resume") == 6, cli.out + cli.err  # measured by what was there before the first attempt
    assert cli.failed == {(ESX1, "host.unhealthy")}
    assert "1 of 2 GPUs" in cli.text("host.unhealthy")
    assert farm()["hosts"][ESX1]["maintenance"]
    assert reboots(ledger) == [ESX1]

    host = soap.host("esx01")
    before = host.runtime.bootTime
    soap.wait(host.RebootHost_Task(False))  # somebody has put it in its place again
    soap.until(lambda: host.runtime.bootTime > before and host.runtime.connectionState == "connected")
    assert cli("resume") == 0, cli.out + cli.err
    converged(lab, cli, play, skip=("reboots", "services"))
    assert sorted(reboots(ledger)) == [ESX1, ESX1, ESX2]


def test_a_host_whose_boot_time_does_not_move_has_not_rebooted(lab, cli, two, ledger, farm):
    lab.set_faults(f"- {{on: '{REBOOT}', nth: 1, when: before, do: drop}}\n")
    assert cli.run("apply", two("timeout: 3s"), "--yes") == 6
    assert cli.failed == {(ESX1, "host.not-back")}
    assert farm()["hosts"][ESX1]["maintenance"]
    assert reboots(ledger) == []
    assert not [e for e in ledger() if e["object"] in (ESX2, "train-03")]
    assert cli("resume") == 0, cli.out + cli.err  # it never got the order, so this is not its second reboot
    assert reboots(ledger) == [ESX1, ESX2]


@pytest.mark.parametrize("via", ["ssh", "api"])
def test_an_order_to_reboot_that_got_lost_is_not_waited_for_as_long_as_a_boot(
    lab, cli, two, ledger, farm, monkeypatch, via
):
    monkeypatch.setattr("vsphere_ai.execution.actions.waits.UNANSWERED", 2.0)
    on, do = (REBOOT, "drop") if via == "ssh" else ("RebootHost_Task", "reset")
    lab.set_faults(f"- {{on: '{on}', nth: 1, when: before, do: {do}}}\n")
    assert cli.run("apply", two(f"timeout: 30m, reboot: {via}"), "--yes") == 6, cli.out + cli.err
    assert cli.failed == {(ESX1, "host.not-rebooted")}
    waits = {e["text"] for e in cli.events if "host is connected" in str(e.get("text"))}
    assert waits
    assert all(text.endswith(" of 2 s") for text in waits), "each names the limit by which it ends"
    settled = {e["rule"] for e in cli.events if e["what"] == "reverted"}
    assert "cleanup.ssh-on" not in settled, "it still runs: the host did not go down"
    assert "cleanup.maintenance" in settled
    assert ESX1 in cli.text("cleanup.maintenance")
    assert cli.summary["open"] == []
    assert not farm()["hosts"][ESX1]["maintenance"]
    assert {v["power"] for v in farm()["vms"].values() if v["host"] == ESX1} == {"poweredOn"}
    assert reboots(ledger) == []
    assert cli("resume") == 0, cli.out + cli.err
    assert reboots(ledger) == [ESX1, ESX2]
    assert cli("run", "show", next(iter(journal.every())).id, "-o", "json") == 0
    record = json.loads(cli.out)
    assert [s["target"] for s in record["steps"] if s["what"] == "host-back" and s["state"] == "failed"] == [ESX1]


def test_a_host_that_somebody_else_put_into_maintenance_stays_so(lab, farm, soap):
    lab.set_faults(f"- {{on: ExitMaintenanceMode_Task, target: {ESX1}, nth: 1, do: {{delay: 6s}}}}\n")  # time to act
    process = apply(lab, MISSION)
    rebooting = re.compile(rf'"what": "start".*"{ESX1}".*"summary": "reboot ')
    assert process.until(lambda out: any(map(rebooting.search, out))), process.said
    soap.wait(soap.vm("train-03").PowerOffVM_Task())
    soap.wait(soap.host("esx02").EnterMaintenanceMode_Task(timeout=10))
    assert process.wait(LONG) == 6, process.said
    outcomes = json.loads(process.out[-1])["outcomes"]
    assert {(o["target"], o["rule"]) for o in outcomes if o["state"] == "failed"} == {(ESX2, "host.in-maintenance")}
    assert farm()["hosts"][ESX2]["maintenance"]
    assert not farm()["hosts"][ESX1]["maintenance"]


# -- alarms


def raised(lab, soap):
    """Let an alarm of esx01 go red, as somebody else's trouble would."""
    lab.set_faults(f"- {{on: RetrieveHardwareUptime, do: {{raise-alarm: {MEMORY}}}}}\n")
    soap.host("esx01").RetrieveHardwareUptime()
    lab.clear_faults()


def cleared(soap):
    soap.content.alarmManager.ClearTriggeredAlarms(soap.vim.alarm.AlarmFilterSpec(status=["red"]))


def test_a_new_red_alarm_stops_the_roll_out_until_it_is_cleared(lab, cli, two, ledger, farm, soap):
    lab.mark()  # our own session is none the tool has left open
    rule = f"- {{on: ExitMaintenanceMode_Task, target: {ESX1}, when: after, do: {{raise-alarm: {MEMORY}}}}}\n"
    lab.set_faults(rule)
    play = two("settle: 2s")
    assert cli.run("apply", play, "--yes") == 6
    assert cli.failed == {(ESX1, "host.unhealthy")}
    assert f"'{MEMORY}'" in cli.text("host.unhealthy")
    assert "rollout.halted" in {rule for _, rule in cli.outcomes("skipped")}
    assert ESX1 in cli.text("rollout.halted")
    assert not [e for e in ledger() if e["object"] in (ESX2, "train-03")]
    now = farm()
    assert not now["hosts"][ESX1]["maintenance"]
    assert now["vms"]["train-01"]["power"] == "poweredOn"
    lab.clear_faults()

    assert cli("resume") == 6, cli.out  # it is as red as it was
    assert reboots(ledger) == [ESX1]
    cleared(soap)
    assert cli("resume") == 0, cli.out + cli.err
    converged(lab, cli, play)
    assert sorted(reboots(ledger)) == [ESX1, ESX2]


def test_an_alarm_that_was_red_before_is_named_and_does_not_stop_it(lab, cli, two, ledger, soap):
    raised(lab, soap)
    lab.mark()
    play = two("settle: 2s")
    plan = cli.plan(play)
    (first, _) = plan["impact"]["found"]
    assert [a["name"] for a in first["alarms"]] == [MEMORY]
    assert cli("apply", play, "--yes") == 0, cli.out + cli.err
    assert f"{ESX1}: {MEMORY}" in cli.out
    converged(lab, cli, play)


def test_the_alarm_of_a_host_that_reboots_is_no_new_one_once_it_is_back(lab, cli, two, soap):
    lab.mark()
    play = two("settle: 5s")
    assert cli("apply", play, "--yes") == 0, cli.out + cli.err
    assert soap.host("esx01").triggeredAlarmState == []
    converged(lab, cli, play)


# -- how many may fail

REFUSED = "- {on: UpdateGraphicsConfig, nth: 1, do: {fault: InvalidArgument}}\n"


@pytest.mark.parametrize(
    ("words", "further", "rule"),
    [
        ("serial: 1", False, "rollout.halted"),
        ("max_fail: 1", False, "rollout.over-budget"),
        ("max_fail: 1, max_unavailable: 2, serial: 1", True, None),
        ("max_fail: 50%, max_unavailable: 2, serial: 1", True, None),
        ("max_fail: 10%, max_unavailable: 2, serial: 1", False, "rollout.halted"),
    ],
)
def test_a_failed_host_counts(lab, cli, two, ledger, farm, words, further, rule):
    powered = {v["power"] for v in farm()["vms"].values() if v["host"] == ESX1}
    lab.set_faults(REFUSED)
    play = two(words)
    assert cli.run("apply", play, "--yes") == 1
    assert {e["rule"] for e in cli.events if e.get("rule", "").startswith("rollout.")} == ({rule} if rule else set())
    assert reboots(ledger) == ([ESX2] if further else [])
    assert not farm()["hosts"][ESX1]["maintenance"], "no reboot was sent, so nothing there needs it"
    assert ESX1 in cli.text("cleanup.maintenance")
    assert {v["power"] for v in farm()["vms"].values() if v["host"] == ESX1} == powered
    off = [e["object"] for e in ledger() if e["call"] == "ShutdownGuest" and e["object"] in ("train-01", "train-02")]
    on = [e["object"] for e in ledger() if e["call"] == "PowerOnVM_Task" and e["object"] in ("train-01", "train-02")]
    assert sorted(on) == sorted(off) == ["train-01", "train-02"]
    lab.clear_faults()

    assert cli("resume") == 0, cli.out + cli.err
    converged(lab, cli, play, max_down=2 if "max_unavailable" in words else 1)
    assert sorted(reboots(ledger)) == [ESX1, ESX2]


# -- where VMs go

MOVING = "- hosts: esx01.lab.local\n  graphics: {default_type: shared_direct}\n  rolling: {evacuate: vmotion}\n"


def test_vms_that_will_move_are_named_and_move(lab, cli, ledger, farm):
    play = cli.file(MOVING)
    assert [vm["name"] for vm in cli.plan(play)["impact"]["moves"]] == ["train-01", "train-02"]
    assert cli("apply", play, "--yes") == 0, cli.out + cli.err
    moved = {e["object"] for e in ledger() if e["call"] == "DrsMigration"}
    assert moved == {"train-01", "train-02"}
    assert all(farm()["vms"][n]["host"] != ESX1 for n in moved)
    converged(lab, cli, play)


def drs(soap, **spec):
    cluster = soap.find(soap.vim.ClusterComputeResource, "gpu-a")
    soap.wait(cluster.ReconfigureComputeResource_Task(soap.vim.cluster.ConfigSpecEx(**spec), True))


@pytest.mark.parametrize(
    ("level", "shown"),
    [
        ({"enabled": False}, "off"),
        ({"defaultVmBehavior": "manual"}, "manual"),
        ({"defaultVmBehavior": "partiallyAutomated"}, "partiallyAutomated"),
    ],
)
def test_a_cluster_whose_drs_moves_nothing_is_refused(cli, ledger, soap, level, shown):
    drs(soap, drsConfig=soap.vim.cluster.DrsConfigInfo(**level))
    before = ledger()
    assert cli("apply", cli.file(MOVING), "--yes") == 1
    assert "[rolling.drs]" in cli.out
    problems = cli.plan(cli.file(MOVING))["problems"]
    assert {p["rule"] for p in problems} == {"rolling.drs"}
    assert all({"gpu-a", shown} <= set(re.findall(r"[\w-]+", p["message"])) for p in problems)
    assert ledger() == before


def override(soap, operation, **info):
    made = soap.vim.cluster.DrsVmConfigInfo(key=soap.vm("train-02"), **info)
    drs(soap, drsVmConfigSpec=[soap.vim.cluster.DrsVmConfigSpec(operation=operation, info=made)])


@pytest.mark.parametrize(
    ("info", "shown"),
    [
        ({"enabled": False}, "disabled"),
        ({"behavior": "manual"}, "manual"),
    ],
)
def test_a_vm_with_an_automation_level_of_its_own_is_named(cli, ledger, soap, info, shown):
    override(soap, "add", **info)
    before = ledger()
    assert cli("apply", cli.file(MOVING), "--yes") == 1
    assert "[rolling.drs]" in cli.out
    (problem,) = cli.plan(cli.file(MOVING))["problems"]
    assert problem["rule"] == "rolling.drs"
    assert {"train-02", shown} <= set(re.findall(r"[\w-]+", problem["target"]["name"] + " " + problem["message"]))
    assert ledger() == before
    override(soap, "edit", enabled=True, behavior="fullyAutomated")
    assert cli("apply", cli.file(MOVING), "--yes") == 0, cli.out + cli.err


def test_a_vm_whose_networks_no_other_host_has_is_refused(make_lab, cli, monkeypatch):
    text = FARM.replace("esx[01:16]", "esx01").replace("vms:", NEIGHBOUR + "vms:").replace("[01:04]", "01")
    lab = make_lab(text)
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    assert cli("apply", cli.file(MOVING), "--yes") == 1
    assert "[rolling.nowhere]" in cli.out
    assert "dvpg-lan" in cli.out, "the network that is missing"
    assert lab.get("/lab/ledger")["entries"] == []


NEIGHBOUR = """  - name: esx02.lab.local
    cluster: gpu-a
"""


def test_running_vgpu_vms_are_listed_and_no_maintenance_task_is_started(cli, ledger):
    assert cli("apply", MISSION, "--yes") == 0
    done = ledger()
    play = "- hosts: esx01.lab.local\n  graphics: {default_type: shared}\n"
    for rolling, rule in (("", "rolling.evacuate"), ("  rolling: {evacuate: vmotion}\n", "rolling.pinned")):
        assert cli("apply", cli.file(play + rolling), "--yes") == 1
        assert f"[{rule}]" in cli.out
        problems = cli.plan(cli.file(play + rolling))["problems"]
        assert {p["rule"] for p in problems} == {rule}
        assert {"train-01", "train-02"} <= {p["target"]["name"] for p in problems}
    assert ledger() == done
