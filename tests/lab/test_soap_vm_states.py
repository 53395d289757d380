"""VMs in states that stand in the way: what they show, and that the lab refuses what the product refuses."""

import pytest
from pyVmomi import vim, vmodl
from support.farm import device_spec, reconfigure, vgpu
from support.states import AGENTS, DRAIN, states

ODD = {
    "suspended": "name: odd, power: suspended",
    "orphaned": "name: odd, connection: orphaned",
    "inaccessible": "name: odd, connection: inaccessible",
    "disconnected": "name: odd, connection: disconnected",
    "question": "name: odd, question: 'moved or copied?'",
    "ft": "name: odd, ft: true, power: on",
    "disabled": "name: odd, disabled_methods: [ReconfigVM_Task]",
}


@pytest.fixture
def farm_of(make_lab, new_client):
    def make(text):
        return new_client(make_lab(text))

    return make


def in_state(farm_of, state):
    soap = farm_of(states(*(ODD.values() if state is None else [ODD[state]])))
    return soap, soap.vm("odd")


@pytest.mark.parametrize(
    ("state", "fault"),
    [
        ("suspended", vim.fault.InvalidPowerState),
        ("orphaned", vim.fault.InvalidState),
        ("inaccessible", vim.fault.InvalidState),
        ("disconnected", vmodl.fault.HostNotConnected),
        ("question", vim.fault.TaskInProgress),
        ("ft", vim.fault.VmFaultToleranceConfigIssue),
        ("disabled", vim.fault.MethodDisabled),
    ],
)
def test_a_reconfigure_is_refused_and_the_checker_says_so_before(farm_of, state, fault):
    soap, vm = in_state(farm_of, state)
    change = device_spec(vgpu("grid_a100-3-20c"))
    with pytest.raises(fault):
        reconfigure(soap, vm, deviceChange=[change])
    if state != "disabled":  # that is about the method, which the checker is not
        checker = soap.content.vmCompatibilityChecker
        result = soap.wait(checker.CheckVmConfig_Task(vim.vm.ConfigSpec(deviceChange=[change]), vm))
        assert isinstance(result[0].error[0], fault)
    assert soap.calls() == []


@pytest.mark.parametrize("state", ["orphaned", "inaccessible", "disconnected", "question"])
def test_a_vm_that_cannot_be_reached_does_not_power_on(farm_of, state):
    soap, vm = in_state(farm_of, state)
    with pytest.raises((vim.fault.InvalidState, vmodl.fault.HostNotConnected, vim.fault.TaskInProgress)):
        soap.wait(vm.PowerOnVM_Task())
    assert vm.runtime.powerState == "poweredOff"


def test_a_suspended_vm_resumes_and_can_be_powered_off(farm_of):
    soap, vm = in_state(farm_of, "suspended")
    assert vm.runtime.powerState == "suspended"
    with pytest.raises(vim.fault.InvalidPowerState):
        soap.wait(vm.UpgradeVM_Task())
    soap.wait(vm.PowerOnVM_Task())
    assert vm.runtime.powerState == "poweredOn"
    soap.wait(vm.SuspendVM_Task())
    assert vm.runtime.powerState == "suspended"
    soap.wait(vm.PowerOffVM_Task())
    reconfigure(soap, vm, memoryMB=1024)
    assert vm.config.hardware.memoryMB == 1024


def test_an_answered_question_is_gone(farm_of):
    soap, vm = in_state(farm_of, "question")
    assert vm.runtime.question.text == "moved or copied?"
    vm.AnswerVM("1", "1")
    assert vm.runtime.question is None
    reconfigure(soap, vm, memoryMB=1024)


def test_what_a_vm_shows_of_its_snapshots_vapp_tpm_and_agent(farm_of):
    soap = farm_of(
        states(
            "name: snapped, snapshots: [before, after]",
            "name: inside, vapp: shop",
            "name: secret, tpm: true",
            "name: system, agent: vcls",
            "name: guard, agent: com.example.guard",
            "name: twin, ft: true",
        )
    )
    assert (soap.vm("twin").runtime.faultToleranceState, soap.vm("twin").config.ftInfo.role) == ("running", 1)
    tree = soap.vm("snapped").snapshot.rootSnapshotList
    assert [(t.name, [c.name for c in t.childSnapshotList]) for t in tree] == [("before", ["after"])]
    inside = soap.vm("inside")
    assert inside.parent is None
    assert (inside.parentVApp.name, inside.parentVApp.parentFolder.name) == ("shop", "ai")
    view = soap.content.viewManager.CreateContainerView(soap.content.rootFolder, [vim.VirtualMachine], True)
    assert sorted(v.name for v in view.view) == ["guard", "inside", "plain", "secret", "snapped", "system", "twin"]
    secret = soap.vm("secret").config
    assert secret.keyId.providerId.id == "lab-key-provider"
    assert [d for d in secret.hardware.device if isinstance(d, vim.vm.device.VirtualTPM)]
    system, guard = soap.vm("system").config, soap.vm("guard").config
    assert {o.key: o.value for o in system.extraConfig} == {"HDCS.agent": "true"}
    assert (system.managedBy.extensionKey, system.managedBy.type) == ("com.vmware.vim.eam", "cluster-agent")
    assert guard.managedBy.extensionKey == "com.example.guard"


def test_vcenter_takes_its_own_agents_off_a_host_and_brings_them_back(farm_of):
    soap = farm_of(DRAIN + AGENTS)
    host, vcls, guard = soap.host("esx01"), soap.vm("vCLS (1)"), soap.vm("guard-01")
    soap.wait(host.EnterMaintenanceMode_Task(30))
    assert (vcls.runtime.powerState, vcls.runtime.host.name) == ("poweredOn", "esx02.lab.local")
    assert guard.runtime.powerState == "poweredOff"
    soap.wait(host.ExitMaintenanceMode_Task(30))
    assert guard.runtime.powerState == "poweredOn"
    assert [c for c in soap.calls() if c[0] in ("vCLS (1)", "guard-01")] == [
        ("vCLS (1)", "vCenter moved its agent"),
        ("guard-01", "vCenter powered its agent off"),
        ("guard-01", "vCenter powered its agent on"),
    ]


def test_a_vcls_vm_that_somebody_powers_off_is_powered_on_again(farm_of):
    soap = farm_of(DRAIN + AGENTS)
    vcls = soap.vm("vCLS (1)")
    soap.wait(vcls.PowerOffVM_Task())
    soap.until(lambda: vcls.runtime.powerState == "poweredOn")
