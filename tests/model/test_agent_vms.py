"""Agent VMs: told by their configuration, left out of patterns, power-offs and capacity, and said in the plan."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.estates import ABOUT, ESX1, ESX2, estate, guest, host, made, vm, wants

from vsphere_ai.errors import InputError, Mark
from vsphere_ai.language.inventories.inventory import Inventory, InventoryGroup, VmSelector
from vsphere_ai.language.inventories.selection import passed_over, select
from vsphere_ai.language.playbooks.play import Rolling
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.state import Target
from vsphere_ai.planning.document import digest, plan_document
from vsphere_ai.report.plans.plan_text import plan_text
from vsphere_ai.resources.host_graphics import HostGraphics

DIRECT = HostGraphics(default_type="shared_direct")
VCLS = Target("vm", "system-01", "VirtualMachine:vm-71")
GUARD = Target("vm", "guard-01", "VirtualMachine:vm-72")
CLOUD = Target("vm", "cloud-01", "VirtualMachine:vm-73")
LIKE = Target("vm", "vCLS-of-mine", "VirtualMachine:vm-74")
INVENTORY = Inventory(
    Path("inventory.yml"),
    vms={"mine": InventoryGroup("mine", VmSelector(names=("*-01",)), Mark("inventory.yml", 1, 1), "")},
)
HERE = Mark("play.yml", 1, 1)


def managed(key, kind="agent"):
    return {"config__managedBy": {"_typeName": "ManagedByInfo", "extensionKey": key, "type": kind}}


def extra(**options):
    return {"config__extraConfig": tuple({"key": k.replace("_", "."), "value": v} for k, v in options.items())}


def farm(*more):
    return estate(
        host(ESX1), host(ESX2), guest(vm(1), ESX1, name="mine-01"),
        guest(VCLS, ESX1, **managed("com.vmware.vim.eam", "cluster-agent")),
        guest(GUARD, ESX1, **managed("com.vmware.vim.eam")), guest(LIKE, ESX1), *more,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("marks", "by"),
    [
        (extra(HDCS_agent="true"), "vSphere Cluster Services"),
        (extra(HDCS_agent="TRUE", a="b"), "vSphere Cluster Services"),
        (extra(vCLSCRX_agent="true"), "vSphere Cluster Services"),
        (extra(HDCS_agent="false"), None),
        (managed("com.vmware.vim.eam", "cluster-agent"), "vSphere Cluster Services"),
        (managed("VirtualCenter", "vcls-entity"), "vSphere Cluster Services"),
        (managed("com.vmware.vim.eam"), "ESX Agent Manager"),
        ({}, None),
    ],
)
def test_what_tells_an_agent_of_vcenter(marks, by):
    seen = estate(host(ESX1), guest(vm(1), ESX1, **marks))
    assert seen.agents.get(vm(1)) == by
    assert (vm(1) in seen.vms) is (by is None)


def test_a_vm_of_another_extension_runs_but_is_not_the_users():
    seen = estate(host(ESX1), guest(CLOUD, ESX1, **managed("com.example.cloud")))
    assert (seen.agents, seen.managed) == ({}, {CLOUD: "com.example.cloud"})
    assert seen.vms == (CLOUD,)  # it takes room on the GPUs like any other one


@pytest.mark.parametrize(
    ("pattern", "meant", "passed"),
    [
        ("all", {"mine-01", LIKE.name}, {"system-01", "guard-01", "cloud-01"}),
        ("*-01", {"mine-01"}, {"system-01", "guard-01", "cloud-01"}),
        ("mine", {"mine-01"}, {"system-01", "guard-01", "cloud-01"}),
        ("vCLS*", {LIKE.name}, set()),
    ],
)
def test_patterns_leave_agents_out(pattern, meant, passed):
    seen = farm(guest(CLOUD, ESX1, **managed("com.example.cloud")))
    assert {t.name for t in select(pattern, "vm", INVENTORY, seen, mark=HERE)} == meant
    assert {t.name for t in passed_over(pattern, INVENTORY, seen)} == passed


@pytest.mark.parametrize("name", ["system-01", VCLS.ref, "/DC0/vm/system-01", "mine-01, system-01"])
def test_naming_an_agent_is_an_error(name):
    with pytest.raises(InputError) as caught:
        select(name, "vm", INVENTORY, farm(), mark=HERE)
    helps = [d.help for d in caught.value.diagnostics]
    assert helps == ["it is an agent VM of vSphere Cluster Services, which looks after it; leave it out"]


def test_agents_are_never_powered_off_whatever_they_are_called():
    plan = made(farm(), {ESX1: wants(DIRECT)})
    assert {v.name for v in plan.impact.power_cycles} == {"mine-01", LIKE.name}
    assert not {p.step.target for p in plan.steps} & {VCLS, GUARD}
    assert [(a.vm, a.by) for a in plan.impact.agents] == [
        (GUARD, "ESX Agent Manager"),
        (VCLS, "vSphere Cluster Services"),
    ]
    gate = next(p.step for p in plan.steps if getattr(p.step, "until", "") == "healthy")
    assert {v.name for v in gate.vms} == {"mine-01", LIKE.name}
    assert "2 agent VMs taken off these hosts by vCenter, not by this plan: guard-01, system-01" in plan_text(
        plan, digest(plan), 300
    )
    assert [a["vm"]["name"] for a in plan_document(plan)["impact"]["agents"]] == ["guard-01", "system-01"]


@pytest.mark.parametrize(
    ("rolling", "other", "stuck"),
    [
        (Rolling(evacuate="power_off"), {}, False),
        (Rolling(evacuate="vmotion"), {}, False),
        (Rolling(evacuate="power_off"), {"runtime__inMaintenanceMode": True}, True),
    ],
)
def test_a_vm_of_an_extension_moves_or_the_plan_is_refused(rolling, other, stuck):
    cloud = guest(CLOUD, ESX1, **managed("com.example.cloud"))
    plan = made(estate(host(ESX1), host(ESX2, **other), cloud), {ESX1: wants(DIRECT, rolling=rolling)})
    found = [p for p in plan.problems if p.target == CLOUD]
    assert [(p.rule, p.remedy) for p in found] == (
        [("vm.managed", "move it or power it off with com.example.cloud first")] if stuck else []
    )
    assert plan.impact.power_cycles == ()


def test_a_vm_of_a_vapp_is_where_its_vapp_is():
    seen = Estate(ABOUT, {f.ref: f for f in (
        Facts("Folder:1", {"name": "Datacenters"}),
        Facts("Datacenter:1", {"name": "DC0", "parent": "Folder:1"}),
        Facts("Folder:2", {"name": "vm", "parent": "Datacenter:1"}),
        Facts("VirtualApp:1", {"name": "shop", "parent": "ResourcePool:1", "parentFolder": "Folder:2"}),
        Facts("VirtualMachine:1", {"name": "till", "parentVApp": "VirtualApp:1"}),
    )})  # fmt: skip
    assert seen.path_of("VirtualMachine:1") == "/DC0/vm/shop/till"
    assert seen.datacenter_of("VirtualMachine:1") == Target("datacenter", "DC0", "Datacenter:1")
