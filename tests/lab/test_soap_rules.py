"""Rules and groups of a cluster, overrides of single VMs, and where a VM may be powered on."""

from __future__ import annotations

import pytest
from pyVmomi import vim, vmodl

pytestmark = pytest.mark.lab

FARM = """
name: rules
timing: {boot_seconds: 0.3, task_seconds: 0.005, shutdown_seconds: 0.1}
clusters:
  - name: a
    rules:
      - {name: pinned, kind: host-affinity, vms: ["fix-[1:2]"], hosts: [esx02.lab.local], mandatory: true}
  - {name: m, drs: manual}
hosts:
  - {name: "esx[01:03].lab.local", cluster: a}
  - {name: "esx[04:05].lab.local", cluster: m}
  - {name: esx06.lab.local}
vms:
  - {name: "trn-[1:3]", host: esx01.lab.local}
  - {name: "fix-[1:2]", host: esx01.lab.local}
  - {name: "man-[1:2]", host: esx04.lab.local}
"""
APART = vim.cluster.AntiAffinityRuleSpec


@pytest.fixture
def soap(make_lab, new_client):
    return new_client(make_lab(FARM))


@pytest.fixture
def cluster(soap):
    return soap.find(vim.ClusterComputeResource, "a")


def change(soap, cluster, **fields):
    return soap.wait(cluster.ReconfigureComputeResource_Task(vim.cluster.ConfigSpecEx(**fields), True))


def rule(operation, info=None, key=None):
    return vim.cluster.RuleSpec(operation=operation, info=info, removeKey=key)


def group(operation, info=None, name=None):
    return vim.cluster.GroupSpec(operation=operation, info=info, removeKey=name)


def apart(soap, *names, mandatory=False, name="spread", enabled=True):
    vms = [soap.vm(each) for each in names]
    return APART(name=name, vm=vms, enabled=enabled, mandatory=mandatory, userCreated=True)


def power_on(soap, *names, **options):
    """Power VMs on where DRS chooses; return the hosts of those that are on then."""
    center = soap.find(vim.Datacenter, "DC0")
    values = [vim.option.OptionValue(key=k, value=v) for k, v in options.items()]
    found = soap.wait(center.PowerOnMultiVM_Task([soap.vm(name) for name in names], values))
    for each in found.attempted:
        soap.wait(each.task)
    return found, [soap.vm(name).runtime.host.name.partition(".")[0] for name in names]


def test_rules_and_groups_are_kept_and_read_back(soap, cluster):
    info = apart(soap, "trn-1", "trn-2")
    members = vim.cluster.VmGroup(name="set", vm=[soap.vm("trn-1")], userCreated=True)
    hosts = vim.cluster.HostGroup(name="rack", host=[soap.host("esx03")])
    tied = vim.cluster.VmHostRuleInfo(name="tied", vmGroupName="set", affineHostGroupName="rack", enabled=True)
    change(
        soap,
        cluster,
        groupSpec=[group("add", members), group("add", hosts)],
        rulesSpec=[rule("add", info), rule("add", tied)],
    )
    found = {r.name: r for r in cluster.configurationEx.rule}
    assert list(found) == ["pinned", "spread", "tied"]
    spread = found["spread"]
    assert ([vm.name for vm in spread.vm], spread.enabled, spread.mandatory) == (["trn-1", "trn-2"], True, False)
    assert len({r.key for r in found.values()}) == 3
    assert spread.ruleUuid
    assert {r.name for r in cluster.configuration.rule} == set(found)
    edited = APART(key=spread.key, vm=[soap.vm(f"trn-{n}") for n in (1, 2, 3)])
    change(soap, cluster, rulesSpec=[rule("edit", edited), rule("remove", key=found["tied"].key)])
    (left,) = [r for r in cluster.configurationEx.rule if r.name != "pinned"]
    assert (left.key, left.name, len(left.vm), left.enabled) == (spread.key, "spread", 3, True)
    change(soap, cluster, groupSpec=[group("remove", name="set")])
    assert "set" not in [g.name for g in cluster.configurationEx.group]
    assert soap.calls() == [("a", "ReconfigureComputeResource_Task")] * 3


