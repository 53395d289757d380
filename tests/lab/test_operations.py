"""What the ledger says about who did something, and what a change of a VM takes."""

from __future__ import annotations

import pytest
from pyVmomi import VmomiSupport, vim
from support.farm import option, reconfigure


@pytest.fixture
def operation():
    """Send an operation id with this thread's requests: `operation("run-1")`."""
    context = VmomiSupport.GetRequestContext()

    def say(name):
        context["operationID"] = name

    yield say
    context.pop("operationID", None)


def operations(lab):
    return [(e["call"], e["operation"]) for e in lab.get("/lab/ledger")["entries"]]


def test_the_ledger_names_the_operation_of_a_call_its_task_and_what_comes_later(lab, soap, operation):
    operation("run-1 <&>")
    reconfigure(soap, soap.vm("train-04"), annotation="a")
    operation("run-2")
    soap.vm("train-01").ShutdownGuest()
    soap.until(lambda: len(operations(lab)) == 2)
    assert operations(lab) == [("ReconfigVM_Task", "run-1 <&>"), ("ShutdownGuest", "run-2")]


def test_a_client_that_names_no_operation_has_none_of_another(lab, soap, operation):
    operation("run-1")
    reconfigure(soap, soap.vm("train-04"), annotation="a")
    VmomiSupport.GetRequestContext().pop("operationID")
    reconfigure(soap, soap.vm("train-04"), annotation="b")
    assert [name for _, name in operations(lab)] == ["run-1", ""]


def test_an_operation_of_any_length_is_cut(lab, soap, operation):
    operation("x" * 100_000)
    reconfigure(soap, soap.vm("train-04"), annotation="a")
    assert operations(lab) == [("ReconfigVM_Task", "x" * 256)]


def test_a_vm_that_is_off_can_leave_the_inventory(soap):
    vm, host = soap.vm("train-04"), soap.vm("train-04").runtime.host
    with pytest.raises(vim.fault.InvalidPowerState):
        soap.vm("train-01").UnregisterVM()
    vm.UnregisterVM()
    assert "train-04" not in [v.name for v in host.vm]
    assert soap.calls() == [("train-04", "UnregisterVM")]
    with pytest.raises(StopIteration):
        soap.vm("train-04")


def test_a_vm_that_is_off_can_be_deleted(lab, soap):
    vm = soap.vm("train-01")
    with pytest.raises(vim.fault.InvalidPowerState):
        soap.wait(vm.Destroy_Task())
    soap.wait(vm.PowerOffVM_Task())
    assert found_by(lab, "power") == ["train-01 (vm-26) was on and is off"]
    soap.wait(vm.Destroy_Task())
    assert soap.calls() == [("train-01", "PowerOffVM_Task"), ("train-01", "Destroy_Task")]
    with pytest.raises(StopIteration):
        soap.vm("train-01")
    assert found_by(lab, "power") == [], "what is gone is not off"


def test_a_vm_can_be_renamed_while_it_runs(lab, soap):
    vm = soap.vm("train-01")
    before = vm.config.changeVersion
    with pytest.raises(vim.fault.DuplicateName):
        soap.wait(vm.Rename_Task("train-02"))
    soap.wait(vm.Rename_Task("a/b"))
    assert (vm.name, vm.config.name, vm.summary.config.name) == ("a%2fb",) * 3
    assert vm.config.changeVersion != before
    soap.wait(vm.PowerOffVM_Task())
    assert found_by(lab, "power") == ["train-01 (vm-26) was on and is off"], "it is the same VM"
    soap.wait(vm.PowerOnVM_Task())
    assert found_by(lab, "power") == []


def test_a_program_that_switches_back_what_somebody_switched_is_found(lab, soap, operation):
    vm, services = soap.vm("train-01"), soap.host("esx01").configManager.serviceSystem
    soap.wait(vm.PowerOffVM_Task())
    services.StopService("TSM-SSH")
    lab.mark()
    operation("run-1")
    soap.wait(vm.PowerOnVM_Task())
    services.StartService("TSM-SSH")
    found = lab.check()["invariants"]
    assert next(i["findings"] for i in found if i["name"] == "others") == [
        "esx01.lab.local: another user had stopped TSM-SSH, and it was started again",
        "train-01 (vm-26): another user had switched off the VM, and it was switched on again",
    ]


def test_a_program_that_puts_its_own_switches_back_is_not(lab, soap, operation):
    operation("run-1")
    vm, host = soap.vm("train-01"), soap.host("esx02")
    vm.ShutdownGuest()
    soap.until(lambda: vm.runtime.powerState == "poweredOff")
    boot = host.runtime.bootTime
    host.configManager.serviceSystem.StopService("TSM-SSH")
    host.configManager.serviceSystem.StartService("TSM-SSH")
    soap.wait(soap.vm("train-03").PowerOffVM_Task())
    soap.wait(host.EnterMaintenanceMode_Task(0))
    soap.wait(host.RebootHost_Task(False))
    soap.until(lambda: host.runtime.bootTime > boot and host.runtime.connectionState == "connected")
    soap.wait(host.ExitMaintenanceMode_Task(0))
    operation("run-2")
    soap.wait(vm.PowerOnVM_Task())
    soap.wait(soap.vm("train-03").PowerOnVM_Task())
    assert found_by(lab, "others") == []


def found_by(lab, invariant):
    return next(i["findings"] for i in lab.check(since=0)["invariants"] if i["name"] == invariant)


@pytest.mark.parametrize(
    ("denied", "refused", "allowed"),
    [
        ("VirtualMachine.Config.AdvancedConfig", {"extraConfig": [option("a", "1")]}, {"annotation": "a"}),
        ("VirtualMachine.Config.Resource", {"memoryReservationLockedToMax": True}, {"firmware": "bios"}),
        ("VirtualMachine.Config.Settings", {"firmware": "bios"}, {"memoryReservationLockedToMax": True}),
    ],
)
def test_each_field_of_a_spec_takes_its_own_privilege(make_lab, new_client, denied, refused, allowed):
    from importlib import resources

    text = resources.files("vsphere_ai.lab").joinpath("scenarios", "default.yml").read_text(encoding="utf-8")
    soap = new_client(make_lab(f"{text}\nprivileges_denied: [{denied}]\n"))
    with pytest.raises(vim.fault.NoPermission) as caught:
        reconfigure(soap, soap.vm("train-04"), **refused)
    assert caught.value.privilegeId == denied
    reconfigure(soap, soap.vm("train-04"), **allowed)
