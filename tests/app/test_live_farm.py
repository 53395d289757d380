"""Reading a farm again and again: what it costs, and that it is what a reading in full would bring."""

from __future__ import annotations

import contextlib
from collections import Counter
from dataclasses import replace

import pytest
from support.places import INVENTORY
from support.seeds import by_level, cases, chance

from vsphere_ai import app
from vsphere_ai.app.watching import live_cursor
from vsphere_ai.app.watching.live_cursor import is_at_work
from vsphere_ai.connect.soap import cursor
from vsphere_ai.planning import document
from vsphere_ai.web import farm_pages

pytestmark = pytest.mark.lab
HOSTS, VMS = 4, 12
FARM = """\
name: live
timing: {boot_seconds: 0.1, task_seconds: 0.005, shutdown_seconds: 0.02, vmotion_seconds: 0.02}
clusters: [{name: gpu-a}]
switches:
  - {name: dvs-lan, port_groups: [{name: dvpg-lan}, {name: dvpg-other}]}
  - {name: dvs-rdma, mtu: 9000, uplinks: 1, port_groups: [{name: dvpg-rdma, vlan: 100}]}
hosts:
  - name: gpu[01:04].lab.local
    cluster: gpu-a
    nvidia_driver: 535.261.03
    graphics_default: sharedDirect
    gpus: [{pci: "0000:3b:00.0", board: a100-80gb, graphics_type: sharedDirect}]
    nics:
      - {name: vmnic0, pci: "0000:18:00.0", switch: dvs-lan}
      - {name: vmnic4, pci: "0000:5e:00.0", model: ConnectX-6, switch: dvs-rdma, rdma: vmrdma0}
    vmkernel: [{name: vmk0, port_group: dvpg-lan}, {name: vmk2, port_group: dvpg-rdma}]
    ssh: {running: true, policy: on}
    pvrdma_vmknic: vmk2
vms:
  - name: "train-[01:06]"
    host: "gpu[01:04].lab.local"
    network: dvpg-lan
    vgpu: [grid_a100dx-20c]
    pvrdma: [dvpg-rdma]
    memory_reservation_locked: true
  - {name: "vm-[07:12]", host: "gpu[01:04].lab.local", network: dvpg-lan}
"""
PLAY = """\
- hosts: gpu[01:04].lab.local
  pvrdma_host: {vmknic: vmk2, firewall: true}
- vms: train-*
  hardware: {version: 19}
  tuning: {extra_config: {a.key: '1'}}
"""


@pytest.fixture
def farm(make_lab, monkeypatch, tmp_path):
    """A lab, and a request to read it with a playbook."""
    made = make_lab(FARM)
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(made.directory))
    (tmp_path / "play.yml").write_text(PLAY, "utf-8")
    request = app.FarmRequest(app.EstateRequest(INVENTORY, ask_hosts=False), (tmp_path / "play.yml",))
    return made, request


def requests(lab):
    return Counter(lab.get("/lab/traffic")["calls"])


def cost(lab, reader):
    """Read, and return the requests that took."""
    before = requests(lab)
    reader.read()
    assert reader.state.error is None
    return requests(lab) - before


def key(client, name, value):
    """Set a key of a VM."""
    option = client.vim.option.OptionValue(key="a.key", value=value)
    client.wait(client.vm(name).ReconfigVM_Task(client.vim.vm.ConfigSpec(extraConfig=[option])))


def count_commands(lab):
    """Let the lab note each question about GPUs over SSH; return what counts them."""
    lab.set_faults([{"on": "ssh: nvidia-smi", "probability": 1.0, "do": {"delay": "0.001s"}}])
    return lambda: len(lab.get("/lab/faults")["fired"])


def settled(reader):
    """Read until what was at work is at an end, and all of it is seen."""
    reader.read()
    reader.read()
    while is_at_work(reader.state.snapshot.estate):
        reader.read()
    reader.read()


def test_nothing_has_changed_takes_one_request(farm):
    lab, request = farm
    with app.farm_reader(request, 0.0) as reader:
        first = cost(lab, reader)
        assert first["Login"] == 1
        assert first["RetrievePropertiesEx"] <= 4
        assert first["WaitForUpdatesEx"] == 0, "the first page is not to be waited for longer"
        assert cost(lab, reader)["CreateFilter"] > 0
        seen = reader.state.snapshot
        for _ in range(3):
            assert cost(lab, reader) == {"WaitForUpdatesEx": 1}
        assert reader.state.readings == 5
        assert reader.state.snapshot.estate is seen.estate
        assert reader.state.snapshot.taken > seen.taken
        assert reader.state.snapshot.whole <= seen.taken


@pytest.mark.parametrize("number", [1, 6])
def test_the_cost_of_a_change_does_not_depend_on_the_farm(farm, new_client, number):
    lab, request = farm
    client = new_client(lab)
    with app.farm_reader(request, 0.0) as reader:
        settled(reader)
        for vm in range(1, number + 1):
            key(client, f"train-{vm:02}", "1")
        before = lab.get("/lab/traffic")["read"]["VirtualMachine"]["config.hardware.device"]
        calls = cost(lab, reader)
        after = lab.get("/lab/traffic")["read"]["VirtualMachine"]["config.hardware.device"]
        assert after - before == number, "only what has changed is read closely"
        assert set(calls) <= {"WaitForUpdatesEx", "RetrievePropertiesEx"}
        assert calls.total() <= 6
        assert cost(lab, reader).total() <= 3