def test_a_rule_that_cannot_be_is_refused_and_nothing_changes(soap, cluster):
    bad = [
        {"rulesSpec": [rule("add", apart(soap, "trn-1"))]},
        {"rulesSpec": [rule("add", apart(soap, "trn-1", "man-1"))]},
        {"rulesSpec": [rule("add", apart(soap, "trn-1", "trn-2", name="pinned"))]},
        {"rulesSpec": [rule("remove", key=99)]},
        {"rulesSpec": [rule("edit", APART(key=99, vm=[soap.vm("trn-1")]))]},
        {"groupSpec": [group("add", vim.cluster.VmGroup(name="pinned-vms", vm=[]))]},
        {"groupSpec": [group("add", vim.cluster.HostGroup(name="x", host=[soap.host("esx04")]))]},
        {"groupSpec": [group("remove", name="pinned-hosts")]},
        {
            "groupSpec": [group("add", vim.cluster.VmGroup(name="new", vm=[]))],
            "rulesSpec": [rule("add", vim.cluster.VmHostRuleInfo(name="r", vmGroupName="new"))],
        },
    ]
    before = [r.name for r in cluster.configurationEx.rule], [g.name for g in cluster.configurationEx.group]
    for spec in bad:
        with pytest.raises(vmodl.fault.InvalidArgument):
            change(soap, cluster, **spec)
    assert before == ([r.name for r in cluster.configurationEx.rule], [g.name for g in cluster.configurationEx.group])
    assert soap.calls() == []


def test_drs_spreads_vms_that_a_rule_keeps_apart(soap, cluster):
    assert power_on(soap, "trn-1", "trn-2")[1] == ["esx01", "esx01"]
    for name in ("trn-1", "trn-2"):
        soap.wait(soap.vm(name).PowerOffVM_Task())
    change(soap, cluster, rulesSpec=[rule("add", apart(soap, "trn-1", "trn-2", "trn-3"))])
    assert len(set(power_on(soap, "trn-1", "trn-2", "trn-3")[1])) == 3


def test_a_rule_that_is_not_mandatory_gives_way_and_a_mandatory_one_refuses(soap, cluster):
    names = ["trn-1", "trn-2", "trn-3"]
    change(soap, cluster, rulesSpec=[rule("add", apart(soap, *names))])
    host = soap.host("esx01")
    soap.wait(soap.vm("trn-1").PowerOnVM_Task(host))
    soap.wait(soap.vm("trn-2").PowerOnVM_Task(host))
    assert soap.vm("trn-2").runtime.host == host
    key = next(r.key for r in cluster.configurationEx.rule if r.name == "spread")
    change(soap, cluster, rulesSpec=[rule("edit", APART(key=key, vm=[soap.vm(n) for n in names], mandatory=True))])
    with pytest.raises(vim.fault.RuleViolation) as refused:
        soap.wait(soap.vm("trn-3").PowerOnVM_Task(host))
    assert refused.value.rule.name == "spread"
    change(soap, cluster, rulesSpec=[rule("edit", APART(key=key, vm=[soap.vm(n) for n in names], enabled=False))])
    soap.wait(soap.vm("trn-3").PowerOnVM_Task(host))


def test_a_mandatory_rule_between_vms_and_hosts_holds_at_power_on_and_for_migrations(soap):
    first, second = soap.vm("fix-1"), soap.vm("fix-2")
    with pytest.raises(vim.fault.VmHostAffinityRuleViolation):
        soap.wait(first.PowerOnVM_Task())
    assert power_on(soap, "fix-1")[1] == ["esx02"], "DRS knows where it may be"
    soap.wait(second.PowerOnVM_Task(soap.host("esx02")))
    assert second.runtime.host.name == "esx02.lab.local"
    with pytest.raises(vim.fault.VmHostAffinityRuleViolation):
        soap.wait(second.MigrateVM_Task(None, soap.host("esx03"), "defaultPriority"))


