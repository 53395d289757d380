"""Destruction of sets on the lab: confirmed by a number, only members go, at every point of a run that is killed."""

from __future__ import annotations

import io
import signal

import pytest
from support.gates import until
from support.processes import Process, killed_at
from support.seeds import few
from support.vm_sets import play

pytestmark = pytest.mark.lab
TWO, ONE = play("train-[01:02]", nics=1), play("train-01", nics=1)
OTHERS = {"other-01", "ubuntu-22.04"}


class Terminal(io.StringIO):
    """Standard input of someone who types."""

    def isatty(self):
        return True


@pytest.fixture
def two(sets):
    sets.applied(TWO)
    return sets


def destroyed(sets):
    return sorted(e["object"] for e in sets.ledger(call="Destroy_Task") if e["object"].startswith("train"))


def test_yes_alone_destroys_nothing(two, cli):
    less = cli.file(ONE)
    assert two("apply", less, "--yes") == 64
    assert cli.error == "usage.destroy"
    assert two("apply", less, "--yes", "--destroy", 2) == 3
    assert cli.error == "destroy.other-number"
    plan = less.with_name("plan.json")
    assert two("plan", less, "--to", plan) == 0
    assert two("apply", plan) == 64, "a saved plan is no confirmation of this, either"
    assert two("apply", plan, "--yes") == 64
    assert destroyed(two) == []
    assert two("apply", plan, "--destroy", 1) == 0
    assert destroyed(two) == ["train-02"]


def test_a_number_for_a_plan_that_destroys_nothing_is_refused(sets, cli):
    assert sets("apply", cli.file(TWO), "--yes", "--destroy", 1) == 3
    assert sets.names == OTHERS


@pytest.mark.parametrize(("typed", "gone"), [("yes", []), ("2", []), ("1", ["train-02"])])
def test_only_the_number_of_vms_answers_the_question(two, cli, monkeypatch, typed, gone):
    monkeypatch.setattr("sys.stdin", Terminal(f"{typed}\n"))
    assert two("apply", cli.file(ONE)) == 0
    assert destroyed(two) == gone
    last = cli.out.partition("DESTROYED, WITH ALL DATA")[2].splitlines()[1]
    assert last.split() == ["-", "train-02", "[vsan-gpu]", "train-02/train-02.vmdk"], "right above the question"


@pytest.mark.parametrize("what", ["playbook", "set"])
def test_a_set_is_destroyed_and_nothing_else(two, cli, new_client, what):
    soap = new_client(two.lab)
    copy = soap.vim.vm.CloneSpec(location=soap.vim.vm.RelocateSpec(), powerOn=False, template=False)
    source = soap.vm("train-01")
    soap.wait(source.CloneVM_Task(source.parent, "copy", copy))
    soap.wait(soap.vm("train-02").Rename_Task("renamed"))
    soap.wait(soap.vm("other-01").Rename_Task("train-02"))
    given = cli.file(TWO) if what == "playbook" else "train"
    assert two("destroy", given, "--dry-run") == 0
    assert two("destroy", given, "--yes") == 64
    assert destroyed(two) == []
    assert two("destroy", given, "--yes", "--destroy", 2) == 0, cli.out + cli.err
    assert two.names == {"copy", "train-02", "ubuntu-22.04"}
    assert two.vms()["train-02"]["power"] == "poweredOn"
    assert two.addresses() == {}
    assert two("destroy", given, "--yes") == (0 if what == "playbook" else 64), "there is nothing left to destroy"


def test_a_limit_destroys_some_and_keeps_the_addresses_of_the_others(two, cli):
    held = two.addresses()
    assert two("destroy", "train", "--limit", "train-02", "--yes", "--destroy", 1) == 0
    assert destroyed(two) == ["train-02"]
    assert two.addresses() == held, "released with the whole set"
    assert two("destroy", "train", "--yes", "--destroy", 1) == 0
    assert two.addresses() == {}


def test_what_is_no_set_is_refused(two, cli):
    assert two("destroy", "trian", "--yes") == 64
    assert cli.error == "usage.no-set"
    assert "did you mean 'train'?" in cli.err
    assert two("destroy", "trian", "--dry-run") == 64
    assert two("destroy", "train", "--limit", "other-01", "--yes") == 64, "a limit that leaves nothing of the set"
    assert cli.error == "usage.limit"
    assert two("destroy", "no set") == 64
    assert two("destroy", cli.file("- hosts: all\n  ntp: {servers: [a.b]}\n")) == 64