LOST = {
    "the session ended": {"on": "WaitForUpdatesEx", "nth": 1, "do": "expire-session"},
    "the version is not known": {"on": "WaitForUpdatesEx", "nth": 1, "do": {"fault": "InvalidCollectorVersion"}},
    "the collector is gone": {"on": "WaitForUpdatesEx", "nth": 1, "do": {"fault": "ManagedObjectNotFound"}},
    "the answer was lost": {"on": "WaitForUpdatesEx", "nth": 1, "do": "lost-reply"},
    "the answer was cut off": {"on": "WaitForUpdatesEx", "nth": 1, "when": "after", "do": "truncate"},
    "vCenter restarted": {"on": "WaitForUpdatesEx", "nth": 1, "do": {"restart": "0.1s"}},
}


@pytest.mark.parametrize("why", LOST)
def test_where_changes_are_not_known_all_is_read_and_followed_anew(farm, new_client, why):
    lab, request = farm
    client = new_client(lab)
    with app.farm_reader(request, 0.0) as reader:
        settled(reader)
        key(client, "train-01", "7")
        lab.set_faults([LOST[why]])
        before = lab.get("/lab/traffic")["read"]["VirtualMachine"]["config.hardware.device"]
        cost(lab, reader)
        lab.clear_faults()
        assert lab.get("/lab/traffic")["read"]["VirtualMachine"]["config.hardware.device"] - before >= VMS
        settled(reader)
        assert seen(reader.state) == seen(read_in_full(request))
        assert cost(lab, reader) == {"WaitForUpdatesEx": 1}


def test_many_changes_come_in_parts(farm, new_client, monkeypatch):
    lab, request = farm
    client = new_client(lab)
    monkeypatch.setattr(cursor, "PAGE", 2)
    with app.farm_reader(request, 0.0) as reader:
        settled(reader)
        for number in range(1, 7):
            key(client, f"train-{number:02}", "3")
        assert cost(lab, reader)["WaitForUpdatesEx"] > 3
        settled(reader)
        assert seen(reader.state) == seen(read_in_full(request))


def test_what_is_followed_does_not_grow_without_end(farm, new_client, monkeypatch):
    lab, request = farm
    changes = Changes(new_client(lab), chance("clones"))
    monkeypatch.setattr(cursor, "MOST_FILTERS", 4)
    with app.farm_reader(request, 0.0) as reader:
        settled(reader)
        assert cost(lab, reader) == {"WaitForUpdatesEx": 1}
        begun = []
        for _ in range(4):
            changes.clone()
            before = requests(lab)["CreatePropertyCollector"]
            settled(reader)
            begun.append(requests(lab)["CreatePropertyCollector"] - before)
            assert seen(reader.state) == seen(read_in_full(request))
        assert 0 < sum(begun) < 4


def test_a_reading_in_full_comes_in_time_and_asks_hosts_again(farm, monkeypatch):
    lab, request = farm
    with app.farm_reader(request, 0.0) as reader:
        settled(reader)
        began = reader.state.snapshot.whole
        monkeypatch.setattr(live_cursor, "LONGEST", 0.0)
        calls = cost(lab, reader)
        assert calls["QueryOptions"] == HOSTS
        assert calls["CreateFilter"] == 0, "what is followed is followed on"
        assert reader.state.snapshot.whole > began


def test_hosts_are_asked_over_ssh_at_their_own_pace(farm, new_client, monkeypatch):
    lab, request = farm
    client = new_client(lab)
    with app.farm_reader(replace(request, estate=replace(request.estate, ask_hosts=True)), 0.0) as reader:
        settled(reader)
        count = count_commands(lab)
        for _ in range(3):
            reader.read()
        key(client, "train-01", "2")
        reader.read()
        assert count() == 0, "neither hosts nor what runs on them has changed"
        client.wait(client.vm("vm-07").PowerOnVM_Task())
        settled(reader)
        one = count()
        assert one > 0
        monkeypatch.setattr(live_cursor, "LONGEST", 0.0)
        reader.read()
        assert count() - one >= HOSTS * one


