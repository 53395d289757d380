"""Somebody else changes the same VM at every possible moment: what they did is never overwritten."""

from __future__ import annotations

import threading
from collections import Counter

import pytest
from support.places import PLAYBOOKS
from support.seeds import by_level

from vsphere_ai.execution.actions.configure import ConfigureChanges
from vsphere_ai.execution.actions.context import Context

pytestmark = pytest.mark.lab
PLAY = PLAYBOOKS / "pvrdma-only.yml"
VM = "train-02"
RUNS = by_level(2, 25)


@pytest.fixture
def foreign(soap):
    """Change a VM through a client of our own: `foreign.annotate("x")`, `foreign.adapter()`, `foreign.unlock()`."""
    return Foreign(soap)


class Foreign:
    def __init__(self, soap):
        self.soap, self.vim = soap, soap.vim
        self.vm = soap.vm(VM)
        self.guard = threading.Lock()

    def reconfigure(self, **fields):
        with self.guard:
            self.soap.wait(self.vm.ReconfigVM_Task(self.vim.vm.ConfigSpec(**fields)))

    def annotate(self, text):
        self.reconfigure(annotation=text)

    def adapter(self):
        """Add the very adapter the playbook wants."""
        device = self.vim.vm.device
        group = self.soap.find(self.vim.dvs.DistributedVirtualPortgroup, "dvpg-rdma")
        port = self.vim.dvs.PortConnection(
            portgroupKey=group.key, switchUuid=group.config.distributedVirtualSwitch.uuid
        )
        card = device.VirtualVmxnet3Vrdma(
            key=-7, deviceProtocol="rocev2",
            backing=device.VirtualEthernetCard.DistributedVirtualPortBackingInfo(port=port),
            connectable=device.VirtualDevice.ConnectInfo(startConnected=True, allowGuestControl=True, connected=False),
            addressType="assigned",
        )  # fmt: skip
        self.reconfigure(deviceChange=[device.VirtualDeviceSpec(operation="add", device=card)],
                         memoryReservationLockedToMax=True)  # fmt: skip

    def cards(self):
        return [d for d in self.vm.config.hardware.device if isinstance(d, self.vim.vm.device.VirtualVmxnet3Vrdma)]


def after_reading(monkeypatch, act, *, times=1):
    """Let `act` happen after the VM was read and before it is reconfigured, the first `times` times."""
    read, count = ConfigureChanges._version, Counter()

    def read_then_act(self, step):
        version = read(self, step)
        if step.target.name == VM and count["acts"] < times:
            count["acts"] += 1
            act()
        return version

    monkeypatch.setattr(ConfigureChanges, "_version", read_then_act)
    return count


@pytest.mark.parametrize("run", range(RUNS))
@pytest.mark.parametrize("times", [1, 3])
def test_a_change_of_something_else_is_kept_and_ours_is_made_once(
    lab, cli, ledger, foreign, farm, monkeypatch, times, run
):
    count = after_reading(monkeypatch, lambda: foreign.annotate(f"kept {count['acts']}"), times=times)
    assert cli("apply", PLAY, "--yes") == 0, cli.out + cli.err
    assert foreign.vm.config.annotation == f"kept {times}"
    ours = [e for e in ledger(VM, "ReconfigVM_Task") if e["operation"]]
    assert len(ours) == 1
    assert len(farm()["vms"][VM]["pvrdma"]) == 1


def test_somebody_who_never_stops_is_given_way(cli, ledger, foreign, farm, monkeypatch):
    count = after_reading(monkeypatch, lambda: foreign.annotate(f"kept {count['acts']}"), times=100)
    assert cli.run("apply", PLAY, "--yes") == 3, cli.out + cli.err
    assert cli.failed == {(VM, "object.keeps-changing")}
    assert count["acts"] == 4
    assert foreign.vm.config.annotation == "kept 4"
    assert farm()["vms"][VM]["pvrdma"] == []
    assert farm()["vms"][VM]["power"] == "poweredOn", "it is put back"
    assert all(len(farm()["vms"][f"train-0{n}"]["pvrdma"]) == 1 for n in (1, 3, 4)), "others go on"


