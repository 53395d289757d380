"""Tasks that fail, stand still or vanish, VMs and hosts that go away: named, never cancelled, and the rest goes on."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from importlib import resources

import pytest
from support import every_kind
from support.bookkeeping import is_bookkeeping
from support.gates import LONG, busy
from support.places import INVENTORY, PLAYBOOKS
from support.seeds import FULL

from vsphere_ai.connect import vcenter
from vsphere_ai.connect.soap import task_monitor
from vsphere_ai.execution.actions.context import Context
from vsphere_ai.execution.actions.executor import StepExecutor

pytestmark = pytest.mark.lab
PLAY = PLAYBOOKS / "pvrdma-only.yml"
VM = "train-02"

ENDS = {
    "InvalidState": 1,
    "InvalidPowerState": 1,
    "InvalidArgument": 1,
    "NoPermission": 4,
    "NotSupported": 1,
    "HostNotConnected": 1,
    "InsufficientResourcesFault": 1,
    "GenericVmConfigFault": 1,
    "FileLocked": 1,
    "Timedout": 1,
    "SystemError": 1,
    "RequestCanceled": 1,
}


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr("vsphere_ai.execution.actions.executor.LOST_CALL", 1.5)
    monkeypatch.setattr("vsphere_ai.execution.actions.executor.BUSY_PAUSE", 0.2)


@pytest.mark.parametrize("fault", ENDS if FULL else list(ENDS)[::3])
def test_a_task_that_fails_is_one_line_and_the_others_go_on(lab, cli, farm, fault):
    lab.set_faults(f"- {{on: ReconfigVM_Task, target: {VM}, do: {{task-fails: {fault}}}}}\n")
    assert cli.run("apply", PLAY, "--yes") == ENDS[fault], cli.out + cli.err
    (failed,) = [e for e in cli.events if e["what"] == "failed"]
    assert failed["target"]["name"] == VM
    assert f"{fault}, as a fault of the lab demands." in failed["text"]
    assert "Traceback" not in cli.out + cli.err
    now = farm()["vms"]
    assert now[VM]["pvrdma"] == []
    assert now[VM]["power"] == "poweredOn", "it is put back"
    assert all(len(now[f"train-0{n}"]["pvrdma"]) == 1 for n in (1, 3, 4))


@pytest.mark.parametrize("fault", ["TaskInProgress", "HostCommunication", "ConcurrentAccess"])
def test_what_passes_is_tried_again(lab, cli, ledger, fault):
    lab.set_faults(f"- {{on: ReconfigVM_Task, target: {VM}, nth: 1, do: {{task-fails: {fault}}}}}\n")
    assert cli("apply", PLAY, "--yes") == 0, cli.out + cli.err
    assert len(ledger(VM, "ReconfigVM_Task")) == 1


@pytest.mark.parametrize("where", ["20", "queued"])
def test_a_task_that_stands_still_is_noticed_and_given_up_but_never_cancelled(lab, cli, ledger, monkeypatch, where):
    monkeypatch.setattr("vsphere_ai.execution.actions.task_progress.STALL", 0.8)
    monkeypatch.setattr("vsphere_ai.execution.actions.context.TASK_TIMEOUT", 3)
    monkeypatch.setattr(Context.task, "__defaults__", (3,))
    monkeypatch.setattr(task_monitor, "_WAKE_S", 1)
    lab.set_faults(f"- {{on: ReconfigVM_Task, target: {VM}, do: {{task-stuck: {where}}}}}\n")
    begun = time.monotonic()
    assert cli.run("apply", PLAY, "--yes") == 9, cli.out + cli.err
    assert time.monotonic() - begun < 100 * busy()
    noticed = [e["text"] for e in cli.events if e.get("rule") == "run.notice"]
    assert any("20%" in text for text in noticed) == (where == "20"), noticed
    assert all(VM in text for text in noticed)
    assert noticed
    assert cli.outcomes("unknown") == {(VM, "outcome.unknown")}
    assert ("off", VM) in cli.pending(), "it is not powered on under a running task"
    assert any(line.startswith(VM) for line in cli.summary["open"])
    assert len(lab.get("/lab/faults")["fired"]) == 1, "sent again while the first one still runs"
    lab.clear_faults()
    end = time.monotonic() + LONG
    while not ledger(VM, "ReconfigVM_Task"):  # nobody cancelled it
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_task_that_vanishes_is_looked_for_by_its_effect(lab, cli, ledger):
    lab.set_faults(f"- {{on: ReconfigVM_Task, target: {VM}, nth: 1, do: task-gone}}\n")
    assert cli("apply", PLAY, "--yes") == 0, cli.out + cli.err
    assert len(ledger(VM, "ReconfigVM_Task")) == 1


# -- objects that change under a run


def before_reconfigure(monkeypatch, act):
    do = StepExecutor.do

    def act_then_do(self, step, *more):
        if type(step).__name__ == "Reconfigure" and step.target.name == VM:
            act()
        return do(self, step, *more)

    monkeypatch.setattr(StepExecutor, "do", act_then_do)


def test_a_vm_that_is_unregistered_is_a_conflict_of_its_own(cli, soap, farm, monkeypatch):
    before_reconfigure(monkeypatch, lambda: soap.vm(VM).UnregisterVM())
    assert cli.run("apply", PLAY, "--yes") == 3, cli.out + cli.err
    assert cli.failed == {(VM, "object.gone")}
    assert all(len(farm()["vms"][f"train-0{n}"]["pvrdma"]) == 1 for n in (1, 3, 4)), "others go on"


def test_a_vm_that_is_renamed_is_still_the_one_that_was_planned(cli, soap, farm, monkeypatch):
    def rename():
        spec = soap.vim.vm.ConfigSpec(name="renamed")
        soap.wait(soap.vm(VM).ReconfigVM_Task(spec))

    before_reconfigure(monkeypatch, rename)
    assert cli("apply", PLAY, "--yes") == 0, cli.out + cli.err
    assert len(farm()["vms"]["renamed"]["pvrdma"]) == 1


def test_a_host_that_is_disconnected_fails_alone(lab, cli, soap, farm, monkeypatch):
    monkeypatch.setattr(vcenter, "DEFAULTS", replace(vcenter.DEFAULTS, backoff=0.1))
    lab.set_faults("- {on: ReconfigVM_Task, target: train-03, do: {fault: HostNotConnected}}\n")
    assert cli.run("apply", PLAY, "--yes") == 1, cli.out + cli.err
    assert cli.failed == {("train-03", "fault.HostNotConnected")}
    assert all(len(farm()["vms"][f"train-0{n}"]["pvrdma"]) == 1 for n in (1, 2, 4))


# -- privileges, one missing at a time

MISSION = (
    "Host.Config.Settings",
    "Host.Config.Maintenance",
    "Host.Config.NetService",
    "Host.Config.AdvancedConfig",
    "VirtualMachine.Config.AddRemoveDevice",
    "VirtualMachine.Config.Resource",
    "VirtualMachine.Config.AdvancedConfig",
    "VirtualMachine.Config.UpgradeVirtualHardware",
    "VirtualMachine.Interact.PowerOn",
    "VirtualMachine.Interact.PowerOff",
    "Network.Assign",
    "Folder.Create",
    "Folder.Delete",
    "Global.ManageCustomFields",
    "Global.SetCustomField",
)
EVERY_KIND = (
    "DVPortgroup.Create",
    "DVPortgroup.Modify",
    "DVSwitch.Create",
    "DVSwitch.Modify",
    "DVSwitch.ResourceManagement",
    "Host.Config.DateTime",
    "Host.Config.Image",
    "Host.Config.Network",
    "Host.Config.PciPassthru",
    "Host.Config.Power",
    "VirtualMachine.Config.CPUCount",
)
ADAPTERS = "- vms: train-04\n  adapters: [{port_group: dvpg-lan, shares: high}]\n  tuning: {numa_affinity: [0]}\n"
NEEDED = [
    *((privilege, "mission") for privilege in MISSION),
    *((privilege, "every kind") for privilege in EVERY_KIND),
    ("VirtualMachine.Config.EditDevice", "adapters"),
]


@pytest.fixture
def books(cli):
    """Playbooks by what they are for; what each takes, an account that has everything is told."""
    every = cli.file(every_kind.TOGETHER_AND_NEW, "every.yml")
    return {"mission": PLAYBOOKS / "ai-ready-cluster.yml", "every kind": every, "adapters": cli.file(ADAPTERS)}


def permissions(cli, book):
    """Exit code and needs of `doctor --permissions`."""
    code = cli("doctor", "--permissions", book, "-i", INVENTORY, "-o", "json")
    return code, json.loads(cli.out)["privileges"]


def test_every_privilege_is_asked_for(lab, cli, books):
    found = set()
    for book in books.values():
        code, needs = permissions(cli, book)
        assert code == 0, cli.out + cli.err
        assert all(need["granted"] for need in needs)
        found |= {need["privilege"] for need in needs}
    assert found - {"System.Read", "System.View"} == {privilege for privilege, _ in NEEDED}


@pytest.mark.parametrize(("privilege", "book"), NEEDED if FULL else NEEDED[::10])
def test_a_missing_privilege_is_named_before_anything_is_changed(make_lab, cli, books, monkeypatch, privilege, book):
    scenario = resources.files("vsphere_ai.lab").joinpath("scenarios", "default.yml").read_text(encoding="utf-8")
    lab = make_lab(f"{scenario}\nprivileges_denied: [{privilege}]\n")
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    code, needs = permissions(cli, books[book])
    assert code == 4, cli.out + cli.err
    assert {need["privilege"] for need in needs if not need["granted"]} == {privilege}
    assert lab.get("/lab/ledger")["entries"] == []
    for command in (("plan",), ("apply", "--yes")):
        assert cli(*command, books[book]) == 4, cli.out + cli.err
    found = [p["message"] for p in cli.plan(books[book])["problems"] if p["rule"] == "account.privileges"]
    assert found
    assert all(re.search(rf"\b{re.escape(privilege)}\b", message) for message in found), found
    assert lab.get("/lab/ledger")["entries"] == [], "it was found out only in the middle"


def test_what_could_not_be_planned_is_not_called_granted(make_lab, cli, monkeypatch):
    """SSH is stopped, as on hardened hosts: nobody knows what MIG has to change there."""
    scenario = resources.files("vsphere_ai.lab").joinpath("scenarios", "default.yml").read_text(encoding="utf-8")
    stopped, count = re.subn(r"&ssh \{running: true", "&ssh {running: false", scenario)
    assert count
    play = cli.file(
        "- hosts: gpu_hosts\n  mig: {layout: [3g.20gb, 2g.10gb, 1g.5gb, 1g.5gb]}\n"
        "  rolling: {evacuate: power_off, max_unavailable: 1}\n"
    )
    lab = make_lab(stopped)
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    code, needs = permissions(cli, play)
    assert code == 1, cli.out + cli.err
    assert json.loads(cli.out)["complete"] is False
    denied = {"Host.Config.NetService", "Host.Config.Maintenance", "VirtualMachine.Interact.PowerOff"}
    assert denied <= {need["privilege"] for need in needs if need["granted"]}
    lab = make_lab(f"{stopped}\nprivileges_denied: [{', '.join(denied)}]\n")
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    code, needs = permissions(cli, play)
    assert code == 4, cli.out + cli.err
    assert denied <= {need["privilege"] for need in needs if not need["granted"]}
    assert cli("apply", play, "--yes") == 4, cli.out + cli.err
    assert "StartService on esx01.lab.local" in cli.out, cli.out
    assert all(map(is_bookkeeping, lab.get("/lab/ledger")["entries"]))