class Changes:
    """What administrators do to a farm, by chance; what vCenter refuses is left."""

    def __init__(self, client, luck):
        self.client, self.vim, self.luck, self.made = client, client.vim, luck, 0

    def do(self):
        what = self.luck.choice(
            (self.key, self.memory, self.power, self.power, self.rename, self.destroy, self.clone, self.migrate,
             self.folder, self.option, self.maintenance, self.rename_host_group, self.template, self.label)
        )  # fmt: skip
        with contextlib.suppress(self.client.vim.fault.VimFault, *self._refusals()):
            what()
        return what.__name__

    def _refusals(self):
        from pyVmomi import vmodl

        return vmodl.MethodFault, StopIteration

    def any_vm(self):
        view = self.client.content.viewManager.CreateContainerView(
            self.client.content.rootFolder, [self.vim.VirtualMachine], True
        )
        try:
            return self.luck.choice(sorted(view.view, key=lambda vm: vm.name))
        finally:
            view.DestroyView()

    def any_host(self):
        return self.client.host(f"gpu{self.luck.randint(1, HOSTS):02}")

    def number(self):
        self.made += 1
        return self.made

    def key(self):
        option = self.vim.option.OptionValue(key="a.key", value=str(self.luck.randint(0, 2)))
        self.client.wait(self.any_vm().ReconfigVM_Task(self.vim.vm.ConfigSpec(extraConfig=[option])))

    def memory(self):
        spec = self.vim.vm.ConfigSpec(memoryMB=self.luck.choice((2048, 4096, 8192)))
        self.client.wait(self.any_vm().ReconfigVM_Task(spec))

    def power(self):
        vm = self.any_vm()
        on = vm.runtime.powerState == "poweredOn"
        self.client.wait(vm.PowerOffVM_Task() if on else vm.PowerOnVM_Task())

    def rename(self):
        self.client.wait(self.any_vm().Rename_Task(f"train-9{self.number()}"))

    def destroy(self):
        self.client.wait(self.any_vm().Destroy_Task())

    def clone(self):
        vm = self.any_vm()
        spec = self.vim.vm.CloneSpec(location=self.vim.vm.RelocateSpec(host=self.any_host()), powerOn=False)
        self.client.wait(vm.CloneVM_Task(vm.parent, f"train-8{self.number()}", spec))

    def migrate(self):
        self.client.wait(self.any_vm().RelocateVM_Task(self.vim.vm.RelocateSpec(host=self.any_host())))

    def folder(self):
        vm = self.any_vm()
        made = vm.parent.CreateFolder(f"folder-{self.number()}")
        self.client.wait(made.MoveIntoFolder_Task([vm]))

    def rename_host_group(self):
        group = self.client.find(self.vim.dvs.DistributedVirtualPortgroup, "dvpg-rdma")
        setting = self.vim.dvs.VmwareDistributedVirtualSwitch.VlanIdSpec(vlanId=self.luck.randint(1, 4000))
        ports = self.vim.dvs.VmwareDistributedVirtualSwitch.VmwarePortConfigPolicy(vlan=setting)
        spec = self.vim.dvs.DistributedVirtualPortgroup.ConfigSpec(
            configVersion=group.config.configVersion, defaultPortConfig=ports
        )
        self.client.wait(group.ReconfigureDVPortgroup_Task(spec))

    def option(self):
        firewall = self.any_host().configManager.firewallSystem
        (firewall.EnableRuleset if self.luck.random() < 0.5 else firewall.DisableRuleset)("pvrdma")

    def maintenance(self):
        host = self.any_host()
        left = host.runtime.inMaintenanceMode
        self.client.wait(host.ExitMaintenanceMode_Task(5) if left else host.EnterMaintenanceMode_Task(5, True))

    def template(self):
        self.any_vm().MarkAsTemplate()

    def label(self):
        self.client.wait(self.any_vm().ReconfigVM_Task(self.vim.vm.ConfigSpec(annotation=str(self.number()))))


def seen(state):
    """What pages show of a reading, without how long it took and when it was."""
    found = replace(state.snapshot, taken=0.0, seconds=0.0, whole=0.0, lasting=True)
    state = replace(state, snapshot=found, readings=0, failures=0, next_at=0.0)
    drift = [(d.playbook, d.error, d.plan and document.dumps(document.plan_document(d.plan))) for d in found.drift]
    pages = [farm_pages.farm_report(what, state).sections for what in farm_pages.TITLES]
    return found.estate.objects, found.gpus, found.traces, drift, pages


def differences(one, other):
    return [
        (ref, path, *(own.get(ref) and own[ref].get(path) for own in (one, other)))
        for ref in one.keys() | other.keys()
        for path in {*(one[ref].properties if ref in one else ()), *(other[ref].properties if ref in other else ())}
        if ref not in one or ref not in other or one[ref].get(path) != other[ref].get(path)
    ]


def read_in_full(request):
    state = app.read_farm(request)
    assert state.error is None
    return state


@pytest.mark.parametrize("case", cases(4, 30))
def test_after_any_changes_pages_are_as_after_a_reading_in_full(farm, new_client, case):
    lab, request = farm
    luck, client = chance("live farm", case), new_client(lab)
    changes = Changes(client, luck)
    with app.farm_reader(request, 0.0) as reader:
        settled(reader)
        for number in range(by_level(8, 20)):
            done = [changes.do() for _ in range(luck.randint(0, 3))]
            if luck.random() < 0.15:
                done.append("sessions end")
                lab.post("/lab/sessions/expire")
                client.session = None
                client.close()
                client.__init__(lab)
            settled(reader)
            assert reader.state.error is None
            mine, other = seen(reader.state), seen(read_in_full(request))
            assert differences(mine[0], other[0]) == [], (case, number, done)
            assert mine == other, (case, number, done)