@pytest.mark.parametrize("run", range(RUNS))
@pytest.mark.parametrize("change", ["adapter", "locked"])
def test_a_change_of_the_same_thing_is_refused_and_shown(cli, ledger, foreign, farm, monkeypatch, change, run):
    acts = {"adapter": foreign.adapter, "locked": lambda: foreign.reconfigure(memoryReservationLockedToMax=True)}
    after_reading(monkeypatch, acts[change])
    assert cli.run("apply", PLAY, "--yes") == 3, cli.out + cli.err
    assert cli.failed == {(VM, "object.changed")}
    shown = {"adapter": "VirtualVmxnet3Vrdma", "locked": "memoryReservationLockedToMax"}
    assert shown[change] in cli.text("object.changed")
    assert not [e for e in ledger(VM, "ReconfigVM_Task") if e["operation"]], "ours was made all the same"
    assert len(foreign.cards()) == (change == "adapter")
    assert cli("apply", PLAY, "--yes") == 0, "planned again, it goes on from what is there"
    assert len(foreign.cards()) == 1


def test_a_change_before_the_vm_is_read_again_is_seen_as_well(cli, ledger, foreign, monkeypatch):
    read = ConfigureChanges._version

    def act_then_read(self, step):
        if step.target.name == VM:
            foreign.adapter()
        return read(self, step)

    monkeypatch.setattr(ConfigureChanges, "_version", act_then_read)
    assert cli.run("apply", PLAY, "--yes") == 3, cli.out + cli.err
    assert cli.failed == {(VM, "object.changed")}
    assert "VirtualVmxnet3Vrdma" in cli.text("object.changed")
    assert len(foreign.cards()) == 1


def test_a_stale_saved_plan_is_refused_with_the_difference(cli, ledger, foreign, tmp_path):
    foreign.soap.wait(foreign.vm.PowerOffVM_Task())
    saved = tmp_path / "plan.json"
    assert cli("plan", PLAY, "--to", saved) == 0
    foreign.adapter()
    mine = len(ledger())
    assert cli("apply", saved) == 3
    assert cli.error == "plan.stale"
    assert VM in cli.err
    assert len(ledger()) == mine


def test_a_change_after_ours_is_found_when_reading_back(cli, ledger, foreign, farm, monkeypatch):
    task, seen = Context.task, []

    def then_undo(self, target, method, *more):
        task(self, target, method, *more)
        if target.name == VM and method == "ReconfigVM_Task":
            seen.append(1)
            (card,) = foreign.cards()
            spec = foreign.vim.vm.device.VirtualDeviceSpec(operation="remove", device=card)
            foreign.reconfigure(deviceChange=[spec])

    monkeypatch.setattr(Context, "task", then_undo)
    monkeypatch.setattr("vsphere_ai.execution.actions.waits.READ_BACK_VM", 1)
    assert cli.run("apply", PLAY, "--yes") == 1, cli.out + cli.err
    assert seen == [1]
    assert cli.failed == {(VM, "step.not-verified")}
    assert foreign.cards() == [], "the foreign change stays"


def test_a_change_of_graphics_by_somebody_else_is_not_overwritten(cli, ledger, soap, monkeypatch):
    from vsphere_ai.execution.actions.executor import StepExecutor

    do = StepExecutor.do

    def act_then_do(self, step, *more):
        if getattr(step, "method", "") == "UpdateGraphicsConfig" and step.target.name == "esx01.lab.local":
            manager = soap.host("esx01").configManager.graphicsManager
            config = manager.graphicsConfig
            config.sharedPassthruAssignmentPolicy = "consolidation"
            manager.UpdateGraphicsConfig(config)
        return do(self, step, *more)

    monkeypatch.setattr(StepExecutor, "do", act_then_do)
    assert cli.run("apply", PLAYBOOKS / "ai-ready-cluster.yml", "--yes") == 3, cli.out + cli.err
    assert cli.failed == {("esx01.lab.local", "object.changed")}
    assert "graphicsConfig" in cli.text("object.changed")
    assert len(ledger("esx01.lab.local", "UpdateGraphicsConfig")) == 1


def test_every_change_is_marked_with_the_run_and_its_step(cli, ledger):
    assert cli("apply", PLAY, "--yes") == 0
    cli("run", "list")
    run = cli.out.split()[0]
    names = [e["operation"] for e in ledger() if e["channel"] == "soap"]
    assert names
    assert all(name.startswith(f"{run}-s") for name in names), names
    assert len(set(names)) == len(names)
