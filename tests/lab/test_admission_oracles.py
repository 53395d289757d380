"""vCenter's own answers to what would work: which tests its checkers make, and the dry run of an evacuation."""

from __future__ import annotations

import pytest
from pyVmomi import vim, vmodl

pytestmark = pytest.mark.lab

FARM = """
name: oracles
timing: {boot_seconds: 0.3, task_seconds: 0.005, shutdown_seconds: 0.1, vmotion_seconds: 0.02}
clusters:
  - name: a
    drs_options: {MaxVCPUsPerCore: "1"}
    rules: [{name: away, kind: host-anti-affinity, vms: [ruled], hosts: [esx2.lab.local], mandatory: true}]
  - {name: plain, drs: "off"}
datastores:
  - {name: local1, type: VMFS, hosts: [esx1.lab.local], capacity_gb: 500, free_gb: 10}
  - {name: vsan-gpu}
hosts:
  - {name: "esx[1:3].lab.local", cluster: a, cpu_cores: 16, memory_gb: 256, system_memory_mb: 6144}
  - {name: "off[1:2].lab.local", cluster: plain}
  - {name: old.lab.local, cluster: a, cpu: broadwell, cpu_cores: 8, memory_gb: 64, version: 7.0.2}
vms:
  - {name: ruled, host: esx1.lab.local, cpus: 4, memory_gb: 8, power: on}
  - {name: big, host: esx1.lab.local, cpus: 4, memory_gb: 200, memory_reservation_locked: true, power: on}
  - {name: rest, host: esx2.lab.local, cpus: 4, memory_gb: 200, memory_reservation_locked: true, power: on}
  - {name: bound, host: esx3.lab.local, cpus: 2, memory_gb: 8, cpu_affinity: [0, 1], power: on}
  - {name: many, host: esx2.lab.local, cpus: 14, memory_gb: 8}
  - {name: huge, host: esx2.lab.local, cpus: 40, memory_gb: 300, memory_reservation_locked: true}
  - {name: full, host: esx1.lab.local, cpus: 2, memory_gb: 64, datastore: local1}
  - {name: bare, host: off1.lab.local}
"""


@pytest.fixture
def lab(make_lab):
    return make_lab(FARM)


@pytest.fixture
def soap(lab, new_client):
    return new_client(lab)


def names(faults):
    return [type(each).__name__.rpartition(".")[2] for each in faults]


def checked(soap, vm, host, **more):
    results = soap.wait(soap.content.vmCompatibilityChecker.CheckPowerOn_Task(soap.vm(vm), soap.host(host), **more))
    return names(results[0].error)


def power_on(soap, vm):
    soap.wait(soap.vm(vm).PowerOnVM_Task())


def test_the_check_of_a_power_on_names_every_fault(soap):
    assert checked(soap, "huge", "esx2") == ["NotEnoughLogicalCpus", "InsufficientHostMemoryCapacityFault"]
    assert checked(soap, "huge", "esx2", testType=["hostTests"]) == ["NotEnoughLogicalCpus"]
    assert checked(soap, "huge", "esx2", testType=["resourcePoolTests"]) == ["InsufficientHostMemoryCapacityFault"]
    with pytest.raises(vmodl.fault.InvalidArgument):
        checked(soap, "huge", "esx2", testType=["ruleTests"])


@pytest.mark.parametrize(
    ("vm", "host", "refused"),
    [
        ("ruled", "esx2", vim.fault.VmHostAffinityRuleViolation),
        ("many", "esx2", vim.fault.NumVirtualCpusExceedsLimit),
        ("full", "esx1", vim.fault.NoDiskSpace),
    ],
)
def test_rules_over_commitment_and_space_are_in_no_check_of_a_power_on(soap, vm, host, refused):
    if vm == "ruled":
        soap.wait(soap.vm(vm).PowerOffVM_Task())
    if vm == "many":  # with DRS's limit of 16 for the host
        soap.wait(soap.vm("rest").ReconfigVM_Task(vim.vm.ConfigSpec(annotation="runs")))
    assert checked(soap, vm, host) == []
    if vm == "ruled":
        soap.wait(soap.vm(vm).MigrateVM_Task(host=soap.host(host), priority="defaultPriority"))
    with pytest.raises(refused):
        power_on(soap, vm)


def test_without_drs_the_host_is_named(soap):
    checker = soap.content.vmCompatibilityChecker
    with pytest.raises(vmodl.fault.InvalidArgument):
        checker.CheckPowerOn_Task(soap.vm("bare"))
    assert checked(soap, "bare", "off2") == []
    assert len(soap.wait(checker.CheckPowerOn_Task(soap.vm("many")))) == 4


