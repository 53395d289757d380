"""The judge: every invariant holds on a farm left in order, and is seen to be violated when it is."""

import pytest
from pyVmomi import vim

from vsphere_ai.errors import UsageError
from vsphere_ai.lab import build
from vsphere_ai.lab.hardware.gpu import LabVgpu
from vsphere_ai.lab.history import FactHistory
from vsphere_ai.lab.invariants import INVARIANTS, judge
from vsphere_ai.lab.ledger import Client, Ledger
from vsphere_ai.lab.scenario_file import load

A, B, C = "a.lab", "b.lab", "c.lab"


class Farm:
    """A ledger and a history, written by hand."""

    def __init__(self):
        self.ledger, self.history = Ledger(), FactHistory()
        self.ledger.on_entry = self.history.recorded
        self.history.clusters = {A: "gpu", B: "gpu", C: "gpu", "alone": ""}
        for host in self.history.clusters:
            self.history.note("up", host, True)
            self.history.note("maintenance", host, False)
            self.history.note("ssh", host, False)
        self.history.note("power", "vm1", True)
        self.history.note("power", "vm2", False)
        self.history.restart()

    def add(self, vm, *devices, operation="add", ref=""):
        made = [{"operation": operation, "type": t, "key": 1, k: v} for t, k, v in devices]
        self.ledger.record(vm, "ReconfigVM_Task", {"devices": made}, ref=ref)

    def violated(self, since=0, **options):
        found = judge(self.ledger.entries(), self.history, since, **options)
        assert [v.name for v in found] == list(INVARIANTS)
        return {v.name: v.findings for v in found if v.findings}


@pytest.fixture
def farm():
    return Farm()


VGPU = ("VirtualPCIPassthrough", "vgpu", "grid_a100-10c")
NIC = ("VirtualVmxnet3Vrdma", "portgroup", "dvportgroup-7")


def test_nothing_done_nothing_wrong(farm):
    assert farm.violated() == {}


def test_devices_added_twice(farm):
    farm.add("vm1", VGPU, VGPU)  # two of a kind in one call are meant
    farm.add("vm1", NIC)
    farm.add("vm2", VGPU)
    assert farm.violated() == {}
    farm.add("vm1", VGPU)
    assert farm.violated() == {
        "duplicates": ("vm1: VirtualPCIPassthrough grid_a100-10c was added again (entries 1 and 4)",)
    }
    assert farm.violated(since=3) == {}


def test_a_device_that_was_removed_may_be_added_again(farm):
    farm.add("vm1", VGPU)
    farm.add("vm1", VGPU, operation="remove")
    farm.add("vm1", VGPU)
    assert farm.violated() == {}


def test_what_one_call_replaces_is_no_duplicate(farm):
    """Members of a group go and single vGPUs of the same type come: the additions may stand first in the call."""
    farm.add("vm1", VGPU, VGPU)
    swap = [{"operation": operation, "type": VGPU[0], "vgpu": VGPU[2]} for operation in ("add", "remove", "remove")]
    farm.ledger.record("vm1", "ReconfigVM_Task", {"devices": swap})
    assert farm.violated() == {}
    farm.add("vm1", VGPU)
    assert list(farm.violated()) == ["duplicates"]


def test_vms_of_one_name_are_told_apart(farm):
    farm.add("twin", NIC, ref="vm-1")
    farm.add("twin", NIC, ref="vm-2")
    assert farm.violated() == {}
    farm.add("twin", NIC, ref="vm-2")
    assert list(farm.violated()) == ["duplicates"]


def test_reboots(farm):
    farm.ledger.record(A, "RebootHost_Task")
    farm.ledger.record(B, "reboot", channel="ssh")
    assert farm.violated() == {}
    farm.ledger.record(A, "esxcli system shutdown reboot", channel="ssh")
    assert farm.violated() == {"reboots": ("a.lab was rebooted 2 times (entries 1, 3)",)}
    assert farm.violated(since=1) == {}


