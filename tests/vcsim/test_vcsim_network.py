"""Distributed switches, port groups and members before VMware's own simulator: only what it really implements.

It keeps names, uplinks, port settings and members; it has no MTU, versions of configurations, or NICs of members.
"""

from __future__ import annotations

import pytest
from support.estates import wants

from vsphere_ai.connect.vcenter import VCenter
from vsphere_ai.errors import VimFault
from vsphere_ai.execution.actions.context import Context
from vsphere_ai.execution.actions.executor import StepExecutor
from vsphere_ai.model.steps import Wait
from vsphere_ai.planning.planner import make_plan, observe
from vsphere_ai.reading.collector import CollectorRequest, Depth, collect
from vsphere_ai.resources.port_groups import PortGroups
from vsphere_ai.resources.switches import Switches
from vsphere_ai.resources.uplinks import Uplinks

pytestmark = pytest.mark.vcsim
TOO_OLD = {"vcenter.version", "esxi.version"}  # of the rules, not of the kinds: the simulator says it is a 6.5
KINDS = {k.kind: k for k in (Switches, PortGroups, Uplinks)}
GROUP = {
    "switch": "dvs-rdma",
    "vlan": 100,
    "active_uplinks": ("Uplink 1",),
    "security": {"promiscuous": False, "mac_changes": False, "forged_transmits": True},
    "mac_learning": True,
}


@pytest.fixture
def vcenter(vcsim, limits):
    with VCenter.connect(vcsim.endpoint(), limits=limits) as connected:
        yield connected


def read(vcenter):
    paths = {}
    for kind in KINDS.values():
        for managed, asked in kind.traits.properties.items():
            paths[managed] = tuple({*paths.get(managed, ()), *asked})
    return collect(vcenter, None, CollectorRequest(paths, lambda seen: Depth(frozenset(h.ref for h in seen.hosts))))


def plan_for(estate, **wanted):
    """Plan switches and port groups of the datacenter, and uplinks of its first host."""
    own = [KINDS[k].model_validate({k: v}) for k, v in wanted.items() if k != "uplinks"]
    desired = {estate.datacenters[0]: wants(*own)}
    if "uplinks" in wanted:
        desired[estate.hosts[0]] = wants(Uplinks.model_validate({"uplinks": wanted["uplinks"]}))
    return make_plan(desired, estate, KINDS)


def carry_out(vcenter, estate, plan):
    """Do the steps of a plan; return their methods."""
    assert {p.rule for p in plan.problems} <= TOO_OLD
    executor = StepExecutor(Context(vcenter, None, lambda target: (), {}, {}, planned=estate.objects))
    done = []
    for planned in plan.steps:
        if not isinstance(planned.step, Wait):
            executor.do(planned.step, lambda line: None)
            done.append(planned.step.method)
    return done


def test_a_switch_and_its_port_group_are_made_and_then_as_planned(vcenter):
    estate = read(vcenter)
    wanted = {"switches": {"dvs-rdma": {"uplinks": ("Uplink 1",)}}, "port_groups": {"dvpg-rdma": GROUP}}
    done = carry_out(vcenter, estate, plan_for(estate, **wanted))
    assert done == ["CreateDVS_Task", "AddDVPortgroup_Task"]
    after = read(vcenter)
    states = observe(after, KINDS)
    switch = states[after.datacenters[0].ref, "switches"].switches["dvs-rdma"]
    assert switch.uplinks == ("Uplink 1",)
    group = states[after.datacenters[0].ref, "port_groups"].port_groups["dvpg-rdma"]
    assert (group.switch, group.vlan, group.active_uplinks) == ("dvs-rdma", 100, ("Uplink 1",))
    assert (group.security.forged_transmits, group.mac_learning) == (True, True)
    assert plan_for(after, port_groups={"dvpg-rdma": GROUP}).changed() == ()


def test_a_port_group_is_changed_to_a_trunk(vcenter):
    estate = read(vcenter)
    carry_out(vcenter, estate, plan_for(estate, port_groups={"DC0_DVPG0": {"trunk": ("100-199", "300")}}))
    after = read(vcenter)
    now = observe(after, KINDS)[after.datacenters[0].ref, "port_groups"].port_groups
    assert now["DC0_DVPG0"].trunk == ("100-199", "300")


def test_a_name_that_is_taken_is_refused_before_and_by_the_server(vcenter):
    estate = read(vcenter)
    plan = plan_for(estate, switches={"DC0_DVPG0": {}}, port_groups={"VM Network": {"switch": "DVS0"}})
    assert {p.rule for p in plan.problems} - TOO_OLD == {"switches.name", "port_groups.name"}
    spec = ({"_typeName": "DVPortgroupConfigSpec", "name": "DC0_DVPG0"},)
    switch = next(f for f in estate.of_type("DistributedVirtualSwitch", "VmwareDistributedVirtualSwitch"))
    with pytest.raises(VimFault) as caught:
        vcenter.run_task(switch.ref, "AddDVPortgroup_Task", {"spec": spec}, timeout=20)
    assert caught.value.fault == "DuplicateName"


def test_a_host_joins_a_switch_that_the_same_plan_makes(vcenter):
    estate = read(vcenter)
    wanted = {"switches": {"dvs-rdma": {"uplinks": ("Uplink 1",)}}, "uplinks": {"dvs-rdma": {}}}
    assert carry_out(vcenter, estate, plan_for(estate, **wanted)) == ["CreateDVS_Task", "ReconfigureDvs_Task"]
    found = vcenter.read({"DistributedVirtualSwitch": ("name", "summary.hostMember")})
    members = {f.name: f.get("summary.hostMember") for f in found.values()}
    assert members["dvs-rdma"] == (estate.hosts[0].ref,)