POINTS = [
    r"train-02 +\[\d+/\d+\] shut down",
    r"train-02 +\[\d+/\d+\] shut down.* done",
    r"train-01 +\[\d+/\d+\] destroy,",
    r"train-02 +\[\d+/\d+\] destroy,.* done",
    r"DC0 +\[\d+/\d+\] release the addresses",
    r"DC0 +\[\d+/\d+\] release the addresses.* done",
]


@pytest.mark.parametrize("point", few(POINTS, 3))
@pytest.mark.parametrize("how", ["resume", "again"])
def test_a_destruction_that_is_killed_is_brought_to_its_end(two, cli, monkeypatch, tmp_path, point, how):
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path / "state"))
    killed_at(two.lab, point, "train", "--destroy", "2", inventory=two.inventory, command="destroy")
    if how == "resume":
        assert cli("resume") == 0, cli.out + cli.err
        assert "object.gone" not in cli.rules
    else:
        left = len([n for n in two.names if n.startswith("train")])
        assert two("destroy", "train", "--yes", "--destroy", left) in (0, 1), cli.out + cli.err
    assert two.names == OTHERS
    assert destroyed(two) == ["train-01", "train-02"], "each once"
    assert two.addresses() == {}


def state_of(sets):
    """Name, MAC addresses and generation of each VM of the set, by its number."""
    soap = sets.client
    found = {}
    for name in sorted(n for n in sets.names if n.startswith("train")):
        config = soap.vm(name).config
        settings = {o.key: o.value for o in config.extraConfig}
        macs = [d.macAddress for d in config.hardware.device if hasattr(d, "macAddress")]
        found[int(settings["vsphere-ai.index"])] = (name, tuple(macs), int(settings["vsphere-ai.generation"]))
    return found


def replaced(sets, before):
    """The second VM is another one with all that it had; the first one is as it was."""
    now = state_of(sets)
    assert now == {1: before[1], 2: (*before[2][:2], 2)}
    assert destroyed(sets) == ["train-02"]
    assert len(sets.ledger("train-02", "CloneVM_Task")) == 2
    assert sets.vms()["train-02"]["power"] == "poweredOn"


@pytest.fixture
def known(two, new_client):
    two.client = new_client(two.lab)
    two.held, two.before = two.addresses(), state_of(two)
    return two


def test_a_vm_is_replaced_by_one_with_the_same_addresses(known, cli):
    playbook = cli.file(TWO)
    assert known("replace", playbook, "train-02", "--yes") == 64
    assert known("replace", playbook, "train-03", "--yes", "--destroy", 1) == 64
    assert cli.error == "usage.no-member"
    assert known("replace", playbook, "train-02", "--yes", "--destroy", 1) == 0, cli.out + cli.err
    replaced(known, known.before)
    assert known.addresses() == known.held
    assert known("plan", playbook, "--detailed-exitcode") == 0


AT = [
    r"generation 1\) +\[\d+/\d+\] destroy,",
    r"generation 1\) +\[\d+/\d+\] destroy,.* done",
    r"train-02 +\[\d+/\d+\] clone",
    r"train-02 +\[\d+/\d+\] clone.* done",
    r"train-02 +\[\d+/\d+\] power on",
    r"train-02 +\[\d+/\d+\] wait until the guest is ready",
]


@pytest.mark.parametrize("point", few(AT, 3))
def test_a_replacement_that_is_killed_makes_no_vm_twice(known, cli, monkeypatch, tmp_path, point):
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path / "state"))
    playbook = cli.file(TWO)
    killed_at(known.lab, point, playbook, "train-02", "--destroy", "1", inventory=known.inventory, command="replace")
    assert cli("resume") == 0, cli.out + cli.err
    replaced(known, known.before)
    assert known.addresses() == known.held
    assert known("plan", playbook, "--detailed-exitcode") == 0, cli.out


def test_after_a_replacement_that_was_cut_off_apply_makes_the_vm_again(known, cli, monkeypatch, tmp_path):
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path / "state"))
    playbook = cli.file(TWO)
    killed_at(known.lab, AT[1], playbook, "train-02", "--destroy", "1", inventory=known.inventory, command="replace")
    assert known("apply", playbook, "--yes") in (0, 1)
    assert set(state_of(known)) == {1, 2}
    assert known.addresses() == known.held
    assert cli("resume", "--yes") in (0, 1, 64), "it may be over, or asks; it destroys nothing without a number"
    assert destroyed(known) == ["train-02"]