def test_hosts_out_of_service_at_once(farm):
    note = farm.history.note
    note("maintenance", A, True)
    note("up", A, False)
    note("up", "alone", False)
    note("up", A, True)
    note("maintenance", A, False)
    note("up", B, False)
    note("maintenance", C, True)
    note("up", B, True)
    note("maintenance", C, False)
    note("up", "alone", True)
    assert farm.violated() == {"hosts-down": ("gpu: 2 hosts out of service at once: b.lab, c.lab",)}
    assert farm.violated(max_down=2) == {}


def test_a_host_that_was_out_before_counts_but_is_not_held_against_the_run(farm):
    farm.history.note("maintenance", A, True)
    farm.history.note("maintenance", B, True)
    farm.ledger.record(A, "something")
    farm.history.mark(1)
    assert farm.violated(since=1) == {}
    farm.history.note("up", C, False)
    farm.history.note("up", C, True)
    assert farm.violated(since=1) == {"hosts-down": ("gpu: 3 hosts out of service at once: a.lab, b.lab, c.lab",)}


def test_what_was_left_behind(farm):
    farm.history.note("maintenance", A, True)
    farm.history.note("ssh", B, True)
    farm.history.note("power", "vm1", False)
    farm.history.note("session", "s1", True)
    farm.history.note("torn", "a.lab 0000:3b:00.0: GPU instance 1 of vm1", True)
    farm.history.note("mac", "vm1 and vm2", True)
    farm.history.note("mac", "vm1 and vm2", False)
    farm.history.note("uuid", "vm1 is vm2", True)
    assert farm.violated() == {
        "maintenance": ("a.lab was left in maintenance mode",),
        "services": ("b.lab: TSM-SSH was stopped and is running",),
        "power": ("vm1 was on and is off",),
        "gpu-instances": ("a.lab 0000:3b:00.0: GPU instance 1 of vm1 went away under a VM",),
        "macs": ("vm1 and vm2",),
        "identities": ("vm1 is vm2",),
        "sessions": ("s1 is still open",),
    }
    for fact, name, value in (
        ("maintenance", A, False),
        ("ssh", B, False),
        ("power", "vm1", True),
        ("session", "s1", False),
    ):
        farm.history.note(fact, name, value)
    assert list(farm.violated()) == ["gpu-instances", "macs", "identities"]


def test_a_clone_that_is_asked_for_twice(farm):
    farm.ledger.record("trn-1", "CloneVM_Task", {"asked_uuid": "u1", "instance_uuid": "u1"})
    farm.ledger.record("other", "CloneVM_Task", {"asked_uuid": "", "instance_uuid": "x"})
    assert farm.violated() == {}
    farm.ledger.record("trn-1", "CloneVM_Task", {"asked_uuid": "u1", "instance_uuid": "y"})
    assert farm.violated() == {"identities": ("trn-1: u1 was another VM's",)}


def test_what_was_so_at_the_start_is_not_held_against_the_run(farm):
    farm.history.note("maintenance", A, True)
    farm.history.note("ssh", B, True)
    farm.history.note("power", "vm1", False)
    farm.history.note("session", "s1", True)
    farm.ledger.record(A, "EnterMaintenanceMode_Task")
    assert farm.violated(since=1) == {}
    farm.history.restart()
    assert farm.violated() == {}


TOOL, AGAIN, OTHER = Client("a", True), Client("a", True), Client("b", True)
HAND = Client("a")


@pytest.mark.parametrize("since", [0, 1])
@pytest.mark.parametrize("who", [HAND, OTHER])
def test_what_somebody_else_switched_is_switched_back(farm, since, who):
    note = farm.history.note
    note("power", "vm1", False, who)
    note("ssh", A, True, who)
    farm.ledger.record("vm1", "PowerOffVM_Task")
    note("power", "vm1", True, TOOL)
    note("ssh", A, False, TOOL)
    assert farm.violated(since=since)["others"] == (
        "a.lab: another user had started TSM-SSH, and it was stopped again",
        "vm1: another user had switched off the VM, and it was switched on again",
    )
    note("power", "vm1", False, AGAIN)
    note("ssh", A, True, AGAIN)
    assert "others" not in farm.violated(since=since)


