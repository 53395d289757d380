"""Sets of VMs and several people: two runs at once, plans that are old, a run that is stopped, a farm that changes."""

from __future__ import annotations

import signal

import pytest
from reliability.conftest import farm
from reliability.harness import Tool
from reliability.vm_sets import World
from support.gates import until
from support.vm_sets import FARM, play

CARD = ("{name: mgmt, port_group: dvpg-lan, addresses: mgmt}",)
NAMES = ("train-01", "train-02", "train-03")


@pytest.fixture(scope="module")
def small(tool, tmp_path_factory):
    folder = tmp_path_factory.mktemp("operators")
    (folder / "farm.yml").write_text(FARM, encoding="utf-8")
    with farm(folder / "lab", folder / "farm.yml") as lab:
        made = World(lab, tool, folder)
        made.three = made.book(play("train-[01:03]", cards=CARD), "three.yml")
        made.one = made.book(play("train-01", cards=CARD), "one.yml")
        yield made


@pytest.fixture
def world(small, monkeypatch):
    """The farm as it was at the start."""
    small.lab.post("/lab/reset")
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(small.lab.directory))
    yield small
    small.lab.clear_faults()


@pytest.fixture
def other(world, monkeypatch, tmp_path):
    """Run a command on another machine, also while one goes on here."""
    (tmp_path / "said").mkdir()
    tool = Tool(tmp_path / "said")

    def run(command, *given):
        with monkeypatch.context() as patch:
            patch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path / "other"))
            return tool(command, "-i", world.inventory, *given)

    yield run
    tool.close()


def held(world, playbook, call="CloneVM_Task", nth=1):
    """Start to apply; it waits in its `nth` call of this."""
    world.lab.set_faults([{"on": call, "nth": nth, "do": "hold"}])
    going = world.tool.start("apply", "-i", world.inventory, playbook, "--yes")
    until(lambda: world.lab.get("/lab/faults")["fired"])
    return going


def released(world, going):
    world.lab.post("/lab/faults/release", {"rule": 1})
    return going.wait()


def test_two_runs_at_once_make_each_vm_once_and_share_no_address(world, other):
    """The same set, then another one out of the same pool: the later run is refused, and does it when it is free."""
    rest = world.book(play("other-set-[01:07]", name="other-set", cards=CARD), "rest.yml")
    saved = world.folder / "rest.json"
    assert other("plan", rest, "--to", saved).code == 0
    going = held(world, world.three)
    assert other("apply", world.three, "--yes").code == 7
    assert other("apply", rest, "--yes").code == 7
    assert released(world, going).code == 0
    assert other("apply", saved).code == 3, "its addresses are taken by now"
    assert other("apply", world.three, "--yes").code == 0
    assert other("apply", rest, "--yes").code == 0
    assert (
        sum(n for (_, call), n in (world.effects() + world.effects("other-set")).items() if call == "CloneVM_Task")
        == 10
    )
    both = world.book(world.three.read_text() + rest.read_text(), "both.yml")
    names = (*NAMES, *(f"other-set-{n:02d}" for n in range(1, 8)))
    world.judge(both, names, sets=("train", "other-set"), nics=1)
    one_more = world("plan", world.book(play("more-01", name="more", cards=CARD)))
    assert (one_more.code, "[addresses.no-room]" in one_more.text) == (1, True), "the pool is exactly full"


def test_without_the_lock_in_vcenter_nothing_is_leased(world):
    ended = world("apply", world.one, "--yes", "--lock", "local")
    said = "[lock.none]" in ended.text or "leases are only written under" in ended.text
    assert (ended.code, said) == (7, True), ended.text
    assert (world.effects(), world.leases()) == ({}, [])


@pytest.mark.parametrize("times", [1, 2])
def test_a_run_that_is_interrupted_while_it_clones_says_how_far_it_is(world, times):
    going = held(world, world.three, nth=2)
    for _ in range(times):
        going.signal(signal.SIGINT)
        until(lambda: "stopping" in going.out.read_text(encoding="utf-8"))
    ended = released(world, going)
    assert ended.code == 130, ended.text
    assert "vsphere-ai resume" in ended.text
    again = world.tool("resume")
    assert again.code == 0, again.text
    assert {o: n for (o, call), n in world.effects().items() if call == "CloneVM_Task"} == dict.fromkeys(NAMES, 1)
    world.judge(world.three, NAMES, again.text, nics=1)


def test_without_a_terminal_nothing_is_done_that_was_not_confirmed(world):
    assert world("apply", world.three).code == 64
    assert world.effects() == {}
    assert world("apply", world.three, "--yes").code == 0
    before = world.effects()
    for given in (("apply", world.one), ("destroy", world.three)):
        assert world(*given).code == 64
        assert world(*given, "--yes", "--destroy", 0).code == 3
    assert world.effects() == before
    world.judge(world.three, NAMES, nics=1)


def gone(soap):
    soap.vm("ubuntu-22.04").UnregisterVM()


def full(soap):
    """A VM takes what is free on the datastore."""
    store = soap.vm("ubuntu-22.04").datastore[0]
    vim = soap.vim
    size = store.summary.freeSpace // 1024 - (1 << 20)
    backing = vim.vm.device.VirtualDisk.FlatVer2BackingInfo(fileName="", diskMode="persistent", thinProvisioned=False)
    disk = vim.vm.device.VirtualDisk(key=-1, controllerKey=1000, unitNumber=5, capacityInKB=size, backing=backing)
    change = vim.vm.device.VirtualDeviceSpec(operation="add", fileOperation="create", device=disk)
    soap.wait(soap.vm("other-01").ReconfigVM_Task(vim.vm.ConfigSpec(deviceChange=[change])))


def maintained(soap):
    soap.wait(soap.vm("other-01").PowerOffVM_Task())
    for name in ("esx01", "esx02"):
        soap.wait(soap.host(name).EnterMaintenanceMode_Task(5))


def no_port_group(soap):
    soap.wait(soap.find(soap.vim.dvs.DistributedVirtualPortgroup, "dvpg-storage").Destroy_Task())


CHANGES = {
    "template gone": (gone, "[vm_set.not-found]"),
    "datastore full": (full, "[vm_set.no-space]"),
    "hosts in maintenance": (maintained, ""),
    "port group gone": (no_port_group, "[vm_set.no-port-group]"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_farm_that_changes_between_plan_and_apply(world, new_client, what):
    """A saved plan is refused as old; a run under way fails with the reason, and leaves no VM half made."""
    change, rule = CHANGES[what]
    card = ("{name: data, port_group: dvpg-storage, addresses: storage}",)
    book, saved = world.book(play("train-[01:02]", cards=card)), world.folder / "old.json"
    assert world("plan", book, "--to", saved).code == 0
    going = held(world, book)
    change(new_client(world.lab))
    ended = released(world, going)
    assert ended.code == 1, ended.text
    assert "clone ubuntu-22.04" in ended.text.partition("FAILED")[2]
    assert world.effects() == {}
    assert set(world.vms()) <= {"other-01", "ubuntu-22.04"}
    for command in (("resume",), ("apply", saved), ("apply", book, "--yes")):
        again = world.tool("resume") if command == ("resume",) else world(*command)
        assert again.code in (1, 3), again.text
        assert rule in again.text or again.code == 3, again.text
    assert world.effects() == {}