def linked(soap, source, name):
    """A linked clone of a snapshot of a VM, made by someone else."""
    vm = soap.vm(source)
    soap.wait(vm.CreateSnapshot_Task("base", "", False, False))
    place = soap.vim.vm.RelocateSpec(diskMoveType="createNewChildDiskBacking")
    spec = soap.vim.vm.CloneSpec(location=place, powerOn=False, template=False, snapshot=vm.snapshot.currentSnapshot)
    soap.wait(vm.CloneVM_Task(vm.parent, name, spec))


def test_a_vm_whose_disks_others_go_on_from_stays(known, cli):
    linked(known.client, "train-02", "child")
    assert known("destroy", "train", "--yes", "--destroy", 2, "-o", "json") == 1
    assert "child" in cli.err + cli.out
    assert destroyed(known) == []
    assert known("destroy", "train", "--limit", "train-01", "--yes", "--destroy", 1) == 0, "which has no children"
    known.client.wait(known.client.vm("child").Destroy_Task())
    assert known("destroy", "train", "--yes", "--destroy", 1) == 0, "a snapshot alone is no obstacle"
    assert known.names == OTHERS
    assert known.addresses() == {}


def test_a_clone_under_way_is_waited_for_before_its_set_is_destroyed(known, cli, monkeypatch, tmp_path):
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path / "state"))
    known.lab.post("/lab/faults", {"rules": "- {on: CloneVM_Task, nth: 1, do: {task-stuck: 20}}"})
    run = Process(known.lab, "apply", "-i", known.inventory, cli.file(play("train-[01:03]", nics=1)), "--yes")
    until(lambda: known.lab.get("/lab/faults")["fired"])
    run.send(signal.SIGKILL)
    run.wait()
    assert known("destroy", "train", "--yes", "--destroy", 2, "-o", "json") == 1
    assert "ubuntu-22.04" in cli.err
    assert known("destroy", "train", "--dry-run") == 1
    assert "[vm_set.clone-running]" in cli.out
    assert destroyed(known) == []
    known.lab.post("/lab/faults/release", {"rule": 1})
    until(lambda: "train-03" in known.names)
    assert known("destroy", "train", "--yes", "--destroy", 3) in (0, 1)
    assert known.names == OTHERS
    assert known.addresses() == {}


def add_disk(soap, name):
    device = soap.vim.vm.device
    backing = device.VirtualDisk.FlatVer2BackingInfo(fileName="", diskMode="persistent", thinProvisioned=True)
    disk = device.VirtualDisk(key=-1, controllerKey=1000, unitNumber=5, capacityInKB=1 << 20, backing=backing)
    change = device.VirtualDeviceSpec(operation="add", fileOperation="create", device=disk)
    soap.wait(soap.vm(name).ReconfigVM_Task(soap.vim.vm.ConfigSpec(deviceChange=[change])))


def test_a_disk_that_came_after_the_approval_is_asked_about(known, cli, monkeypatch, tmp_path):
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path / "state"))
    killed_at(known.lab, POINTS[0], cli.file(ONE), "--destroy", "1", inventory=known.inventory)
    add_disk(known.client, "train-02")
    assert cli("resume", "--yes") == 64
    assert cli.error == "usage.destroy"
    assert "run.not-approved" in cli.rules
    assert destroyed(known) == []
    assert cli("resume", "--yes", "--destroy", 1) == 0, cli.out + cli.err
    assert destroyed(known) == ["train-02"]


def test_a_vm_that_was_powered_on_again_is_shut_down_first(known, cli, monkeypatch, tmp_path):
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path / "state"))
    known.lab.post("/lab/faults", {"rules": "- {on: Destroy_Task, nth: 1, do: hold}"})
    run = Process(known.lab, "apply", "-i", known.inventory, cli.file(ONE), "--yes", "--destroy", 1)
    until(lambda: known.lab.get("/lab/faults")["fired"])
    known.client.wait(known.client.vm("train-02").PowerOnVM_Task())
    known.lab.post("/lab/faults/release", {"rule": 1})
    assert run.wait() != 0
    assert destroyed(known) == []
    assert known.addresses() == known.held, "released only when the VM is gone"
    assert cli("resume") == 0, cli.out + cli.err
    assert destroyed(known) == ["train-02"]
    assert len(known.addresses()) == len(known.held) - 1