def test_who_switches_back_what_is_their_own_or_has_a_hand_free_is_no_offender(farm):
    note = farm.history.note
    note("power", "vm1", False, TOOL)
    note("power", "vm1", True, AGAIN)  # it goes on with a session of its own
    note("ssh", A, True, HAND)
    note("ssh", A, False)  # a boot
    note("ssh", A, True, TOOL)
    note("power", "vm2", True, TOOL)
    note("power", "vm2", False, HAND)
    assert "others" not in farm.violated()
    note("power", "vm2", True, TOOL)
    assert farm.violated()["others"] == ("vm2: another user had switched off the VM, and it was switched on again",)
    farm.ledger.record("vm2", "PowerOnVM_Task")
    assert "others" not in farm.violated(since=1), "only what is judged is held against anybody"


def test_who_has_put_back_what_they_switched_wants_nothing_of_it(farm):
    note = farm.history.note
    note("ssh", A, True, HAND)  # to look
    note("ssh", A, False, HAND)
    note("ssh", A, True, TOOL)
    assert "others" not in farm.violated(), "it is still at work"
    note("ssh", A, False, TOOL)
    note("power", "vm1", False, TOOL)
    note("power", "vm1", True, HAND)
    note("power", "vm1", False, TOOL)
    assert farm.violated()["others"] == ("vm1: another user had switched on the VM, and it was switched off again",)
    note("power", "vm1", True, HAND)
    note("power", "vm1", False, HAND)
    assert "others" not in farm.violated(), "they have changed their mind"


def test_an_entry_that_does_not_exist(farm):
    with pytest.raises(KeyError):
        farm.violated(since=5)


# -- on a running lab


def violated(lab, **options):
    return {v["name"]: v["findings"] for v in lab.check(**options)["invariants"] if not v["ok"]}


def test_a_window_of_work_that_leaves_all_in_order(lab, soap):
    lab.mark()
    esx, vm = soap.host("esx02"), soap.vm("train-03")
    soap.wait(vm.PowerOffVM_Task())
    soap.wait(esx.EnterMaintenanceMode_Task(0))
    boot = esx.runtime.bootTime
    soap.wait(esx.RebootHost_Task(False))
    soap.until(lambda: esx.runtime.bootTime > boot and esx.runtime.connectionState == "connected")
    soap.wait(esx.ExitMaintenanceMode_Task(0))
    assert set(violated(lab)) == {"services", "power"}
    esx.configManager.serviceSystem.StartService("TSM-SSH")
    soap.wait(vm.PowerOnVM_Task())
    verdict = lab.check()
    assert verdict["ok"], verdict
    assert verdict["entries"] == 6
    assert next(v for v in verdict["invariants"] if v["name"] == "hosts-down")["seen"] == "gpu-a: at most 1 at once"
    assert set(violated(lab, max_down=0)) == {"hosts-down"}


def test_two_hosts_at_once_and_one_left_behind(lab, soap, new_client):
    lab.mark()
    soap.wait(soap.vm("train-03").PowerOffVM_Task())
    soap.wait(soap.vm("infra-01").PowerOffVM_Task())
    for name in ("esx02", "esx03"):
        soap.wait(soap.host(name).EnterMaintenanceMode_Task(0))
    soap.wait(soap.host("esx03").ExitMaintenanceMode_Task(0))
    new_client(lab)
    found = violated(lab)
    assert found["hosts-down"] == ["gpu-a: 2 hosts out of service at once: esx02.lab.local, esx03.lab.local"]
    assert found["maintenance"] == ["esx02.lab.local was left in maintenance mode"]
    assert [f.partition(" (")[0] for f in found["power"]] == ["infra-01", "train-03"]
    assert len(found["sessions"]) == 1
    assert "hosts-down" in violated(lab, since=0)
    assert set(violated(lab, since=4)) == {"sessions"}