def test_the_check_of_a_migration(soap):
    checker = soap.content.vmProvisioningChecker
    big, pool = soap.vm("big"), soap.find(vim.ClusterComputeResource, "a").resourcePool

    def errors(vm, host):
        return names(soap.wait(checker.CheckMigrate_Task(vm, soap.host(host)))[0].error)

    assert errors(big, "esx2") == ["InsufficientHostMemoryCapacityFault"]
    assert errors(big, "esx3") == []
    assert errors(big, "old") == ["FeatureRequirementsNotMet", "InsufficientHostMemoryCapacityFault"]
    assert errors(soap.vm("bound"), "esx1") == ["AffinityConfigured"]
    assert errors(soap.vm("ruled"), "esx2") == [], "rules are in none of its tests"
    found = soap.wait(checker.CheckMigrate_Task(big, None, pool))
    assert {r.host.name.partition(".")[0]: names(r.error) for r in found}["esx3"] == []
    spec = vim.vm.RelocateSpec(host=soap.host("esx2"))
    assert names(soap.wait(checker.CheckRelocate_Task(big, spec))[0].error) == ["InsufficientHostMemoryCapacityFault"]
    assert soap.calls() == []


def dry_run(soap, *hosts):
    cluster = soap.find(vim.ClusterComputeResource, "a")
    found = cluster.ClusterEnterMaintenanceMode([soap.host(name) for name in hosts])
    moves = {
        action.drsMigration.vm.name: action.drsMigration.destination.name.partition(".")[0]
        for each in found.recommendations
        for action in each.action
        if isinstance(action, vim.cluster.MigrationAction)
    }
    stuck = {each.vm.name: names(each.fault) for each in (found.fault.faultsByVm if found.fault else ())}
    return [each.action[-1].target.name.partition(".")[0] for each in found.recommendations], moves, stuck


def test_a_dry_run_of_an_evacuation_changes_nothing_and_tells_who_goes_where(soap):
    hosts, moves, stuck = dry_run(soap, "esx1")
    assert (hosts, stuck) == (["esx1"], {})
    assert moves == {"big": "esx3", "ruled": "esx3"}
    assert soap.vm("big").runtime.host.name == "esx1.lab.local"
    assert soap.host("esx1").recentTask == []
    assert soap.calls() == []


def test_hosts_that_cannot_be_emptied_together_are_told_with_the_vms(soap):
    hosts, moves, stuck = dry_run(soap, "esx1", "esx2")
    assert hosts == ["esx1"], "esx3 has memory for one of the two"
    assert moves["big"] == "esx3"
    assert {*stuck} == {"rest"} or {*stuck} == {"big"}
    assert dry_run(soap, "esx3")[2] == {"bound": ["AffinityConfigured"] * 2 + ["FeatureRequirementsNotMet"]}


def test_what_is_stuck_is_shown_while_a_host_waits(soap):
    cluster = soap.find(vim.ClusterComputeResource, "a")
    task = soap.host("esx3").EnterMaintenanceMode_Task(2)
    soap.until(lambda: cluster.drsFault)
    (faults,) = cluster.drsFault
    assert (faults.reason, [each.vm.name for each in faults.faultsByVm]) == ("hostMaint", ["bound"])
    with pytest.raises(vim.fault.Timedout):
        soap.wait(task)
    soap.until(lambda: not cluster.drsFault)
    assert soap.vm("bound").runtime.powerState == "poweredOn"


def test_an_evacuation_goes_as_its_dry_run_says(soap):
    _, moves, _ = dry_run(soap, "esx1")
    soap.wait(soap.host("esx1").EnterMaintenanceMode_Task(20))
    assert {name: soap.vm(name).runtime.host.name.partition(".")[0] for name in moves} == moves


def test_a_cluster_without_drs_is_not_asked(soap):
    cluster = soap.find(vim.ClusterComputeResource, "plain")
    with pytest.raises(vim.fault.InvalidState):
        cluster.ClusterEnterMaintenanceMode([soap.host("off1")])


def test_a_fault_of_the_lab_answers_the_check_of_one_vm(lab, soap):
    lab.set_faults([{"on": "CheckPowerOn_Task", "target": "many", "do": {"check-finds": "DrsDisabledOnVm"}}])
    assert checked(soap, "many", "esx2") == ["DrsDisabledOnVm"]
    assert checked(soap, "huge", "esx2") == ["NotEnoughLogicalCpus", "InsufficientHostMemoryCapacityFault"]
    lab.set_faults([{"on": "any", "do": "check-passes"}])
    assert checked(soap, "huge", "esx2") == []
    assert names(soap.wait(soap.content.vmProvisioningChecker.CheckMigrate_Task(soap.vm("bound"), soap.host("esx1")))
                 [0].error) == []  # fmt: skip
    with pytest.raises(vim.fault.VimFault):
        power_on(soap, "huge")


def test_a_fault_of_the_lab_answers_the_dry_run_of_an_evacuation(lab, soap):
    lab.set_faults([{"on": "ClusterEnterMaintenanceMode", "do": {"check-finds": "DrsDisabledOnVm"}}])
    emptied, _, stuck = dry_run(soap, "esx1")
    assert (emptied, stuck) == ([], {"big": ["DrsDisabledOnVm"], "ruled": ["DrsDisabledOnVm"]})
    lab.set_faults([{"on": "ClusterEnterMaintenanceMode", "do": "check-passes"}])
    assert dry_run(soap, "esx3") == (["esx3"], {}, {}), "a VM with an affinity to processors is there"
    assert soap.calls() == []