def test_a_host_that_is_not_compatible_is_no_fault_but_another_cluster_is(soap):
    vm, other = soap.vm("trn-1"), soap.host("esx03")
    soap.wait(other.EnterMaintenanceMode_Task(0))
    soap.wait(vm.PowerOnVM_Task(other))
    assert vm.runtime.host.name == "esx01.lab.local", "the current host association is used"
    for name in ("esx04", "esx06"):
        with pytest.raises(vmodl.fault.InvalidArgument):
            soap.vm("trn-2").PowerOnVM_Task(soap.host(name))


def test_an_override_keeps_drs_from_a_vm(soap, cluster):
    info = vim.cluster.DrsVmConfigInfo(key=soap.vm("fix-1"), enabled=False)
    spec = vim.cluster.DrsVmConfigSpec(operation="add", info=info)
    das = vim.cluster.DasVmConfigInfo(key=soap.vm("fix-1"), restartPriority="disabled")
    change(
        soap, cluster, drsVmConfigSpec=[spec], dasVmConfigSpec=[vim.cluster.DasVmConfigSpec(operation="add", info=das)]
    )
    assert [(c.key.name, c.enabled) for c in cluster.configurationEx.drsVmConfig] == [("fix-1", False)]
    assert [c.restartPriority for c in cluster.configurationEx.dasVmConfig] == ["disabled"]
    found, _ = power_on(soap, "fix-1")
    assert isinstance(found.notAttempted[0].fault, vim.fault.VmHostAffinityRuleViolation), "it stays on its host"
    gone = vim.cluster.DrsVmConfigSpec(operation="remove", removeKey=soap.vm("fix-1"))
    change(soap, cluster, drsVmConfigSpec=[gone])
    assert power_on(soap, "fix-1")[1] == ["esx02"]


def test_in_manual_mode_drs_recommends_and_an_option_overrides_that(soap):
    found, _ = power_on(soap, "man-1")
    assert not found.attempted
    assert found.recommendations[0].action[0].targetHost.name == "esx04.lab.local"
    assert soap.vm("man-1").runtime.powerState == "poweredOff"
    power_on(soap, "man-1", OverrideAutomationLevel="fullyAutomated")
    assert soap.vm("man-1").runtime.powerState == "poweredOn"


def test_a_destroyed_vm_leaves_groups_rules_and_overrides(soap, cluster):
    info = vim.cluster.DrsVmConfigInfo(key=soap.vm("trn-1"), behavior="manual")
    change(
        soap,
        cluster,
        rulesSpec=[rule("add", apart(soap, "trn-1", "trn-2")), rule("add", apart(soap, "trn-1", "trn-2", "trn-3",
                                                                                 name="all"))],
        groupSpec=[group("add", vim.cluster.VmGroup(name="set", vm=[soap.vm("trn-1"), soap.vm("trn-2")]))],
        drsVmConfigSpec=[vim.cluster.DrsVmConfigSpec(operation="add", info=info)],
    )  # fmt: skip
    soap.wait(soap.vm("trn-1").Destroy_Task())
    config = cluster.configurationEx
    assert not config.drsVmConfig
    assert {g.name: [vm.name for vm in g.vm] for g in config.group if g.name == "set"} == {"set": ["trn-2"]}
    assert {r.name: len(r.vm) for r in config.rule if isinstance(r, APART)} == {"all": 2}


def test_a_vm_that_is_on_is_not_destroyed(soap):
    vm = soap.vm("trn-1")
    soap.wait(vm.PowerOnVM_Task())
    with pytest.raises(vim.fault.InvalidPowerState):
        soap.wait(vm.Destroy_Task())
    assert vm.runtime.powerState == "poweredOn"