def foreign_disk(known, cli):
    """Attach the disk of another VM to a member, which is then refused; return its file."""
    soap = known.client
    soap.wait(soap.vm("other-01").PowerOffVM_Task())
    device = soap.vim.vm.device
    theirs = next(d for d in soap.vm("other-01").config.hardware.device if isinstance(d, device.VirtualDisk))
    backing = device.VirtualDisk.FlatVer2BackingInfo(fileName=theirs.backing.fileName, diskMode="persistent")
    disk = device.VirtualDisk(key=-1, controllerKey=1000, unitNumber=5, capacityInKB=theirs.capacityInKB)
    disk.backing = backing
    change = device.VirtualDeviceSpec(operation="add", device=disk)
    soap.wait(soap.vm("train-02").ReconfigVM_Task(soap.vim.vm.ConfigSpec(deviceChange=[change])))
    name = theirs.backing.fileName
    assert known("destroy", "train", "--yes", "--destroy", 2) == 1
    assert "[vm_set.foreign-disk]" in cli.out
    assert name in cli.out
    assert destroyed(known) == []
    return name


def deleted(sets):
    """The files of disks that went with VMs."""
    return {disk for e in sets.ledger(call="Destroy_Task") for disk in e["detail"].get("disks", ())}


def test_a_disk_of_another_vm_keeps_a_member_from_being_destroyed(known, cli):
    name, soap = foreign_disk(known, cli), known.client
    attached = soap.vm("train-02").config.hardware.device
    device = soap.vim.vm.device
    own = next(d for d in attached if isinstance(d, device.VirtualDisk) and d.backing.fileName == name)
    change = device.VirtualDeviceSpec(operation="remove", device=own)
    soap.wait(soap.vm("train-02").ReconfigVM_Task(soap.vim.vm.ConfigSpec(deviceChange=[change])))
    assert known("destroy", "train", "--yes", "--destroy", 2) == 0
    assert deleted(known)
    assert name not in deleted(known)


def test_a_disk_of_another_vm_is_detached_first_on_request(known, cli):
    name = foreign_disk(known, cli)
    assert known("destroy", "train", "--detach-disks", "--dry-run") == 0, cli.out
    last = cli.out.partition("DESTROYED, WITH ALL DATA")[2]
    assert f"{name}  is detached first, and stays" in last
    before = len(known.ledger("train-02", "ReconfigVM_Task"))
    assert known("destroy", "train", "--detach-disks", "--yes", "--destroy", 2) == 0, cli.out + cli.err
    assert f"detached, not deleted: {name}" in cli.out
    (sent,) = known.ledger("train-02", "ReconfigVM_Task")[before:]
    assert [d["operation"] for d in sent["detail"]["devices"]] == ["remove"]
    assert destroyed(known) == ["train-01", "train-02"]
    assert deleted(known)
    assert name not in deleted(known)
    known.client.wait(known.client.vm("other-01").PowerOnVM_Task())


@pytest.mark.parametrize("fault", ["ReconfigVM_Task", "Destroy_Task"])
def test_a_detachment_that_is_killed_is_brought_to_its_end(known, cli, monkeypatch, tmp_path, fault):
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path / "state"))
    name = foreign_disk(known, cli)
    known.lab.post("/lab/faults", {"rules": f"- {{on: {fault}, nth: 1, do: hold}}"})
    more = ("train", "--limit", "train-02", "--detach-disks", "--yes", "--destroy", 1)
    run = Process(known.lab, "destroy", "-i", known.inventory, *more)
    until(lambda: known.lab.get("/lab/faults")["fired"])
    run.send(signal.SIGKILL)
    run.wait()
    known.lab.post("/lab/faults/release", {"rule": 1})
    assert cli("resume") == 0, cli.out + cli.err
    assert destroyed(known) == ["train-02"]
    assert name not in deleted(known)


def test_a_disk_in_a_snapshot_is_not_detached(known, cli):
    name, soap = foreign_disk(known, cli), known.client
    soap.wait(soap.vm("train-02").CreateSnapshot_Task("base", "", False, False))
    assert known("destroy", "train", "--detach-disks", "--yes", "--destroy", 2) == 1
    assert "[vm_set.detach-snapshot]" in cli.out
    assert known("destroy", "train", "--yes", "--destroy", 2) == 1
    assert "[vm_set.foreign-disk]" in cli.out, "also where only its parent is elsewhere"
    assert destroyed(known) == []
    disks = [d.backing for d in soap.vm("train-02").config.hardware.device if hasattr(d, "capacityInKB")]
    assert name in {b.parent.fileName for b in disks if b.parent}