def new_nic(soap):
    group = next(n for n in soap.host("esx02").network if n.name == "dvpg-rdma")
    port = vim.dvs.PortConnection(portgroupKey=group.key, switchUuid=group.config.distributedVirtualSwitch.uuid)
    backing = vim.vm.device.VirtualEthernetCard.DistributedVirtualPortBackingInfo(port=port)
    nic = vim.vm.device.VirtualVmxnet3(key=-1, backing=backing)
    return vim.vm.device.VirtualDeviceSpec(operation="add", device=nic)


def test_a_nic_added_twice(lab, soap):
    vm = soap.vm("train-04")
    spec = vim.vm.ConfigSpec(deviceChange=[new_nic(soap)])
    soap.wait(vm.ReconfigVM_Task(spec))
    assert "duplicates" not in violated(lab)
    soap.wait(vm.ReconfigVM_Task(spec))
    assert len(violated(lab)["duplicates"]) == 1


def test_a_client_that_sends_again_after_a_lost_reply_is_caught(lab, soap):
    """PyVmomi's own stub for long sessions repeats any call: this is what the judge is there to see."""
    from pyVim.connect import VimSessionOrientedStub

    password = (lab.directory / "password").read_text(encoding="utf-8").strip()
    login = VimSessionOrientedStub.makeUserLoginMethod("administrator@vsphere.local", password)
    stub = VimSessionOrientedStub(soap.stub, login, retryDelay=0.1, retryCount=4)
    vm = vim.VirtualMachine(soap.vm("train-04")._moId, stub)
    lab.mark()
    lab.set_faults([{"on": "ReconfigVM_Task", "times": 2, "do": "lost-reply"}])
    vm.ReconfigVM_Task(vim.vm.ConfigSpec(deviceChange=[new_nic(soap)]))
    soap.until(lambda: len(soap.calls()) == 3)
    assert [f.rpartition(" (")[2] for f in violated(lab)["duplicates"]] == ["entries 1 and 2)", "entries 1 and 3)"]


def test_a_lost_host_takes_its_vms_along(lab, soap):
    lab.mark()
    lab.set_faults([{"on": "CurrentTime", "nth": 1, "do": {"power-loss": "esx02*"}}])
    boot = soap.host("esx02").runtime.bootTime
    soap.instance.CurrentTime()
    soap.until(lambda: soap.host("esx02").runtime.bootTime > boot)
    assert [f.partition(" (")[0] for f in violated(lab)["power"]] == ["train-03"]


def test_an_instance_that_goes_away_under_a_vm_is_seen():
    """The lab's driver refuses this, so it takes a hand in the machine to show that the judge would see it."""
    farm = build.build(load(), "pw")
    try:
        host = next(h for h in farm.hosts.values() if h.gpus and h.gpus[0].mig_capable)
        gpu = host.gpus[0]
        with host.changing():
            gpu.mig_current = gpu.mig_pending = True
            made = gpu.create(gpu.profile("1g.5gb"))
            gpu.vgpus.append(LabVgpu(1, "vm1", "grid_a100-1-5c", 5, made.id))
            host.notify("vgpu")
        assert judge((), farm.history, 0)[list(INVARIANTS).index("gpu-instances")].findings == ()
        with host.changing():
            gpu.instances.clear()
            host.notify("mig")
        (finding,) = judge((), farm.history, 0)[list(INVARIANTS).index("gpu-instances")].findings
        assert finding == f"{host.name} {gpu.pci}: GPU instance {made.id} of vm1 went away under a VM"
    finally:
        farm.close()


def test_an_unknown_start_is_refused(lab):
    with pytest.raises(UsageError, match="no entry 99"):
        lab.check(since=99)
